package call

import (
	"time"

	"penstock/proxy/running/snapshot"
)

// callConfig is the snapshot used by a call. The call starts with the snapshot that is current
// at that time, and may move to a newer one.
type callConfig struct {
	startVersion *snapshot.ConfigVersion
	snapshot     *snapshot.Snapshot
	model        *snapshot.Model // nil until the model is known
}

func (c *callConfig) initFromSnapshot(s *snapshot.Snapshot) {
	c.snapshot, c.startVersion = s, s.ConfigVersion
	c.startVersion.BeginCall()
}

// adoptSnapshot moves the call to the newest snapshot. It returns false if the call already uses
// the newest snapshot, or if the newest snapshot does not contain the call's model.
func (c *callConfig) adoptSnapshot(newest *snapshot.Snapshot) bool {
	if newest == c.snapshot {
		return false
	}
	m, ok := newest.ModelByID(c.model.Config.ID)
	if ok {
		c.snapshot, c.model = newest, m
	}
	return ok
}

func (c *callConfig) writeTimeout() time.Duration {
	if c.model != nil {
		return c.model.Clocks.Write.D()
	}
	return c.snapshot.Config.Timeouts.Write.D()
}

// requestedModel returns the model that the client requested. If a fallback model answers, asked is
// the id of the requested model; otherwise it is empty. requestedModel returns nil if the model is
// unknown.
func (c *callConfig) requestedModel(asked string) *snapshot.Model {
	if asked != "" {
		if m, ok := c.snapshot.ModelByID(asked); ok {
			return m
		}
	}
	return c.model
}
