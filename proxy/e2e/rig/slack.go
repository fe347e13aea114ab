package rig

import (
	"time"

	"penstock/config/testkit/raced"
)

// MachineSlack is added to every time limit for a measurement, because the machine may be busy.
var MachineSlack = measureSlack()

func measureSlack() time.Duration {
	if raced.Enabled {
		return 900 * time.Millisecond
	}
	return 400 * time.Millisecond
}
