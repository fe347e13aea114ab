package bench

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"penstock/bench/benchtest"
	"penstock/bench/process"
)

// TestChildrenEndWithUs checks that all child processes of a scenario exit, regardless of how the
// scenario is stopped. If the scenario's output can still be read, the scenario must print the
// results so far.
func TestChildrenEndWithUs(t *testing.T) {
	t.Parallel()
	benchtest.BuildProgram(t)
	program, err := process.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		signal syscall.Signal
		group  bool // the whole process group receives the signal, as with Ctrl-C in a terminal
		report bool
	}{
		"interrupt": {syscall.SIGINT, true, true},
		"terminate": {syscall.SIGTERM, false, true},
		"kill":      {syscall.SIGKILL, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			progress := new(lockedText)
			cmd := exec.Command(program, "bench", "run", "--scenario", "failover", "-z", "10m", "-r", "20", "--random-output-len", "5", "--random-input-len", "20")
			cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
			cmd.Stdout, cmd.Stderr = &out, progress
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pid := cmd.Process.Pid
			var children []int
			benchtest.WaitUntil(t, "three engines and an edge", func() bool {
				children = benchtest.ChildrenOf(t, pid)
				return len(children) == 4
			})
			if c.report {
				benchtest.WaitUntil(t, "progress", func() bool { return strings.Contains(progress.String(), "req/s") })
			}
			to := pid
			if c.group {
				to = -pid
			}
			if err := syscall.Kill(to, c.signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // the exit code of a stopped run does not matter
			for _, child := range children {
				benchtest.WaitUntil(t, "end of a child", func() bool { return benchtest.ParentOf(child) == 0 })
			}
			if !c.report {
				return
			}
			for _, want := range []string{"Serving Benchmark Result", "Failed requests:                         0", "the run was stopped before its end"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s\n%s", want, out.String(), progress)
				}
			}
		})
	}
}

// lockedText collects the output of a process. It is safe for concurrent use.
type lockedText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
