package snapshot

import (
	"sync/atomic"
	"time"
)

// ConfigVersion identifies a snapshot: its number, when it took effect, and the number of its calls
// that are still running. If the keys of a reload take effect before its routes, they share the
// running version.
type ConfigVersion struct {
	Version uint64
	Since   time.Time
	calls   atomic.Int64
}

// BeginCall counts a call that begins with this version. EndCall ends it.
func (v *ConfigVersion) BeginCall() { v.calls.Add(1) }

// EndCall ends a call that BeginCall has counted.
func (v *ConfigVersion) EndCall() { v.calls.Add(-1) }

// Calls returns the number of running calls that began with this version.
func (v *ConfigVersion) Calls() int64 { return v.calls.Load() }
