package bench

import (
	"io"
	"os"

	"penstock/bench/compare"
	"penstock/bench/exit"
	"penstock/bench/result"
)

// CompareCmd is `penstock bench compare`.
type CompareCmd struct {
	Base       string   `arg:"" values:"files" help:"Result file that is the measure."`
	New        string   `arg:"" values:"files" help:"Result file that is judged."`
	Format     string   `enum:"text,json" default:"text" help:"Form of the output: ${enum}."`
	Output     string   `short:"o" placeholder:"FILE" help:"Write there instead of to the screen."`
	Confidence float64  `default:"0.999" help:"Confidence that all intervals hold at once, 0.5 to 0.999."`
	MaxRegress []string `sep:"none" placeholder:"[MEASURE=]N%" help:"End with 99 when the medians, p99s and rates of NEW, or one measure, are worse by more, and the interval supports it."`

	AllowInvalid bool `help:"Do not end with 98 when one of the results is not valid."`
}

// Run compares the files.
func (c *CompareCmd) Run() error { return c.run(os.Stdout) }

func (c *CompareCmd) run(out io.Writer) error {
	if !(c.Confidence >= 0.5 && c.Confidence <= 0.999) {
		return exit.Usagef("--confidence %v: want 0.5 to 0.999", c.Confidence)
	}
	var bounds []compare.Regress
	for _, s := range c.MaxRegress {
		b, err := compare.ParseRegress(s)
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
	report := compare.Results(base, next, c.Confidence)
	write := report.WriteText
	if c.Format == "json" {
		write = report.WriteJSON
	}
	if err := result.WriteTo(c.Output, out, write); err != nil {
		return err
	}
	failed := ""
	if len(bounds) > 0 {
		for _, a := range compare.Check(report, bounds) {
			if !a.OK {
				failed += "\n  " + a.Text + ": " + a.Reason
			}
		}
	}
	switch {
	case len(report.Rows) == 0:
		return exit.With(exit.Failed, "nothing to compare: the results have no measure in common")
	case failed != "":
		return exit.With(exit.Threshold, "worse than the baseline allows:"+failed)
	case !report.Valid && !c.AllowInvalid:
		return exit.With(exit.Invalid, "one of the results is not valid")
	}
	return nil
}
