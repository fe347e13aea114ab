//go:build !unix

package process

import "time"

// CPUTime returns false, because this system does not report CPU time.
func CPUTime() (time.Duration, bool) { return 0, false }

// MaxRSS returns false, because this system does not report resident memory.
func MaxRSS() (int64, bool) { return 0, false }

// FileLimit returns 0, because this system does not report the limit.
func FileLimit() uint64 { return 0 }
