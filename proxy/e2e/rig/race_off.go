//go:build !race

package rig

import "time"

// RaceOn says that the tests and the program are built for the race detector, and everything is slow.
const RaceOn = false

// Slack is added to every limit that a test holds, because the machine may be busy.
const Slack = 400 * time.Millisecond
