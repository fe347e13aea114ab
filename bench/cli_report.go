package bench

import (
	"io"
	"os"

	"penstock/bench/compare"
	"penstock/bench/exit"
	"penstock/bench/report"
	"penstock/bench/result"
)

// ReportCmd is the command `penstock bench report`.
type ReportCmd struct {
	File   string `arg:"" values:"files" help:"Result file of a run."`
	Output string `short:"o" placeholder:"FILE" help:"Where to write the page (default: the screen)."`
	compare.CheckFlags
}

// Run writes the report of a saved result and applies the requested checks.
func (c *ReportCmd) Run() error { return c.run(os.Stdout, os.Stderr) }

func (c *ReportCmd) run(out, notes io.Writer) error {
	judge, err := c.NewResultChecker()
	if err != nil {
		return err
	}
	r, err := result.ReadResult(c.File)
	if err != nil {
		return exit.Usagef("%s", err)
	}
	verdict := judge.Apply(r, notes)
	if err := result.WriteTo(c.Output, out, func(w io.Writer) error { return report.WriteHTML(w, r) }); err != nil {
		return err
	}
	if len(c.Assert) == 0 { // without checks, an invalid result is not a failure
		return nil
	}
	return verdict
}
