package faults

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

// program is the path of the built program.
var program string

// TestMain builds the program and removes it at the end.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		at := "24" // the tests wait most of the time
		if raceOn {
			at = "6" // the race detector makes them work
		}
		_ = f.Value.Set(at)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "penstock-faults-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "penstock")
	args := []string{"build", "-o", program}
	if raceOn {
		args = append(args, "-race", "-tags", "testing") // "testing": a lease that is released twice ends the program
	}
	build := exec.Command("go", append(args, "penstock")...)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build the program:", err)
		return 1
	}
	return m.Run()
}
