//go:build !unix

package process

import "time"

// CPUTime returns false: this system does not report the processor time.
func CPUTime() (time.Duration, bool) { return 0, false }

// MaxRSS returns false: this system does not report the resident memory.
func MaxRSS() (int64, bool) { return 0, false }

// FileLimit returns 0: this system does not report the limit.
func FileLimit() uint64 { return 0 }
