package compare

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"penstock/bench/benchtest"
	"penstock/bench/result"
)

// TestNotesOfOtherLoads changes one property of the load at a time, and checks that the notes
// mention only that property.
func TestNotesOfOtherLoads(t *testing.T) {
	made := func() *result.Result {
		r := benchtest.SyntheticResult{Seed: 1, Requests: 60, Seconds: 60, TTFT: 100, ITL: 20}.Build(t)
		in, out, limit := int64(60*512), int64(60*100), 8
		r.TotalInputTokens, r.TotalOutputTokens, r.MaxConcurrency = &in, &out, &limit
		l := &r.Penstock.Load
		l.Dataset, l.InputLength, l.OutputLength, l.Streamed = "random", "512", "100", true
		return r
	}
	sixteen := 16
	for _, c := range []struct {
		change func(r *result.Result)
		want   []string
	}{
		{func(*result.Result) {}, nil},
		{func(r *result.Result) { r.Penstock.Load.InputLength = "uniform:100-900" }, []string{"input length differs: 512 and uniform:100-900"}},
		{func(r *result.Result) { r.Penstock.Load.OutputLength = "200" }, []string{"output length differs: 100 and 200"}},
		{func(r *result.Result) { *r.TotalInputTokens *= 2 }, []string{"input length differs: 512.0 tokens on average and 1024"}},
		{func(r *result.Result) { *r.TotalOutputTokens += 60 * 5 }, nil},
		{func(r *result.Result) { r.TotalOutputTokens = nil }, nil},
		{func(r *result.Result) { r.MaxConcurrency = &sixteen }, []string{"concurrency differs: 8 and 16"}},
		{func(r *result.Result) { r.MaxConcurrency = nil }, []string{"concurrency differs: 8 and no bound"}},
		{func(r *result.Result) { r.Penstock.Load.Mix = map[string]float64{"messages": 1} }, []string{"dialect differs: chat and messages"}},
		{func(r *result.Result) { r.Penstock.Load.Mix = map[string]float64{"messages": 0.4, "chat": 0.6} }, []string{"dialect differs: chat and chat 60 %, messages 40 %"}},
		{func(r *result.Result) { r.Duration *= 5 }, []string{"duration differs: 60.00 s and 300.0 s"}},
		{func(r *result.Result) { r.Duration *= 1.5 }, nil},
		{func(r *result.Result) { r.Penstock.Load.Dataset = "sharegpt" }, []string{"dataset differs: random and sharegpt"}},
		{func(r *result.Result) { r.Penstock.Load.Streamed = false }, []string{"streaming differs: on and off"}},
		{func(r *result.Result) { r.Penstock.Load.Mode, r.Penstock.Load.Arrival = "closed", "" }, []string{"arrival differs: open poisson and closed"}},
		// An older file.
		{func(r *result.Result) { r.Penstock.Load.Dataset, r.Penstock.Load.Streamed = "", false }, nil},
	} {
		b := made()
		c.change(b)
		if d := cmp.Diff(c.want, comparabilityNotes(made(), b)); d != "" {
			t.Error(d)
		}
	}
}

// TestFloorBoundsClaims checks that a difference below the client's floor is not reported as worse.
// The two servers differ by 1 ms in ITL and by 15 ms in TTFT.
func TestFloorBoundsClaims(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		gaps float64 // p99 error of the client's gaps in one run, in ms
		want string
	}{{0, RowWorse}, {0.2, RowWorse}, {5, RowWithinFloor}} {
		a := benchtest.SyntheticResult{Seed: 1, Requests: 3000, Seconds: 60, TTFT: 100, ITL: 20}.Build(t)
		b := benchtest.SyntheticResult{Seed: 2, Requests: 3000, Seconds: 60, TTFT: 115, ITL: 21}.Build(t)
		if c.gaps > 0 {
			b.Penstock.Floor = &result.Floor{TTFT: benchtest.EqualLatencies(10, 0.3), E2EL: benchtest.EqualLatencies(10, 0.3), ITLError: benchtest.EqualLatencies(10, c.gaps)}
		}
		report := CompareResults(a, b, 0.95)
		got := map[string]string{}
		for _, r := range report.Rows {
			got[r.Key] = r.Outcome
		}
		if got["median_itl_ms"] != c.want || got["median_tpot_ms"] != c.want || got["median_ttft_ms"] != RowWorse {
			t.Errorf("floor %v: outcomes %v, want %s for the gaps and %s for the TTFT", c.gaps, got, c.want, RowWorse)
		}
		if floor := strings.Contains(report.Verdict, "within the client's floor"); floor != (c.want == RowWithinFloor) {
			t.Errorf("floor %v: verdict = %s, want it to name the floor: %v", c.gaps, report.Verdict, c.want == RowWithinFloor)
		}
		bound, err := ParseRegressionLimit("median_itl_ms=1%")
		if err != nil {
			t.Fatal(err)
		}
		if ok := CheckRegressions(report, []RegressionLimit{bound})[0].OK; ok != (c.want == RowWithinFloor) {
			t.Errorf("floor %v: the bound holds: %v", c.gaps, ok)
		}
	}
}
