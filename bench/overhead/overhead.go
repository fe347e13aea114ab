package overhead

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"penstock/bench/exit"
	"penstock/bench/load"
	"penstock/bench/result"
)

// Run measures and prints the report.
func (c *Cmd) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.run(ctx, os.Stdout, os.Stderr)
}

func (c *Cmd) run(ctx context.Context, out, notes io.Writer) error {
	if c.Output != "" {
		if err := result.CheckWritable(c.Output); err != nil {
			return err
		}
	}
	report, err := c.measure(ctx, notes)
	if err != nil {
		return err
	}
	err = result.WriteTo(c.Output, out, func(w io.Writer) error {
		if c.Format != "json" {
			return report.write(w)
		}
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(report)
	})
	if err != nil || !report.Interrupted {
		return err
	}
	return exit.NewError(exit.InvalidResult, fmt.Sprintf("stopped in round %d of %d", report.Rounds+1, c.Rounds))
}

func (c *Cmd) measure(ctx context.Context, notes io.Writer) (*Report, error) {
	if runtime.GOOS != "linux" {
		return nil, exit.Usagef("bench overhead reads /proc: it needs Linux")
	}
	if c.Rounds < 1 || c.Streams < 1 || c.Hold < 1 || c.Duration < 100*time.Millisecond ||
		!(c.Rate > 0 && c.Rate <= 100_000) || !(c.HalfRate > 0 && c.HalfRate <= 100_000) {
		return nil, exit.Usagef("--rounds, --streams and --hold are at least 1, --duration at least 100ms, --rate and --half-rate above 0 and at most 100000")
	}
	tests, err := c.selectedMeasurements()
	if err != nil {
		return nil, err
	}
	lab, err := newTestBench()
	if err != nil {
		return nil, err
	}
	defer lab.close()
	// a steady load needs a few hundred connections
	lab.connections = 1024 + 2*max(c.Streams, c.Hold)
	report := &Report{
		Rounds: c.Rounds, Environment: load.Environment(), Targets: []string{"direct", "penstock"},
		Missing: []string{}, Doubts: []string{},
	}
	for _, name := range c.Beside {
		switch found, err := lab.findProgram(name); {
		case err != nil:
			return nil, err
		case found:
			report.Targets = append(report.Targets, name)
		default:
			report.Missing = append(report.Missing, name)
		}
	}
	var undo func()
	lab.placement, undo = divideCPUs(c.NoPin)
	defer undo()
	report.Placement = lab.placement.text
	for _, t := range tests {
		for _, row := range t.rows {
			report.Tests = append(report.Tests, ReportRow{
				Name: row.name, Text: row.text, Unit: row.unit,
				Rounds: map[string][]float64{}, Median: map[string]float64{}, Ratio: map[string]float64{},
				Ratios: map[string][]float64{}, Over: map[string]Difference{},
			})
		}
	}
	for whole := range c.Rounds {
		err := lab.runRound(ctx, report, tests, whole+1, notes)
		if report.Interrupted = ctx.Err() != nil; report.Interrupted && whole > 0 {
			report.Rounds = whole
			break
		}
		if report.Interrupted {
			err = exit.NewError(exit.Failed, "stopped in the first round: there is nothing to report")
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range report.Tests {
		report.Tests[i].summarise()
	}
	return report, nil
}
