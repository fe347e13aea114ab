package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"penstock/bench/exit"
	"penstock/bench/process"
)

func main() {
	d := flag.Duration("duration", 80*time.Second, "how long calls come")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runMeasurements(ctx, *d)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		code := exit.Failed
		if e, ok := errors.AsType[*exit.Error](err); ok {
			code = e.Code
		}
		os.Exit(code)
	}
}

// runMeasurements builds the program, which also serves as the edges and engines, and runs all
// measurements.
func runMeasurements(ctx context.Context, d time.Duration) error {
	dir, err := os.MkdirTemp("", "penstock-fleet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "penstock")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "penstock").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}
	process.Executable = func() (string, error) { return program, nil }
	return measureFleet(ctx, d, os.Stdout, os.Stderr)
}
