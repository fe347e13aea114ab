package snapshot

import (
	"sync/atomic"
	"time"
)

// ConfigVersion identifies a snapshot: its number, when it took effect, and how many calls began
// with it and have not ended. A reload whose keys take effect before its routes shares the running
// version.
type ConfigVersion struct {
	Version uint64
	Since   time.Time
	calls   atomic.Int64
}

// BeginCall counts a call that begins with this version, until its EndCall.
func (v *ConfigVersion) BeginCall() { v.calls.Add(1) }

// EndCall ends a call that BeginCall has counted.
func (v *ConfigVersion) EndCall() { v.calls.Add(-1) }

// Calls returns how many calls that began with this version have not ended.
func (v *ConfigVersion) Calls() int64 { return v.calls.Load() }
