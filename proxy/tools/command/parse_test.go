package command

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// testGrammar has all that the grammars of our commands have.
type testGrammar struct {
	Serve struct {
		leaf
		Config string `env:"TEST_CONFIG" help:"A file."`
		Level  string `enum:"low,high" default:"low"`
	} `cmd:"" default:"withargs"`
	Load struct {
		Names string   `arg:"" required:"" help:"Names."`
		More  []string `arg:"" optional:""`
		Kind  []string `enum:"a,b,c" help:"Kinds."`
		Where string   `required:"" env:"TEST_WHERE"`
		leaf
	} `cmd:""`
	Key struct {
		New  leaf `cmd:""`
		Hash struct {
			leaf
			Text string `arg:"" enum:"x,y"`
		} `cmd:""`
		Hidden leaf `cmd:"" hidden:""`
	} `cmd:""`
	Many struct {
		One, Two, Three, Four, Five, Six, Seven leaf `cmd:""`
	} `cmd:""`
	Own withContext `cmd:""`
}

type leaf struct{ ran bool }

func (l *leaf) Run() error { l.ran = true; return nil }

type withContext struct{ ran bool }

func (w *withContext) Run(ctx *kong.Context) error {
	w.ran = ctx.Selected().Name == "own"
	return errors.New("it ran")
}

// TestParse: Parse finds what kong's own Parse finds, in the same words.
func TestParse(t *testing.T) {
	for _, env := range []string{"", "here"} {
		if env != "" {
			t.Setenv("TEST_WHERE", env)
			t.Setenv("TEST_CONFIG", env)
		}
		for _, line := range []string{
			"", "--config=x", "serve", "serve --config x", "serve --level=mid", "--level=high", "serve --unknown", "serve extra", "serve --config",
			"load", "load a", "load a --where=w", "load a b c --where w", "load --where=w", "load a --where=w --kind=a,b", "load a --where=w --kind=a,z", "load a --where=w --kind=b --kind=q",
			"key", "key new", "key new x", "key hash", "key hash x", "key hash z", "key hidden", "key nothing",
			"many", "many six", "own", "own --help", "--help", "key --help", "load --help", "load --help --unknown",
		} {
			got, gotText := parsed(t, Parse, line)
			want, wantText := parsed(t, (*kong.Kong).Parse, line)
			if got != want || gotText != wantText {
				t.Errorf("%q: %q, kong has %q; shown %q, kong shows %q", line, got, want, gotText, wantText)
			}
		}
	}
}

// parsed is how a line was read: what was selected and the values, or the error, and what was shown.
func parsed(t *testing.T, parse func(*kong.Kong, []string) (*kong.Context, error), line string) (result, shown string) {
	t.Helper()
	var g testGrammar
	var out strings.Builder
	ended := false
	k, err := kong.New(&g, kong.Name("test"), kong.Writers(&out, io.Discard), kong.Exit(func(int) { ended = true }))
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := parse(k, strings.Fields(line))
	switch {
	case ended:
		return "help", out.String()
	case err != nil:
		return "error: " + err.Error(), out.String()
	}
	var b strings.Builder
	b.WriteString(ctx.Command() + "|" + g.Serve.Config + "|" + g.Serve.Level + "|" + g.Load.Names + "|" + strings.Join(g.Load.More, "+"))
	b.WriteString("|" + strings.Join(g.Load.Kind, "+") + "|" + g.Load.Where + "|" + g.Key.Hash.Text)
	return b.String(), out.String()
}

func TestRun(t *testing.T) {
	var g testGrammar
	k, err := kong.New(&g, kong.Name("test"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line string
		ran  *bool
		err  string
	}{{"", &g.Serve.ran, ""}, {"key new", &g.Key.New.ran, ""}, {"own", &g.Own.ran, "it ran"}} {
		ctx, err := Parse(k, strings.Fields(c.line))
		if err != nil {
			t.Fatal(err)
		}
		if err := Run(ctx); !*c.ran || c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
			t.Errorf("%q: ran %v, %v", c.line, *c.ran, err)
		}
	}
}

// TestParseKnowsItsLimits: flags that exclude each other are not checked, so no command may have any.
func TestParseKnowsItsLimits(t *testing.T) {
	var g struct {
		A, B bool `xor:"one"`
	}
	k, err := kong.New(&g)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("flags that exclude each other were taken")
		}
	}()
	_, _ = Parse(k, nil)
}

// TestReportJoined: each of several errors is reported as the program's own.
func TestReportJoined(t *testing.T) {
	var b strings.Builder
	code := Report(&b, errors.Join(errors.New("a.yaml:1: one"), errors.New("a.yaml:2: two")))
	if want := "penstock: a.yaml:1: one\npenstock: a.yaml:2: two\n"; code != 1 || b.String() != want {
		t.Errorf("%d, %q", code, b.String())
	}
}
