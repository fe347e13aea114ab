package overhead

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

	"penstock/bench/benchtest"
	"penstock/bench/process"
	"penstock/config/testkit/fastset"
)

// TestPlacement pins this process to CPUs for a short time, and checks its placement.
func TestPlacement(t *testing.T) {
	all, threads := process.AllowedCPUs(), runtime.GOMAXPROCS(0)
	if len(all) < 2 {
		t.Skip("needs two processors")
	}
	p, undo := divideCPUs(false)
	if got := process.FormatCPUs(process.AllowedCPUs()); got != process.FormatCPUs(all[:len(all)-1]) || len(p.proxyCPUs) != 1 || runtime.GOMAXPROCS(0) != len(all)-1 || !strings.Contains(p.text, "alone on processor "+process.FormatCPUs(p.proxyCPUs)) {
		t.Errorf("client on %s, %+v", got, p)
	}
	undo()
	if got := process.AllowedCPUs(); len(got) != len(all) || runtime.GOMAXPROCS(0) != threads {
		t.Errorf("afterwards the client is on %v, with %d threads of work", got, runtime.GOMAXPROCS(0))
	}
	if p, undo := divideCPUs(true); p.proxyCPUs != nil || p.otherCPUs != nil || !strings.HasPrefix(p.text, "Not bound") {
		undo()
		t.Errorf("not to be bound: %+v", p)
	}
}

// TestOverheadOnProcessors runs a measurement with the real program, and checks which CPUs its
// child processes run on.
func TestOverheadOnProcessors(t *testing.T) {
	fastset.SkipIfShort(t, "overhead on processors of its own")
	all := process.AllowedCPUs()
	if len(all) < 2 {
		t.Skip("needs two processors")
	}
	t.Parallel()
	benchtest.BuildProgram(t)
	program, err := process.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "o.json")
	var out bytes.Buffer
	cmd := exec.Command(program, "bench", "overhead", "--rounds=1", "--duration=1s", "--rate=50", "--tests=latency", "--beside=", "--format=json", "-o", file)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for running := true; running; {
		for _, child := range benchtest.ChildrenOf(t, cmd.Process.Pid) {
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
		t.Fatalf("run: %v, want no error: %s", err, out.String())
	}
	last := len(all) - 1
	if seen["serve"] != process.FormatCPUs(all[last:]) || seen["sim"] != process.FormatCPUs(all[:last]) {
		t.Errorf("the edge ran on %q, the engine on %q of %v", seen["serve"], seen["sim"], all)
	}
	var report Report
	b, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(b, &report) != nil || !strings.Contains(report.Placement, "alone on processor "+process.FormatCPUs(all[last:])) || len(report.Tests) != 2 {
		t.Errorf("report: %v, want 2 tests alone on the last processor: %+v\n%s", err, report, out.String())
	}
}
