package process

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
)

// MemorySource is the source of a memory limit.
type MemorySource string

// The sources, in the order in which they are checked.
const (
	MemoryFromGOMEMLIMIT MemorySource = "GOMEMLIMIT"
	MemoryFromCgroup     MemorySource = "cgroup"
	MemoryFromPhysical   MemorySource = "physical memory"
	MemoryAssumed        MemorySource = "assumed"
)

// assumedMemory is the limit on systems that do not report their memory.
const assumedMemory = 1 << 30

// cgroupShare is the share of the cgroup's limit that the runtime may use. The remaining memory is
// for what the kernel counts in addition to the Go heap, such as socket buffers.
const cgroupShare = 0.9

// memoryLimit returns how many bytes this process may use: the Go runtime's limit (GOMEMLIMIT), the
// lowest limit of the process's cgroups, or the physical memory.
func memoryLimit() (int64, MemorySource) {
	if n := debug.SetMemoryLimit(-1); n != math.MaxInt64 {
		return n, MemoryFromGOMEMLIMIT
	}
	return systemMemory(os.DirFS("/"))
}

// ApplyMemoryLimit sets the runtime's memory limit to 90 % of the cgroup's limit, unless GOMEMLIMIT
// is set. The collector therefore works harder before the kernel would kill the process. Call
// ApplyMemoryLimit once, before large allocations.
func ApplyMemoryLimit() (int64, MemorySource) {
	n, source := memoryLimit()
	if source == MemoryFromCgroup {
		n = int64(float64(n) * cgroupShare)
		debug.SetMemoryLimit(n)
	}
	appliedMemoryLimit.Store(&appliedLimit{n, source})
	return n, source
}

var appliedMemoryLimit atomic.Pointer[appliedLimit]

type appliedLimit struct {
	bytes  int64
	source MemorySource
}

func systemMemory(root fs.FS) (int64, MemorySource) {
	physical := physicalMemory(root)
	// A version 1 cgroup without a limit reports a huge number.
	if n := cgroupMemoryLimit(root); n > 0 && (physical == 0 || n < physical) {
		return n, MemoryFromCgroup
	}
	if physical > 0 {
		return physical, MemoryFromPhysical
	}
	return assumedMemory, MemoryAssumed
}

// cgroupMemoryLimit returns the lowest memory limit of the process's cgroups, or 0. Lines of
// /proc/self/cgroup have the format "id:controllers:path". Version 2 has one line with id 0 and no
// controllers (cgroups(7)).
func cgroupMemoryLimit(root fs.FS) int64 {
	file, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	var tightest int64
	for line := range strings.Lines(string(file)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		mount, name := "sys/fs/cgroup", "memory.max"
		switch {
		case fields[0] == "0" && fields[1] == "":
		case strings.Contains(","+fields[1]+",", ",memory,"):
			mount, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		if n := lowestCgroupLimit(root, mount, fields[2], name); n > 0 && (tightest == 0 || n < tightest) {
			tightest = n
		}
	}
	return tightest
}

// lowestCgroupLimit returns the lowest limit from the cgroup up to the mount. In a container, the
// path may be the host's path, so directories may be missing.
func lowestCgroupLimit(root fs.FS, mount, cgroup, name string) int64 {
	var tightest int64
	for dir := path.Clean("/" + cgroup); ; dir = path.Dir(dir) {
		if b, err := fs.ReadFile(root, path.Join(mount, dir, name)); err == nil {
			// In version 2, "max" is not a number and means that there is no limit.
			n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
			if err == nil && n > 0 && (tightest == 0 || n < tightest) {
				tightest = n
			}
		}
		if dir == "/" {
			return tightest
		}
	}
}

// physicalMemory reads MemTotal, in KiB, from /proc/meminfo (proc(5)). It returns 0 if the file
// does not exist.
func physicalMemory(root fs.FS) int64 {
	f, err := root.Open("proc/meminfo")
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "MemTotal:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}
