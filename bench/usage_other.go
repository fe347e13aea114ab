//go:build !unix

package bench

import "time"

// cpuTime is not known on this system.
func cpuTime() (time.Duration, bool) { return 0, false }

// maxRSS is not known on this system.
func maxRSS() (int64, bool) { return 0, false }

// fileLimit is not known on this system.
func fileLimit() uint64 { return 0 }
