package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"penstock/bench/benchtest"
	"penstock/bench/exit"
	"penstock/bench/load"
	"penstock/bench/result"
	"penstock/bench/sim"
)

func TestArguments(t *testing.T) {
	for in, want := range map[string]string{
		"bench --goodput ttft:200 itl:50 http://h:1 -n 3": "bench --goodput ttft:200 --goodput itl:50 http://h:1 -n 3",
		"bench http://h:1 --goodput ttft:200,itl:50":      "bench http://h:1 --goodput ttft:200,itl:50",
		"bench --goodput=ttft:200 itl:50":                 "bench --goodput=ttft:200 itl:50",
		"bench --goodput ttft:200 127.0.0.1:8000":         "bench --goodput ttft:200 127.0.0.1:8000",
		"serve --goodput ttft:200 itl:50":                 "serve --goodput ttft:200 itl:50",
	} {
		args, err := RewriteArgs(strings.Fields(in))
		if got := strings.Join(args, " "); got != want || err != nil {
			t.Errorf("%s\n got %s (%v)\nwant %s", in, got, err, want)
		}
	}
}

// TestRemovedFlags checks that commands reject flags that only earlier versions had, and name the
// replacements.
func TestRemovedFlags(t *testing.T) {
	for in, want := range map[string]string{
		"bench --backend messages http://h:1": "--mix messages",
		"bench run --warmup=2s":               "--request-rate 20,20",
		"bench http://h:1 -u http://h:1":      "(--base-url)",
		"bench compare a b --confidence 0.9":  "99.9 %",
		"bench report a --allow-invalid":      "98",
		"bench plan trace --header":           "",
		"bench -- --warmup":                   "",
		"serve --header":                      "",
	} {
		_, err := RewriteArgs(strings.Fields(in))
		if (err != nil) != (want != "") || err != nil && (!strings.Contains(err.Error(), want) || benchtest.ExitCode(err) != exit.Usage) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
	for _, c := range []string{"run", "compare", "report"} {
		for _, f := range flagsOf(t, c) {
			if removedFlags[strings.TrimPrefix(f, "--")] != "" {
				t.Errorf("bench %s has the flag %s, which is said to be gone", c, f)
			}
		}
	}
}

// TestHelpFitsScreens checks that each group of flags fits on a screen with 24 lines and 80
// columns.
func TestHelpFitsScreens(t *testing.T) {
	_, parser := newParser(t)
	parser.Exit = func(int) {}
	var help bytes.Buffer
	parser.Stdout = &help
	_, _ = parser.Parse([]string{"bench", "run", "--help"})
	groups := strings.Split(help.String(), "\n\n")
	if len(groups) < 8 {
		t.Fatalf("the help has %d groups, want 8 or more:\n%s", len(groups), help.String())
	}
	for _, group := range groups {
		if n := strings.Count(group, "\n") + 1; n > 24 {
			t.Errorf("a group has %d lines, want at most 24:\n%s", n, group)
		}
		for line := range strings.Lines(group) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("a line has %d columns, want at most 80: %s", n, line)
			}
		}
	}
	if n := len(flagsOf(t, "run")); n > 36 {
		t.Errorf("%d flags: which of them would nobody miss?", n)
	}
}

// TestKeysInTheEnvironment checks that the second target receives only the key that is meant for
// it.
func TestKeysInTheEnvironment(t *testing.T) {
	first, second := benchtest.StartEngine(t, sim.Options{Record: true}), benchtest.StartEngine(t, sim.Options{Record: true})
	t.Setenv("PENSTOCK_COMPARE_KEY", "the-second-key")
	c := RunCmd{Options: load.Options{BaseURL: first.URL(), CompareURL: second.URL(), APIKey: "the-first-key", NumPrompts: 4, InputLen: "10", OutputLen: "2", NoFloor: true}}
	// Four requests are too few for a valid result.
	if err := c.run(t.Context(), io.Discard, io.Discard); benchtest.ExitCode(err) != exit.InvalidResult {
		t.Fatal(err)
	}
	for _, x := range []struct {
		of  *sim.Engine
		key string
	}{{first, "the-first-key"}, {second, "the-second-key"}} {
		seen := x.of.Recorded()
		if len(seen) < 3 {
			t.Errorf("key %s: %d requests, want 3 or more", x.key, len(seen))
		}
		for _, r := range seen {
			if !slices.Contains(r.Header, sim.Header{Name: "Authorization", Value: "Bearer " + x.key}) {
				t.Errorf("key %s: header = %v, want the key in Authorization", x.key, r.Header)
			}
		}
	}
}

