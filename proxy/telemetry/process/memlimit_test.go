package process

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

func TestSystemMemory(t *testing.T) {
	const gib = 1 << 30
	meminfo := "MemTotal:        8388608 kB\nMemFree: 1 kB\n"
	for _, c := range []struct {
		name   string
		files  map[string]string
		want   int64
		source MemorySource
	}{
		{"nothing is known", nil, gib, MemoryAssumed},
		{"no cgroup", map[string]string{"proc/meminfo": meminfo}, 8 * gib, MemoryFromPhysical},
		{"version 2", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1073741824\n",
		}, gib, MemoryFromCgroup},
		{"version 2, the parent is tighter", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "2147483648\n", "sys/fs/cgroup/a/memory.max": "1073741824\n",
		}, gib, MemoryFromCgroup},
		{"version 2, unlimited", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n",
		}, 8 * gib, MemoryFromPhysical},
		{"version 2, the host's path in a container", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/../../pod/x\n", "sys/fs/cgroup/memory.max": "1073741824\n",
		}, gib, MemoryFromCgroup},
		{"version 1", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "7:cpu,cpuacct:/x\n4:memory:/a\n1:name=systemd:/a\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1073741824\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
		}, gib, MemoryFromCgroup},
		{"version 1, unlimited", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 8 * gib, MemoryFromPhysical},
		{"both versions", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "4:cpu,memory:/\n0::/x\nrubbish\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n",
			"sys/fs/cgroup/x/memory.max":                 "2147483648\n",
		}, gib, MemoryFromCgroup},
		{"rubbish", map[string]string{
			"proc/meminfo": "MemTotal: much\n", "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "-5\n",
		}, gib, MemoryAssumed},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, data := range c.files {
				root[name] = &fstest.MapFile{Data: []byte(data)}
			}
			if n, source := systemMemory(root); n != c.want || source != c.source {
				t.Errorf("%d from %s, want %d from %s", n, source, c.want, c.source)
			}
		})
	}
}

func TestMemoryLimitPrefersTheRuntime(t *testing.T) {
	old := debug.SetMemoryLimit(123 << 20)
	defer debug.SetMemoryLimit(old)
	if n, source := ApplyMemoryLimit(); n != 123<<20 || source != MemoryFromGOMEMLIMIT {
		t.Errorf("limit = %d from %s, want %d from %s", n, source, 123<<20, MemoryFromGOMEMLIMIT)
	}
	if n := debug.SetMemoryLimit(-1); n != 123<<20 {
		t.Errorf("the runtime's limit became %d", n)
	}
	debug.SetMemoryLimit(math.MaxInt64)
	if n, source := memoryLimit(); n <= 0 || source == MemoryFromGOMEMLIMIT {
		t.Errorf("limit = %d from %s, want one from another source than the runtime", n, source)
	}
}
