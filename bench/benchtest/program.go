package benchtest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"penstock/bench/process"
)

// OwnProgram builds the program, once for all tests, and makes children of it.
func OwnProgram(t *testing.T) {
	t.Helper()
	if err := built(); err != nil {
		t.Fatal(err)
	}
}

// programDir is where it is; empty when no test needed it.
var programDir string

var built = sync.OnceValue(func() (err error) {
	if programDir, err = os.MkdirTemp("", "penstock-bench-test-"); err != nil {
		return err
	}
	path := filepath.Join(programDir, "penstock")
	process.Executable = func() (string, error) { return path, nil }
	if out, err := exec.Command("go", "build", "-o", path, "penstock").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}
	return nil
})

// ChildrenOf lists the processes that one has started.
func ChildrenOf(t *testing.T, pid int) []int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, path := range all {
		if id, err := strconv.Atoi(filepath.Base(path)); err == nil && ParentOf(id) == pid {
			out = append(out, id)
		}
	}
	return out
}

// ParentOf is the process that started another; 0 when that one has ended, even if nobody has asked
// for its exit code yet.
func ParentOf(pid int) int {
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

// Until waits for a condition.
func Until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s in a minute", what)
		}
	}
}

// Main is the TestMain of packages whose tests start engines. It lets more tests run side by side
// than there are processors: those that are marked so wait for engines, most of the time. What is
// measured to the millisecond, and what computes, is not marked and runs alone.
func Main(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if programDir != "" {
			_ = os.RemoveAll(programDir)
		}
		os.Exit(code)
	}))
}
