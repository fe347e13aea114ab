package call

import (
	"time"

	"penstock/proxy/running/snapshot"
)

// configuration holds the snapshot that applies to a call: the one with which the call started, or
// a newer one to which the call has moved.
type configuration struct {
	begun    *snapshot.ConfigVersion // version of the snapshot with which the call started
	snapshot *snapshot.Snapshot
	model    *snapshot.Model // nil until the model is known
}

func (c *configuration) begin(s *snapshot.Snapshot) {
	c.snapshot, c.begun = s, s.ConfigVersion
	c.begun.BeginCall()
}

// follow moves the call to the newest snapshot. It returns false if there is no newer snapshot, or
// if the newest snapshot lacks the call's model.
func (c *configuration) follow(newest *snapshot.Snapshot) bool {
	if newest == c.snapshot {
		return false
	}
	m, ok := newest.ModelByID(c.model.Config.ID)
	if ok {
		c.snapshot, c.model = newest, m
	}
	return ok
}

// writeTimeout returns how long a write to the client may take.
func (c *configuration) writeTimeout() time.Duration {
	if c.model != nil {
		return c.model.Clocks.Write.D()
	}
	return c.snapshot.Config.Timeouts.Write.D()
}
