package faults

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// memory is a number of bytes from the kernel's account of the program: VmRSS now, VmHWM at most.
func (e *edge) memory(name string) int64 {
	e.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.cmd.Process.Pid))
	if err != nil {
		e.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				e.t.Fatal(err)
			}
			return n << 10
		}
	}
	e.t.Fatalf("the kernel does not say %s", name)
	return 0
}

// wantPeak checks what the program has used at most. The race detector multiplies it.
func (e *edge) wantPeak(t testing.TB, limit int64) {
	t.Helper()
	if n := e.memory("VmHWM"); n > limit && !raceOn {
		t.Errorf("the program grew to %d MiB, want at most %d", n>>20, limit>>20)
	}
}
