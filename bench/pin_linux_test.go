package bench

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock/config/testkit/fastset"
)

// allowed is the line of /proc that says where a process, or one of its threads, may run.
func allowed(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "Cpus_allowed_list:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// TestChildOnAProcessor starts a child on one processor, which changes nothing for us.
func TestChildOnAProcessor(t *testing.T) {
	all := processors()
	if len(all) == 0 {
		t.Fatal("no processors")
	}
	last := all[len(all)-1:]
	c, err := startChild(t.Context(), "child", []string{"/bin/sleep", "60"}, last, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.kill()
	if got := allowed(t, "/proc/"+strconv.Itoa(c.cmd.Process.Pid)); got != numbers(last) {
		t.Errorf("the child runs on %s, want %s", got, numbers(last))
	}
	threads, err := filepath.Glob("/proc/self/task/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		if got := allowed(t, thread); got != numbers(all) {
			t.Errorf("a thread of ours may run on %s, want %s", got, numbers(all))
		}
	}
	if c, err := startChild(t.Context(), "child", []string{"/bin/sleep", "60"}, []int{1 << 9}, nil); err == nil {
		c.kill()
		t.Error("a child runs on a processor that does not exist")
	}
}

// TestPlacement binds this process for a moment.
func TestPlacement(t *testing.T) {
	all, threads := processors(), runtime.GOMAXPROCS(0)
	if len(all) < 2 {
		t.Skip("needs two processors")
	}
	p, undo := place(false)
	if got := numbers(processors()); got != numbers(all[:len(all)-1]) || len(p.proxy) != 1 || runtime.GOMAXPROCS(0) != len(all)-1 || !strings.Contains(p.text, "alone on processor "+numbers(p.proxy)) {
		t.Errorf("client on %s, %+v", got, p)
	}
	undo()
	if got := processors(); len(got) != len(all) || runtime.GOMAXPROCS(0) != threads {
		t.Errorf("afterwards the client is on %v, with %d threads of work", got, runtime.GOMAXPROCS(0))
	}
	if p, undo := place(true); p.proxy != nil || p.rest != nil || !strings.HasPrefix(p.text, "Not bound") {
		undo()
		t.Errorf("not to be bound: %+v", p)
	}
}

func TestNumbers(t *testing.T) {
	for want, list := range map[string][]int{"": nil, "3": {3}, "0-2": {0, 1, 2}, "0,2-3,9": {0, 2, 3, 9}} {
		if got := numbers(list); got != want {
			t.Errorf("%v is %q, want %q", list, got, want)
		}
	}
}

// TestOverheadOnProcessors measures with the program, whose children are looked at while it does.
func TestOverheadOnProcessors(t *testing.T) {
	fastset.LeaveOut(t, "overhead on processors of its own")
	all := processors()
	if len(all) < 2 {
		t.Skip("needs two processors")
	}
	t.Parallel()
	ownProgram(t)
	program, err := executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "o.json")
	var out bytes.Buffer
	cmd := exec.Command(program, "bench", "overhead", "--rounds=1", "--duration=1s", "--rate=50", "--tests=latency", "--beside=", "-o", file)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for running := true; running; {
		for _, child := range childrenOf(t, cmd.Process.Pid) {
			path := "/proc/" + strconv.Itoa(child)
			line, err := os.ReadFile(path + "/cmdline")
			words := strings.Split(string(line), "\x00")
			if status, err2 := os.ReadFile(path + "/status"); err == nil && err2 == nil && len(words) > 1 && words[0] == program {
				_, rest, _ := strings.Cut(string(status), "Cpus_allowed_list:")
				list, _, _ := strings.Cut(rest, "\n")
				seen[words[1]] = strings.TrimSpace(list)
			}
		}
		select {
		case err = <-ended:
			running = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	last := len(all) - 1
	if seen["serve"] != numbers(all[last:]) || seen["sim"] != numbers(all[:last]) {
		t.Errorf("the edge ran on %q, the engine on %q of %v", seen["serve"], seen["sim"], all)
	}
	var report OverheadReport
	b, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(b, &report) != nil || !strings.Contains(report.Placement, "alone on processor "+numbers(all[last:])) || !strings.Contains(out.String(), report.Placement) || len(report.Tests) != 2 {
		t.Errorf("%v: %+v\n%s", err, report, out.String())
	}
}
