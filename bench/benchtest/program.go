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

// BuildProgram builds the program once for all tests, and makes process.Executable return it.
func BuildProgram(t *testing.T) {
	t.Helper()
	if err := buildOnce(); err != nil {
		t.Fatal(err)
	}
}

// programDir is the directory that contains the built program, or "" if it has not been built yet.
var programDir string

var buildOnce = sync.OnceValue(func() (err error) {
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

// ChildrenOf returns the child processes of a process.
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

// ParentOf returns the parent of a process. If the process has exited or is a zombie, it returns 0.
func ParentOf(pid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ") // skips the name, which may contain spaces
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

// WaitUntil waits up to a minute for ok to return true.
func WaitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s in a minute", what)
		}
	}
}

// Main is the TestMain function of packages whose tests start engines. It runs more tests in
// parallel than there are processors, because parallel tests mostly wait for engines. Tests that
// measure milliseconds or need much CPU time are not marked as parallel, so they run alone.
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
