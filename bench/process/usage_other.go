//go:build !unix

package process

import "time"

// CPUTime is not known on this system.
func CPUTime() (time.Duration, bool) { return 0, false }

// MaxRSS is not known on this system.
func MaxRSS() (int64, bool) { return 0, false }

// FileLimit is not known on this system.
func FileLimit() uint64 { return 0 }