// TestFiles checks that a run writes all kinds of output files and prints the text block.
func TestFiles(t *testing.T) {
	e := benchtest.StartEngine(t, sim.Options{TokenRate: 50})
	dir := t.TempDir()
	c := RunCmd{Options: load.Options{
		BaseURL: e.URL(), NumPrompts: 30, MaxConcurrency: []int{3}, InputLen: "10", OutputLen: "3", NoFloor: true,
		Output: []string{filepath.Join(dir, "r.json"), filepath.Join(dir, "q.jsonl"), filepath.Join(dir, "p.html")},
	}}
	var out bytes.Buffer
	// On a busy machine, the result may be invalid.
	if err := c.run(t.Context(), &out, &out); err != nil && benchtest.ExitCode(err) != exit.InvalidResult {
		t.Fatal(err)
	}
	for _, want := range []string{"Serving Benchmark Result", "Successful requests:                     30", "Median TTFT (ms):", "P99 ITL (ms):", "Verdict:", "Written: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the text:\n%s", want, out.String())
		}
	}
	r, err := result.ReadResult(filepath.Join(dir, "r.json"))
	if err != nil || r.Completed != 30 {
		t.Errorf("result = %+v, %v; want 30 completed", r, err)
	}
	count := func(name, text string) int {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return bytes.Count(b, []byte(text))
	}
	if count("q.jsonl", "\n") != 30 || count("q.jsonl", `"gaps_ns":[`) != 30 || count("p.html", "\n") == 0 {
		t.Errorf("jsonl: %d lines, %d of them with gaps", count("q.jsonl", "\n"), count("q.jsonl", `"gaps_ns":[`))
	}
}

// TestFormat checks that --format json prints the result on standard output, and everything else on
// standard error.
func TestFormat(t *testing.T) {
	e := benchtest.StartEngine(t, sim.Options{TokenRate: 50})
	c := RunCmd{Format: "json", Options: load.Options{BaseURL: e.URL(), NumPrompts: 2, InputLen: "10", OutputLen: "1", NoFloor: true}}
	var out bytes.Buffer
	// Two requests are too few for a valid result.
	if err := c.run(t.Context(), &out, io.Discard); benchtest.ExitCode(err) != exit.InvalidResult {
		t.Fatal(err)
	}
	if r := new(result.Result); json.Unmarshal(out.Bytes(), r) != nil || r.Completed != 2 {
		t.Errorf("output = %s, want JSON with 2 completed", out.String())
	}
}

// TestSearchThatMeetsNothing checks that a search whose objectives are missed at every load exits
// with code 99, or with 98 on a busy machine.
func TestSearchThatMeetsNothing(t *testing.T) {
	e := benchtest.StartEngine(t, sim.Options{Slots: 1, Latency: 20 * time.Millisecond})
	c := RunCmd{Options: load.Options{BaseURL: e.URL(), Profile: "search", NumPrompts: 20, InputLen: "10", OutputLen: "1", Goodput: []string{"e2el:1"}, MaxStages: 2}}
	if code := benchtest.ExitCode(c.run(t.Context(), io.Discard, io.Discard)); code != exit.CheckFailed && code != exit.InvalidResult {
		t.Errorf("ended with %d", code)
	}
}

// TestOverheadDefaults checks the defaults of the flags of `bench overhead`.
func TestOverheadDefaults(t *testing.T) {
	c := parse(t, "overhead")
	if len(c.Overhead.Tests) != 17 || c.Overhead.Tests[0] != "saturated" || c.Overhead.Rounds != 3 || c.Overhead.Rate != 1000 || !slices.Equal(c.Overhead.Beside, []string{"nginx", "haproxy"}) {
		t.Errorf("defaults = %+v, want 17 tests in 3 rounds at rate 1000 beside nginx and haproxy", c.Overhead)
	}
}
