package bench

import (
	"testing"

	"github.com/alecthomas/kong"

	"penstock/bench/benchtest"
)

// parse parses a command line as main does.
func parse(t *testing.T, args ...string) *CLI {
	t.Helper()
	c, parser := newParser(t)
	args, err := RewriteArgs(append([]string{"bench"}, args...))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if err != nil {
		t.Fatalf("parsing %v: %v, want no error", args, err)
	}
	return c
}

func newParser(t *testing.T) (*CLI, *kong.Kong) {
	t.Helper()
	c := new(struct {
		Bench CLI `cmd:""`
	})
	parser, err := kong.New(c, kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Exit(func(int) { t.Fatal("the parser ended the process") }))
	if err != nil {
		t.Fatal(err)
	}
	return &c.Bench, parser
}

// flagsOf returns the flags of a `bench` subcommand.
func flagsOf(t *testing.T, command string) (names []string) {
	t.Helper()
	_, parser := newParser(t)
	for _, c := range parser.Model.Children[0].Children {
		if c.Name == command {
			for _, f := range c.Flags {
				names = append(names, "--"+f.Name)
			}
		}
	}
	if names == nil {
		t.Fatalf("there is no bench %s, or it has no flags", command)
	}
	return names
}

func TestMain(m *testing.M) { benchtest.Main(m) }
