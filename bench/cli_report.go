package bench

import (
	"io"
	"os"
)

// ReportCmd is `penstock bench report`.
type ReportCmd struct {
	File   string `arg:"" help:"Result file of a run."`
	Output string `short:"o" placeholder:"FILE" help:"Where to write the page; without it, to the screen."`
	Checks
}

// Run writes the report of a saved result, and checks it where checks are asked for.
func (c *ReportCmd) Run() error { return c.run(os.Stdout, os.Stderr) }

func (c *ReportCmd) run(out, notes io.Writer) error {
	judge, err := c.Prepare()
	if err != nil {
		return err
	}
	r, err := ReadResult(c.File)
	if err != nil {
		return usageError("%s", err)
	}
	verdict := judge.Apply(r, notes)
	if r.Penstock == nil {
		return usageError("the file is from another tool: it has flat numbers only, and no report can be drawn of them; `bench compare` reads it")
	}
	if err := writeTo(c.Output, out, func(w io.Writer) error { return WriteHTML(w, r) }); err != nil {
		return err
	}
	if len(c.Assert) == 0 && c.Baseline == "" { // drawing a result that is not valid is not a failure
		return nil
	}
	return verdict
}
