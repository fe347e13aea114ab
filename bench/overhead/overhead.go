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

// Run measures and prints.
func (c *Cmd) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.run(ctx, os.Stdout, os.Stderr)
}

func (c *Cmd) run(ctx context.Context, out, notes io.Writer) error {
	if c.Output != "" {
		if err := result.Writable(c.Output); err != nil {
			return err
		}
	}
	report, err := c.measure(ctx, notes)
	if err != nil {
		return err
	}
	if c.Output != "" {
		err := result.WriteFile(c.Output, func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(report)
		})
		if err != nil {
			return err
		}
	}
	return report.write(out)
}

func (c *Cmd) measure(ctx context.Context, notes io.Writer) (*Report, error) {
	if runtime.GOOS != "linux" {
		return nil, exit.Usagef("bench overhead reads /proc: it needs Linux")
	}
	if c.Rounds < 1 || c.Streams < 1 || c.Hold < 1 || c.Duration < 100*time.Millisecond ||
		!(c.Rate > 0 && c.Rate <= 100_000) {
		return nil, exit.Usagef("--rounds, --streams and --hold are at least 1, --duration at least 100ms, --rate above 0 and at most 100000")
	}
	tests, err := c.tests()
	if err != nil {
		return nil, err
	}
	lab, err := newLab()
	if err != nil {
		return nil, err
	}
	defer lab.close()
	lab.connections = 1024 + 2*max(c.Streams, c.Hold) // steady loads have a few hundred
	report := &Report{
		Rounds: c.Rounds, Environment: load.Environment(), Targets: []string{"direct", "penstock"},
		Missing: []string{}, Doubts: []string{},
	}
	for _, name := range c.Beside {
		switch found, err := lab.find(name); {
		case err != nil:
			return nil, err
		case found:
			report.Targets = append(report.Targets, name)
		default:
			report.Missing = append(report.Missing, name)
		}
	}
	var undo func()
	lab.place, undo = place(c.NoPin)
	defer undo()
	report.Placement = lab.place.text
	for _, t := range tests {
		for _, row := range t.rows {
			report.Tests = append(report.Tests, Line{
				Name: row.name, Text: row.text, Unit: row.unit,
				Rounds: map[string][]float64{}, Median: map[string]float64{}, Ratio: map[string]float64{},
				Ratios: map[string][]float64{}, Over: map[string]Difference{},
			})
		}
	}
	for round := range c.Rounds {
		at := 0
		for _, t := range tests {
			for j := range report.Targets {
				target := report.Targets[(j+round)%len(report.Targets)] // another one begins in each round
				if target == "direct" && !t.direct || target != "penstock" && t.edgeOnly {
					continue
				}
				fmt.Fprintf(notes, "round %d of %d: %s, %s\n", round+1, c.Rounds, t.name, target)
				m, err := lab.run(ctx, target, &t)
				if err != nil {
					return nil, exit.With(exit.Failed, fmt.Sprintf("%s through %s: %s", t.name, target, err))
				}
				for i, row := range t.rows {
					into := report.Tests[at+i].Rounds
					into[target] = append(into[target], row.value(m))
				}
				if why := t.doubt(m); why != "" {
					report.Doubts = append(report.Doubts, fmt.Sprintf("%s, %s, round %d: %s", t.name, target, round+1, why))
				}
			}
			at += len(t.rows)
		}
	}
	for i := range report.Tests {
		report.Tests[i].summarise()
	}
	return report, nil
}
