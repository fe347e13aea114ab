package bench

import (
	"testing"

	"github.com/alecthomas/kong"

	"penstock/bench/benchtest"
)

// parse reads a command line as main does.
func parse(t *testing.T, args ...string) *CLI {
	t.Helper()
	c, parser := grammar(t)
	if _, err := parser.Parse(Arguments(append([]string{"bench"}, args...))); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return c
}

func grammar(t *testing.T) (*CLI, *kong.Kong) {
	t.Helper()
	c := new(struct {
		Bench CLI `cmd:""`
	})
	parser, err := kong.New(c, kong.Exit(func(int) { t.Fatal("the parser ended the process") }))
	if err != nil {
		t.Fatal(err)
	}
	return &c.Bench, parser
}

// runFlags are the flags of `bench run`.
func runFlags(t *testing.T) []*kong.Flag {
	t.Helper()
	_, parser := grammar(t)
	for _, command := range parser.Model.Children[0].Children {
		if command.Name == "run" {
			return command.Flags
		}
	}
	t.Fatal("there is no bench run")
	return nil
}

func TestMain(m *testing.M) { benchtest.Main(m) }
