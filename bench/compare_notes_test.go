package bench

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"penstock/bench/sim"
)

// TestNotesOfOtherLoads changes one thing of a load at a time: each is told, and told alone.
func TestNotesOfOtherLoads(t *testing.T) {
	made := func() *Result {
		r := synth{seed: 1, requests: 60, seconds: 60, ttft: 100, itl: 20}.result(t)
		in, out, limit := int64(60*512), int64(60*100), 8
		r.TotalInputTokens, r.TotalOutputTokens, r.MaxConcurrency = &in, &out, &limit
		l := &r.Penstock.Load
		l.Dataset, l.InputLength, l.OutputLength, l.Streamed = "random", "512", "100", true
		return r
	}
	sixteen := 16
	for _, c := range []struct {
		change func(r *Result)
		want   []string
	}{
		{func(*Result) {}, nil},
		{func(r *Result) { r.Penstock.Load.InputLength = "uniform:100-900" }, []string{"input length differs: 512 and uniform:100-900"}},
		{func(r *Result) { r.Penstock.Load.OutputLength = "200" }, []string{"output length differs: 100 and 200"}},
		{func(r *Result) { *r.TotalInputTokens *= 2 }, []string{"input length differs: 512.0 tokens on average and 1024"}},
		{func(r *Result) { *r.TotalOutputTokens += 60 * 5 }, nil},
		{func(r *Result) { r.TotalOutputTokens = nil }, nil},
		{func(r *Result) { r.MaxConcurrency = &sixteen }, []string{"concurrency differs: 8 and 16"}},
		{func(r *Result) { r.MaxConcurrency = nil }, []string{"concurrency differs: 8 and no bound"}},
		{func(r *Result) { r.Penstock.Load.Mix = map[string]float64{"messages": 1} }, []string{"dialect differs: chat and messages"}},
		{func(r *Result) { r.Penstock.Load.Mix = map[string]float64{"messages": 0.4, "chat": 0.6} }, []string{"dialect differs: chat and chat 60 %, messages 40 %"}},
		{func(r *Result) { r.Duration *= 5 }, []string{"duration differs: 60.00 s and 300.0 s"}},
		{func(r *Result) { r.Duration *= 1.5 }, nil},
		{func(r *Result) { r.Penstock.Load.Dataset = "sharegpt" }, []string{"dataset differs: random and sharegpt"}},
		{func(r *Result) { r.Penstock.Load.Streamed = false }, []string{"streaming differs: on and off"}},
		{func(r *Result) { r.Penstock.Load.Mode, r.Penstock.Load.Arrival = "closed", "" }, []string{"arrival differs: open poisson and closed"}},
		{func(r *Result) { r.Penstock.Load.Dataset, r.Penstock.Load.Streamed = "", false }, nil}, // an older file
	} {
		b := made()
		c.change(b)
		if d := cmp.Diff(c.want, notes(made(), b)); d != "" {
			t.Error(d)
		}
	}
}

// TestLengthsAreReadAgain holds that the file says lengths as the flags do.
func TestLengthsAreReadAgain(t *testing.T) {
	for _, s := range []string{"512", "uniform:100-900", "lognormal:512,0.8"} {
		if l, err := parseLength(s); err != nil || l.String() != s {
			t.Errorf("%q became %q, %v", s, l, err)
		}
	}
}

// TestLoadIsInTheResult runs what notes compare.
func TestLoadIsInTheResult(t *testing.T) {
	e := engine(t, sim.Options{})
	for _, whole := range []bool{false, true} {
		r, _ := bench(t, Options{BaseURL: e.URL(), NumPrompts: 2, MaxConcurrency: []int{2}, InputLen: "uniform:5-9", OutputLen: "4", NoStream: whole})
		l := r.Penstock.Load
		if l.Dataset != "random" || l.InputLength != "uniform:5-9" || l.OutputLength != "4" || l.Streamed == whole {
			t.Errorf("whole answers %v: %+v", whole, l)
		}
	}
}

// TestFloorBoundsClaims compares two servers that differ by 1 ms between tokens and 15 ms to the first: by what the clients can tell.
func TestFloorBoundsClaims(t *testing.T) {
	for _, c := range []struct {
		gaps float64 // what the client of one run was off by, at p99
		want string
	}{{0, RowWorse}, {0.2, RowWorse}, {5, RowFloor}} {
		a := synth{seed: 1, requests: 3000, seconds: 60, ttft: 100, itl: 20}.result(t)
		b := synth{seed: 2, requests: 3000, seconds: 60, ttft: 115, itl: 21}.result(t)
		if c.gaps > 0 {
			b.Penstock.Floor = &Floor{TTFT: latencies(10, 0.3), E2EL: latencies(10, 0.3), ITLError: latencies(10, c.gaps)}
		}
		report := Compare(a, b, 0.95)
		got := map[string]string{}
		for _, r := range report.Rows {
			got[r.Key] = r.Outcome
		}
		if got["median_itl_ms"] != c.want || got["median_tpot_ms"] != c.want || got["median_ttft_ms"] != RowWorse {
			t.Errorf("floor %v: %v", c.gaps, got)
		}
		if floor := strings.Contains(report.Verdict, "within the client's floor"); floor != (c.want == RowFloor) {
			t.Errorf("floor %v: %s", c.gaps, report.Verdict)
		}
		bound, err := ParseRegress("median_itl_ms=1%")
		if err != nil {
			t.Fatal(err)
		}
		if ok := Check(report, []Regress{bound})[0].OK; ok != (c.want == RowFloor) {
			t.Errorf("floor %v: the bound holds: %v", c.gaps, ok)
		}
	}
}
