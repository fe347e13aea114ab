package rig

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"penstock/config/testkit/raced"
)

// MemoryBytes returns a number of bytes from the program's status file in /proc. VmRSS is the current
// memory use, and VmHWM is the peak.
func (p *Process) MemoryBytes(name string) int64 {
	p.t.Helper()
	for line := range strings.Lines(p.readProc("status")) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return n << 10
		}
	}
	p.t.Fatalf("the kernel does not say %s", name)
	return 0
}

// WantPeakMemory checks the program's peak memory in bytes, except under the race detector, which
// multiplies memory use.
func (p *Process) WantPeakMemory(limit int64) {
	p.t.Helper()
	if n := p.MemoryBytes("VmHWM"); n > limit && !raced.Enabled {
		p.t.Errorf("the program grew to %d MiB, want at most %d", n>>20, limit>>20)
	}
}

// DescriptorCount returns how many files and sockets the program has open.
func (p *Process) DescriptorCount() int {
	p.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	return len(entries)
}

// CPUTime returns the processor time that the program has used so far.
func (p *Process) CPUTime() time.Duration {
	p.t.Helper()
	// The numeric fields follow the name, which may contain any text.
	_, rest, _ := strings.Cut(p.readProc("stat"), ") ")
	fields := strings.Fields(rest)
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err := errors.Join(err1, err2); err != nil {
		p.t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

func (p *Process) readProc(page string) string {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.Cmd.Process.Pid, page))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}
