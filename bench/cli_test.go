package bench

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
		"bench run --metadata a=b c=d --seed 1 e=f":       "bench run --metadata a=b --metadata c=d --seed 1 e=f",
		"bench --goodput ttft:200 127.0.0.1:8000":         "bench --goodput ttft:200 127.0.0.1:8000",
		"serve --goodput ttft:200 itl:50":                 "serve --goodput ttft:200 itl:50",
	} {
		if got := strings.Join(Arguments(strings.Fields(in)), " "); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

// TestFiles writes all kinds of files, and prints the block.
func TestFiles(t *testing.T) {
	e := benchtest.StartEngine(t, sim.Options{TokenRate: 50})
	dir := t.TempDir()
	c := RunCmd{Options: load.Options{
		BaseURL: e.URL(), NumPrompts: 30, MaxConcurrency: []int{3}, InputLen: "10", OutputLen: "3", NoFloor: true,
		SaveDetailed: true, Metadata: []string{"gpu=none"},
		Output: []string{filepath.Join(dir, "r.json"), filepath.Join(dir, "q.jsonl"), filepath.Join(dir, "p.html")},
	}}
	c.AllowInvalid = true // the machine of the tests is busy
	var out bytes.Buffer
	if err := c.run(t.Context(), &out, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Serving Benchmark Result", "Successful requests:                     30", "Median TTFT (ms):", "P99 ITL (ms):", "Verdict:", "Written: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the text:\n%s", want, out.String())
		}
	}
	r, err := result.ReadResult(filepath.Join(dir, "r.json"))
	if err != nil || r.Metadata["gpu"] != "none" || len(r.Detailed.ITLs) != 30 || r.Completed != 30 {
		t.Errorf("result %+v, %v", r, err)
	}
	lines := func(name string) int {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return bytes.Count(b, []byte("\n"))
	}
	if lines("q.jsonl") != 30 || lines("p.html") == 0 {
		t.Errorf("jsonl: %d lines", lines("q.jsonl"))
	}
}

// TestSearchThatMeetsNothing ends with 99, or 98 on a machine that is busy.
func TestSearchThatMeetsNothing(t *testing.T) {
	e := benchtest.StartEngine(t, sim.Options{Slots: 1, Latency: 20 * time.Millisecond})
	c := RunCmd{Options: load.Options{BaseURL: e.URL(), Profile: "search", NumPrompts: 20, InputLen: "10", OutputLen: "1", Goodput: []string{"e2el:1"}, MaxStages: 2}}
	if code := benchtest.ExitCode(c.run(t.Context(), io.Discard, io.Discard)); code != exit.Threshold && code != exit.Invalid {
		t.Errorf("ended with %d", code)
	}
}

// TestOverheadDefaults are those of the grammar.
func TestOverheadDefaults(t *testing.T) {
	c := parse(t, "overhead")
	if !slices.Equal(c.Overhead.Tests, []string{"request", "latency", "token", "messages", "memory"}) || c.Overhead.Rounds != 3 || c.Overhead.Rate != 1000 || !slices.Equal(c.Overhead.Beside, []string{"nginx", "haproxy"}) {
		t.Errorf("defaults: %+v", c.Overhead)
	}
}
