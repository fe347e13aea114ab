package bench

import (
	"io"
	"os"
)

// CompareCmd is `penstock bench compare`.
type CompareCmd struct {
	Base       string   `arg:"" help:"Result file that is the measure: ours, or vLLM's (whose numbers come without intervals)."`
	New        string   `arg:"" help:"Result file that is judged."`
	Format     string   `enum:"text,json" default:"text" help:"Form of the output: ${enum}."`
	Output     string   `short:"o" placeholder:"FILE" help:"Write there instead of to the screen."`
	Confidence float64  `default:"0.95" help:"Confidence of the intervals, 0.5 to 0.999."`
	MaxRegress []string `sep:"none" placeholder:"[MEASURE=]N%" help:"End with 99 when the medians, p99s and rates of NEW, or one measure, are worse by more, and the interval supports it."`

	AllowInvalid bool `help:"Do not end with 98 when one of the results is not valid."`
}

// Run compares the files.
func (c *CompareCmd) Run() error { return c.run(os.Stdout) }

func (c *CompareCmd) run(out io.Writer) error {
	if !(c.Confidence >= 0.5 && c.Confidence <= 0.999) {
		return usageError("--confidence %v: want 0.5 to 0.999", c.Confidence)
	}
	var bounds []Regress
	for _, s := range c.MaxRegress {
		b, err := ParseRegress(s)
		if err != nil {
			return usageError("--max-regress: %s", err)
		}
		bounds = append(bounds, b)
	}
	base, err := ReadResult(c.Base)
	if err != nil {
		return usageError("%s", err)
	}
	next, err := ReadResult(c.New)
	if err != nil {
		return usageError("%s", err)
	}
	report := Compare(base, next, c.Confidence)
	write := report.WriteText
	if c.Format == "json" {
		write = report.WriteJSON
	}
	if err := writeTo(c.Output, out, write); err != nil {
		return err
	}
	failed := ""
	if len(bounds) > 0 {
		for _, a := range Check(report, bounds) {
			if !a.OK {
				failed += "\n  " + a.Text + ": " + a.Reason
			}
		}
	}
	switch {
	case len(report.Rows) == 0:
		return &ExitError{Code: ExitFailed, Text: "nothing to compare: the results have no measure in common"}
	case failed != "":
		return &ExitError{Code: ExitThreshold, Text: "worse than the baseline allows:" + failed}
	case !report.Valid && !c.AllowInvalid:
		return &ExitError{Code: ExitInvalid, Text: "one of the results is not valid"}
	}
	return nil
}
