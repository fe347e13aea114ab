package rig

import (
	"time"

	"penstock/config/testkit/raced"
)

// Slack is added to every time limit for a measurement, because the machine may be busy.
var Slack = slack()

func slack() time.Duration {
	if raced.On {
		return 900 * time.Millisecond
	}
	return 400 * time.Millisecond
}
