package bench

import (
	"io"
	"os"

	"penstock/bench/compare"
	"penstock/bench/exit"
	"penstock/bench/result"
)

// CompareCmd is the command `penstock bench compare`.
type CompareCmd struct {
	Base       string   `arg:"" values:"files" help:"Result file of the baseline."`
	New        string   `arg:"" values:"files" help:"Result file to judge."`
	Format     string   `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is one object: valid, notes, and rows with key, base, new, change, low, high and outcome."`
	Output     string   `short:"o" placeholder:"FILE" help:"Write to FILE instead of the screen."`
	MaxRegress []string `sep:"none" placeholder:"[MEASURE=]N%" help:"Exit with 99 if the medians, p99s and rates of NEW, or one measure, are worse by more than this, and the interval supports it."`
}

// confidence is the probability that all intervals of a comparison hold simultaneously.
const confidence = 0.999

// Run compares the two result files.
func (c *CompareCmd) Run() error { return c.run(os.Stdout) }

func (c *CompareCmd) run(out io.Writer) error {
	var bounds []compare.RegressionLimit
	for _, s := range c.MaxRegress {
		b, err := compare.ParseRegressionLimit(s)
		if err != nil {
			return exit.Usagef("--max-regress: %s", err)
		}
		bounds = append(bounds, b)
	}
	base, err := result.ReadResult(c.Base)
	if err != nil {
		return exit.Usagef("%s", err)
	}
	next, err := result.ReadResult(c.New)
	if err != nil {
		return exit.Usagef("%s", err)
	}
	report := compare.CompareResults(base, next, confidence)
	write := report.WriteText
	if c.Format == "json" {
		write = report.WriteJSON
	}
	if err := result.WriteTo(c.Output, out, write); err != nil {
		return err
	}
	failed := ""
	if len(bounds) > 0 {
		for _, a := range compare.CheckRegressions(report, bounds) {
			if !a.OK {
				failed += "\n  " + a.Text + ": " + a.Reason
			}
		}
	}
	switch {
	case len(report.Rows) == 0:
		return exit.NewError(exit.Failed, "nothing to compare: the results have no measure in common")
	case failed != "":
		return exit.NewError(exit.CheckFailed, "worse than the baseline allows:"+failed)
	case !report.Valid:
		return exit.NewError(exit.InvalidResult, "one of the results is not valid")
	}
	return nil
}
