package compare

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"penstock/bench/benchtest"
	"penstock/bench/result"
	"penstock/config/testkit/golden"
)

func TestCompareGolden(t *testing.T) {
	base := benchtest.SyntheticResult{Seed: 1, Requests: 600, Seconds: 60, TTFT: 100, ITL: 20}
	slower := benchtest.SyntheticResult{Seed: 2, Requests: 600, Seconds: 60, TTFT: 115, ITL: 20, Failed: 30}
	swept := benchtest.SyntheticResult{Seed: 3, Requests: 600, Seconds: 60, TTFT: 100, ITL: 20, Stages: []string{"rate 10", "rate 20"}}
	swept2 := benchtest.SyntheticResult{Seed: 4, Requests: 600, Seconds: 60, TTFT: 90, ITL: 20, Stages: []string{"rate 20", "rate 40"}, Invalid: "the client's processor was busy for 97 % of the time"}
	for name, two := range map[string][2]*result.Result{
		"slower": {base.Build(t), slower.Build(t)}, "stages": {swept.Build(t), swept2.Build(t)},
	} {
		c := CompareResults(two[0], two[1], 0.999)
		var text bytes.Buffer
		if err := c.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		golden.CompareFile(t, "testdata/"+name+".txt", text.Bytes())
	}
}

// TestEqualServers checks that a comparison of equal servers finds no difference, regardless of the
// results' size and seed. If the servers differ by 20 %, it must find a difference.
func TestEqualServers(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 9, 20, 40, 40, 40, 49, 50, 100, 300, 499, 500, 1500} {
		of := func() *result.Result {
			return benchtest.SyntheticResult{Seed: rng.Uint64(), Requests: n, Seconds: max(1, n/10), TTFT: 100, ITL: 20}.Build(t)
		}
		for _, row := range CompareResults(of(), of(), 0.999).Rows {
			if row.Outcome == RowBetter || row.Outcome == RowWorse {
				t.Errorf("%d equal requests: %+v, want neither better nor worse", n, row)
			}
			if least := map[string]int{"p90": 50, "p99": 500}[strings.SplitN(row.Key, "_", 2)[0]]; n < least && row.Low != nil {
				t.Errorf("%d requests: %s is judged", n, row.Key)
			}
		}
	}
	for i := range uint64(5) {
		base := benchtest.SyntheticResult{Seed: 10 + i, Requests: 300, Seconds: 30, TTFT: 100, ITL: 20}
		worse := benchtest.SyntheticResult{Seed: 2000 + i, Requests: 300, Seconds: 30, TTFT: 120, ITL: 20}
		found := slices.ContainsFunc(CompareResults(base.Build(t), worse.Build(t), 0.999).Rows, func(r Row) bool {
			return r.Key == "median_ttft_ms" && r.Outcome == RowWorse
		})
		if !found {
			t.Errorf("seed %d: 20 %% more is not found", i)
		}
	}
}

func TestPoissonDrawsHaveTheirMean(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, m := range []float64{0, 0.05, 1, 8, 39, 41, 4000} {
		sum := 0.0
		for range 4000 {
			sum += poissonCount(rng, m)
		}
		if got := sum / 4000; math.Abs(got-m) > 5*math.Sqrt(m/4000)+1e-9 {
			t.Errorf("mean of draws %v, want %v", got, m)
		}
	}
}

