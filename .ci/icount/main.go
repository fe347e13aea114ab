// Command icount counts what a request or a streamed token costs the edge, in exact user-mode
// instructions, distinct instructions, and system calls. The counts do not depend on the load of
// the machine.
//
//	go run ./.ci/icount            fails if a count is more than 4 % above the recorded one
//	go run ./.ci/icount -write     records the counts in numbers.json; the commit explains increases
//	go run ./.ci/icount -top 40    also prints the functions and packages of each row by cost
//	go run ./.ci/icount -row 1KB   measures a single row
//	go run ./.ci/icount -memory    measures the memory of held connections instead
//
// The unchanged program runs twice, with GOMAXPROCS=1. The first time, it runs in qemu's user-mode
// emulation (qemu-user), where a plugin counts each block of instructions (plugin/count.c, compiled
// by gcc). The second time, it runs natively under strace. The engine and the clients run in this
// process and are not counted. The counts include timers. Probes are configured to be rare, and
// other timers account for less than 1 %.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// rowCounts is a row of the table, per request or per token.
type rowCounts struct {
	Instructions float64 `json:"instructions"`
	Different    float64 `json:"different"` // distinct instructions that at least half of the units execute
	SystemCalls  float64 `json:"system_calls"`
	Again        float64 `json:"eagain"` // system calls that returned EAGAIN
}

// minOrMaxCounts returns, for each count, the higher of the two values if higher is true, and the
// lower one otherwise.
func minOrMaxCounts(c, d rowCounts, higher bool) rowCounts {
	of := func(a, b float64) float64 {
		if higher {
			return max(a, b)
		}
		return min(a, b)
	}
	return rowCounts{
		Instructions: math.Round(of(c.Instructions, d.Instructions)),
		Different:    of(c.Different, d.Different),
		SystemCalls:  math.Round(100*of(c.SystemCalls, d.SystemCalls)) / 100,
		Again:        math.Round(100*of(c.Again, d.Again)) / 100,
	}
}

// recordedCounts is the file with the recorded counts and the versions of the tools that were used.
type recordedCounts struct {
	Go        string               `json:"go"`
	Qemu      string               `json:"qemu"`
	Processor string               `json:"processor"`
	Rows      map[string]rowCounts `json:"rows"`
}

// A count may exceed the recorded count by this factor. The sizes of reads differ between machines.
// The instructions for a short stream therefore vary by 3 %. The system calls vary by more, mainly
// if a body needs more than one read.
const (
	maxInstructionFactor = 1.04
	maxSystemCallFactor  = 1.25
)

// maxCountAttempts is the maximum number of times that a row is counted. A busy machine can only
// increase a count, so the lowest count is compared with the recorded count. The highest count is
// recorded.
const maxCountAttempts = 3

func main() {
	var (
		write = flag.Bool("write", false, "record today's counts")
		top   = flag.Int("top", 0, "print so many functions and packages of each row")
		held  = flag.Bool("memory", false, "measure the memory of held connections instead")
		dir   = flag.String("profiles", "", "with -memory: write profiles of the held connections to this directory")
		row   = flag.String("row", "", "count this row alone")
	)
	flag.Parse()
	var err error
	if *held {
		err = runMemory(*row, *dir)
	} else {
		err = run(*write, *top, *row)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "icount:", err)
		os.Exit(1)
	}
}

func run(write bool, top int, row string) error {
	for _, tool := range []string{"qemu-x86_64", "strace", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not installed, so nothing was counted: %w", tool, err)
		}
	}
	dir, err := os.MkdirTemp("", "icount")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, err := buildEdge(dir)
	if err != nil {
		return err
	}
	file := filepath.Join(".ci", "icount", "numbers.json")
	var recorded recordedCounts
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &recorded)
	}
	if err != nil && !write {
		return err
	}
	today := recordedCounts{Go: runtime.Version(), Qemu: qemuVersion(), Processor: cpuModel(), Rows: map[string]rowCounts{}}
	fmt.Printf("%-22s %14s %10s %14s %10s\n", "per request or token", "instructions", "different", "system calls", "EAGAIN")
	for i := range workloads {
		w := &workloads[i]
		if row != "" && row != w.name {
			continue
		}
		c, err := b.countWorkload(w, top)
		for n := 1; err == nil && n < maxCountAttempts && (write || checkIncrease(w.name, recorded.Rows, c) != nil); n++ {
			var again rowCounts
			again, err = b.countWorkload(w, 0)
			c = minOrMaxCounts(c, again, write)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		today.Rows[w.name] = c
		fmt.Printf("%-22s %14.0f %10.0f %14.2f %10.2f\n", w.name, c.Instructions, c.Different, c.SystemCalls, c.Again)
	}
	if write {
		return writeRecordedCounts(file, &recorded, &today)
	}
	return compareCounts(&recorded, &today)
}

// writeRecordedCounts replaces the recorded counts with those of the counted rows.
func writeRecordedCounts(file string, recorded, today *recordedCounts) error {
	for name, c := range recorded.Rows {
		if _, ok := today.Rows[name]; !ok {
			today.Rows[name] = c
		}
	}
	text, err := json.MarshalIndent(today, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// compareCounts returns an error if any count has increased too much.
func compareCounts(recorded, today *recordedCounts) error {
	var errs []error
	for name, c := range today.Rows {
		errs = append(errs, checkIncrease(name, recorded.Rows, c))
	}
	if errors.Join(errs...) == nil {
		return nil
	}
	if recorded.Go != today.Go || recorded.Qemu != today.Qemu {
		errs = append(errs, fmt.Errorf("recorded with %s and %s, counted with %s and %s: count the commit before with these, too", recorded.Go, recorded.Qemu, today.Go, today.Qemu))
	}
	return errors.Join(append(errs, errors.New("a rise that is worth it is recorded by -write in the commit that says why"))...)
}

// checkIncrease returns an error if any count of a row exceeds the recorded count by too much.
func checkIncrease(name string, rows map[string]rowCounts, is rowCounts) error {
	was, ok := rows[name]
	switch {
	case !ok:
		return fmt.Errorf("%s is not recorded: run with -write", name)
	case is.Instructions > was.Instructions*maxInstructionFactor:
		return fmt.Errorf("%s: %.0f instructions, recorded are %.0f (%+.1f %%)", name, is.Instructions, was.Instructions, 100*(is.Instructions/was.Instructions-1))
	case is.SystemCalls > was.SystemCalls*maxSystemCallFactor:
		return fmt.Errorf("%s: %.2f system calls, recorded are %.2f", name, is.SystemCalls, was.SystemCalls)
	}
	return nil
}

func qemuVersion() string {
	out, _ := exec.Command("qemu-x86_64", "--version").Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return "unknown"
}
