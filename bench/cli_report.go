package bench

import (
	"bytes"
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
	var b bytes.Buffer
	if err := WriteHTML(&b, r); err != nil {
		return err
	}
	if c.Output != "" {
		err = writeFile(c.Output, b.Bytes())
	} else {
		_, err = out.Write(b.Bytes())
	}
	if err != nil {
		return err
	}
	if len(c.Assert) == 0 && c.Baseline == "" { // drawing a result that is not valid is not a failure
		return nil
	}
	return verdict
}
