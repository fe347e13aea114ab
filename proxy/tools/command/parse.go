package command

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Parse reads a command line into the grammar's commands, with kong's own steps and errors. It
// leaves out what none of our commands has: hooks, validators, and flags that exclude or require
// each other.
func Parse(k *kong.Kong, args []string) (*kong.Context, error) {
	ctx, err := kong.Trace(k, args)
	if err != nil {
		return nil, &parseError{err, ctx}
	}
	if ctx.Error != nil {
		return nil, &parseError{ctx.Error, ctx}
	}
	if slices.ContainsFunc(ctx.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == "help" }) {
		err := ctx.PrintUsage(false)
		k.Exit(0)
		return ctx, err
	}
	for _, step := range []func() error{
		ctx.Reset, ctx.Resolve,
		func() error { _, err := ctx.Apply(); return err },
		func() error { return validate(ctx) },
	} {
		if err := step(); err != nil {
			return nil, &parseError{err, ctx}
		}
	}
	return ctx, nil
}

// parseError is a mistake on the command line and its place in the grammar.
type parseError struct {
	error
	context *kong.Context
}

func (e *parseError) Unwrap() error { return e.error }

// Run runs the command that was selected.
func Run(ctx *kong.Context) error {
	switch c := target(ctx.Selected()).(type) {
	case interface{ Run() error }:
		return c.Run()
	case interface{ Run(*kong.Context) error }:
		return c.Run(ctx)
	}
	return errors.New("no command selected")
}

// target returns the command of a node, or nil.
func target(n *kong.Node) any {
	if n == nil || !n.Target.IsValid() {
		return nil
	}
	return n.Target.Addr().Interface()
}

// runs reports whether a node is a command by itself, without one of its children.
func runs(n *kong.Node) bool {
	switch target(n).(type) {
	case interface{ Run() error }, interface{ Run(*kong.Context) error }:
		return true
	}
	return false
}

// validate finds words that are not in their set, and missing ones.
func validate(ctx *kong.Context) error {
	given := 0
	for _, p := range ctx.Path {
		values := []*kong.Value(nil)
		if n := p.Node(); n != nil { // not a flag
			values = n.Values()
		}
		for _, v := range values {
			if v.Enum == "" || v.Required && !v.Set && !v.HasDefault && !fromEnvironment(v) {
				continue
			}
			if err := checkEnum(v, v.Target); err != nil {
				return err
			}
		}
		if err := missingFlags(p.Flags); err != nil {
			return err
		}
		if p.Positional != nil {
			given = p.Positional.Position + 1
		}
	}
	n := ctx.Selected()
	if n == nil {
		n = ctx.Model.Node
	}
	if err := missingChild(n); err != nil {
		return err
	}
	return missingPositionals(n.Positional[min(given, len(n.Positional)):])
}

func fromEnvironment(v *kong.Value) bool {
	return slices.ContainsFunc(v.Tag.Envs, func(name string) bool { _, set := os.LookupEnv(name); return set })
}

// checkEnum refuses a value, or an element of a list, that is not in a flag's set.
func checkEnum(v *kong.Value, target reflect.Value) error {
	if target.Kind() == reflect.Slice {
		for i := range target.Len() {
			if err := checkEnum(v, target.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	var words []string
	got := fmt.Sprint(target.Interface())
	for _, word := range v.EnumSlice() {
		if word == got {
			return nil
		}
		words = append(words, fmt.Sprintf("%q", word))
	}
	return fmt.Errorf("%s must be one of %s but got %q", v.ShortSummary(), strings.Join(words, ","), got)
}

func missingFlags(flags []*kong.Flag) error {
	var missing []string
	for _, f := range flags {
		if len(f.Xor)+len(f.And) > 0 {
			panic("BUG: --" + f.Name + " excludes or wants other flags, which Parse does not check")
		}
		if f.Required && !f.Set {
			missing = append(missing, f.Summary())
		}
	}
	if missing == nil {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("missing flags: %s", strings.Join(missing, ", "))
}

// missingChild refuses a command that needs a subcommand.
func missingChild(n *kong.Node) error {
	var missing []string
	for _, p := range n.Positional {
		if p.Required && !p.Set {
			missing = append(missing, p.Summary())
		}
	}
	if missing != nil {
		missing = []string{fmt.Sprintf("%q", strings.Join(missing, " "))}
	}
	for _, c := range n.Children {
		if !c.Hidden && !runs(n) {
			missing = append(missing, fmt.Sprintf("%q", c.Name))
		}
	}
	switch {
	case len(missing) == 0:
		return nil
	case len(missing) == 1:
		return fmt.Errorf("expected %s", missing[0])
	case len(missing) > 5:
		missing = append(missing[:5], "...")
	}
	return fmt.Errorf("expected one of %s", strings.Join(missing, ", "))
}

// missingPositionals refuses a command without its required arguments.
func missingPositionals(left []*kong.Value) error {
	if len(left) == 0 || !left[0].Required {
		return nil
	}
	var missing []string
	for _, p := range left {
		if !fromEnvironment(p) {
			missing = append(missing, "<"+p.Name+">")
		}
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("missing positional arguments %s", strings.Join(missing, " "))
}
