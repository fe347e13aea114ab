//go:build race

package e2e

import "time"

const raceOn = true

const slack = 900 * time.Millisecond
