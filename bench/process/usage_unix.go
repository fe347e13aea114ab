//go:build unix

package process

import (
	"runtime"
	"syscall"
	"time"
)

// CPUTime returns the CPU time that the process has used.
func CPUTime() (time.Duration, bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}

// MaxRSS returns the maximum resident memory of the process in bytes.
func MaxRSS() (int64, bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return u.Maxrss, true
	}
	return int64(u.Maxrss) * 1024, true //nolint:unconvert // it has 32 bits on some systems
}

// FileLimit returns the maximum number of file descriptors that the process may open. Go raises the
// soft limit to the hard limit.
func FileLimit() uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return uint64(l.Cur) //nolint:unconvert // it is signed on some systems
}
