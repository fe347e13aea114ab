//go:build !race

package e2e

import "time"

// raceOn says that the race detector slows everything down.
const raceOn = false

// slack is added to every limit that a test holds, because the machine may be busy.
const slack = 100 * time.Millisecond
