package command

import (
	"errors"

	"github.com/alecthomas/kong"
)

// RunSelected runs the selected command and returns its error. kong's own Run would join this error
// with that of a hook.
func RunSelected(ctx *kong.Context) error {
	if n := ctx.Selected(); n != nil {
		switch c := n.Target.Addr().Interface().(type) {
		case interface{ Run() error }:
			return c.Run()
		case interface{ Run(*kong.Context) error }:
			return c.Run(ctx)
		}
	}
	return errors.New("no command selected")
}
