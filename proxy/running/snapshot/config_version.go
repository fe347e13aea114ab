package snapshot

import (
	"sync/atomic"
	"time"
)

// ConfigVersion is the version number of a snapshot, with its start time and the number of its
// running calls. Applying only the keys of a new file does not change the version.
type ConfigVersion struct {
	Version uint64
	Since   time.Time
	calls   atomic.Int64
}

// BeginCall counts a call that starts with this version.
func (v *ConfigVersion) BeginCall() { v.calls.Add(1) }

// EndCall ends a call counted by BeginCall.
func (v *ConfigVersion) EndCall() { v.calls.Add(-1) }

// Calls returns the number of running calls that started with this version.
func (v *ConfigVersion) Calls() int64 { return v.calls.Load() }
