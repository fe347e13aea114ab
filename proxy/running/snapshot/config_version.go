package snapshot

import (
	"sync/atomic"
	"time"
)

// ConfigVersion identifies a snapshot by its number. It also holds the time at which the snapshot
// took effect, and the number of its running calls. While the keys of a reload are in force before
// its models, they share the running version.
type ConfigVersion struct {
	Version uint64
	Since   time.Time
	calls   atomic.Int64
}

// BeginCall counts a call that starts with this version. EndCall ends it.
func (v *ConfigVersion) BeginCall() { v.calls.Add(1) }

// EndCall ends a call that BeginCall has counted.
func (v *ConfigVersion) EndCall() { v.calls.Add(-1) }

// Calls returns how many running calls started with this version.
func (v *ConfigVersion) Calls() int64 { return v.calls.Load() }