func TestRegressions(t *testing.T) {
	t.Parallel()
	base := benchtest.SyntheticResult{Seed: 1, Requests: 600, Seconds: 60, TTFT: 100, ITL: 20}
	for _, c := range []struct {
		next   benchtest.SyntheticResult
		bounds []string
		want   []string // the failed checks
	}{
		{benchtest.SyntheticResult{Seed: 1, Requests: 600, Seconds: 60, TTFT: 100, ITL: 20}, []string{"0%"}, nil},
		{benchtest.SyntheticResult{Seed: 5, Requests: 600, Seconds: 60, TTFT: 100, ITL: 20}, []string{"5%"}, nil},
		{benchtest.SyntheticResult{Seed: 2, Requests: 600, Seconds: 60, TTFT: 150, ITL: 20}, []string{"5%"}, []string{"median_ttft_ms", "p99_ttft_ms", "p99_ttft_from_schedule_ms"}},
		{benchtest.SyntheticResult{Seed: 2, Requests: 600, Seconds: 60, TTFT: 150, ITL: 20}, []string{"5%", "median_ttft_ms=80%", "p99_ttft_ms=80%", "p99_ttft_from_schedule_ms=90%"}, nil},
		{benchtest.SyntheticResult{Seed: 2, Requests: 600, Seconds: 60, TTFT: 70, ITL: 15}, []string{"5%"}, nil},
		{benchtest.SyntheticResult{Seed: 1, Requests: 600, Seconds: 60, TTFT: 100, ITL: 20, Failed: 60}, []string{"50%"}, []string{"error_rate"}},
		{benchtest.SyntheticResult{Seed: 1, Requests: 600, Seconds: 60, TTFT: 100, ITL: 20}, []string{"p50_queue_ms=5%"}, []string{"p50_queue_ms"}},
	} {
		var bounds []RegressionLimit
		for _, s := range c.bounds {
			b, err := ParseRegressionLimit(s)
			if err != nil {
				t.Fatal(err)
			}
			bounds = append(bounds, b)
		}
		var got []string
		for _, a := range CheckRegressions(CompareResults(base.Build(t), c.next.Build(t), 0.999), bounds) {
			if !a.OK {
				got = append(got, strings.Fields(a.Text)[0])
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("row of %+v with %v (-want +got): %s", c.next, c.bounds, d)
		}
	}
	for _, s := range []string{"", "5", "%", "-5%", "x%", "p99_ttft_ms=", "p99_nope_ms=5%", "NaN%", "5%%", "1 2%"} {
		if b, err := ParseRegressionLimit(s); err == nil {
			t.Errorf("%q is read as %+v", s, b)
		}
	}
}

func TestAssert(t *testing.T) {
	r := benchtest.SyntheticResult{Seed: 1, Requests: 600, Seconds: 60, TTFT: 100, ITL: 20, Failed: 6, Stages: []string{"a", "b"}}.Build(t)
	for _, c := range []struct {
		r    *result.Result
		text string
		ok   bool
		why  string
	}{
		{r, "p99_ttft_ms<500", true, ""},
		{r, "p99_ttft_ms < 0.5s", true, ""},
		{r, "median_ttft_ms<50", false, "median_ttft_ms is 10"},
		{r, "p99.5_ttft_ms{dialect=chat}>=100", true, ""},
		{r, "error_rate<=1%", true, ""},
		{r, "error_rate<0.01", false, "error_rate is 1.00 %"},
		{r, "failed==6", true, ""},
		{r, "failed != 6", false, "failed is 6"},
		{r, "stream_faults==0", true, ""},
		{r, "max_itl_ms<1", false, "max_itl_ms is"},
		{r, "p50_queue_ms<1", false, "cannot be judged: the target did not say"},
		{r, "completed{stage=1}>1", true, ""},
		{r, "completed{stage=7}>1", false, `there is no stage "7"`},
		{r, "completed{dialect=messages}>1", false, `there is no dialect "messages"`},
		{r, "completed{upstream=gpu-a}>1", false, `there is no upstream "gpu-a"`},
	} {
		a, err := ParseAssert(c.text)
		if err != nil {
			t.Errorf("ParseAssert(%s): %v, want no error", c.text, err)
			continue
		}
		if got := a.Check(c.r); got.OK != c.ok || !strings.Contains(got.Reason, c.why) || (got.Reason == "") != c.ok {
			t.Errorf("Check of %s = %+v, want %v with %q", c.text, got, c.ok, c.why)
		}
	}
	for _, s := range []string{
		"", "p99_ttft_ms", "p99_ttft_ms<", "<5", "p99_ttft<5", "p99_nope_ms<5", "p101_ttft_ms<5", "q99_ttft_ms<5", "p99_ttft_ms=5", "p99_ttft_ms<5%", "error_rate<5s",
		"p99_ttft_ms{chat}<5", "p99_ttft_ms{dialect=}<5", "p99_ttft_ms{model=x}<5", "p99_ttft_ms{stage=x}<5", "p99_ttft_ms{stage=1<5", "p99_ttft_ms<NaN", "p99_ttft_ms<Inf", "x_ms<1", "_ttft_ms<1",
	} {
		if a, err := ParseAssert(s); err == nil {
			t.Errorf("%q is read as %+v", s, a)
		}
	}
}

func FuzzParseAssert(f *testing.F) {
	for _, s := range []string{"p99_ttft_ms<500", "error_rate<=1%", "p99.9_itl_ms{dialect=chat}>=1.5s", "completed{stage=0}!=3", "{", "p_ttft_ms<1", "p1e1_e2el_ms==2"} {
		f.Add(s)
	}
	r := benchtest.SyntheticResult{Seed: 1, Requests: 40, Seconds: 4, TTFT: 100, ITL: 20}.Build(f)
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAssert(s)
		if err != nil {
			return
		}
		if _, err := result.ParseKey(a.key.String()); err != nil {
			t.Fatalf("%q: its measure %q is not read again: %v", s, a.key, err)
		}
		if got := a.Check(r); got.OK == (got.Reason != "") {
			t.Fatalf("Check of %q = %+v, want a reason only if it fails", s, got)
		}
	})
}

func FuzzParseRegress(f *testing.F) {
	for _, s := range []string{"5%", "0%", "p99_ttft_ms=10%", "=5%", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if b, err := ParseRegressionLimit(s); err == nil && !(b.limit >= 0 && b.limit <= 1e4) {
			t.Fatalf("ParseRegressionLimit(%q) = bound %v, want 0 to 10000", s, b.limit)
		}
	})
}
