package bench

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestChildrenEndWithUs ends a scenario from outside, in the ways in which that happens: nothing that it started lives on, and where it
// can still speak it prints the report so far.
func TestChildrenEndWithUs(t *testing.T) {
	t.Parallel()
	ownProgram(t)
	program, err := executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		signal syscall.Signal
		group  bool // as Ctrl-C in a terminal does: the signal goes to all of the group
		report bool
	}{
		"interrupt": {syscall.SIGINT, true, true},
		"terminate": {syscall.SIGTERM, false, true},
		"kill":      {syscall.SIGKILL, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			progress := new(lastLines)
			cmd := exec.Command(program, "bench", "run", "--scenario", "failover", "-z", "10m", "-r", "20", "--random-output-len", "5", "--random-input-len", "20", "--no-floor")
			cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
			cmd.Stdout, cmd.Stderr = &out, progress
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pid := cmd.Process.Pid
			var children []int
			until(t, "three engines and an edge", func() bool {
				children = childrenOf(t, pid)
				return len(children) == 4
			})
			if c.report {
				until(t, "progress", func() bool { return strings.Contains(progress.String(), "req/s") })
			}
			to := pid
			if c.group {
				to = -pid
			}
			if err := syscall.Kill(to, c.signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // its exit code is that of a run that was stopped
			for _, child := range children {
				until(t, "end of a child", func() bool { return parentOf(child) == 0 })
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

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s in a minute", what)
		}
	}
}

// childrenOf lists the processes that one has started.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, path := range all {
		if id, err := strconv.Atoi(filepath.Base(path)); err == nil && parentOf(id) == pid {
			out = append(out, id)
		}
	}
	return out
}

// parentOf is the process that started another; 0 when that one has ended, even if nobody has asked for its exit code yet.
func parentOf(pid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ") // behind the name
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}
