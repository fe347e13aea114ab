package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"penstock/config/testkit/fastset"
	"penstock/config/testkit/golden"
)

func saved(t *testing.T, r *Result) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "result.json")
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCompareGolden(t *testing.T) {
	base := synth{seed: 1, requests: 600, seconds: 60, ttft: 100, itl: 20}
	slower := synth{seed: 2, requests: 600, seconds: 60, ttft: 115, itl: 20, failed: 30}
	swept := synth{seed: 3, requests: 600, seconds: 60, ttft: 100, itl: 20, stages: []string{"rate 10", "rate 20"}}
	swept2 := synth{seed: 4, requests: 600, seconds: 60, ttft: 90, itl: 20, stages: []string{"rate 20", "rate 40"}, invalid: "the client's processor was busy for 97 % of the time"}
	flat := base.result(t)
	flat.Penstock = nil
	v := 77.0
	flat.Measures["p99_ttft_ms"] = &v
	for name, two := range map[string][2]*Result{
		"slower": {base.result(t), slower.result(t)}, "stages": {swept.result(t), swept2.result(t)}, "flat": {flat, base.result(t)},
	} {
		c := Compare(two[0], two[1], 0.95)
		var text bytes.Buffer
		if err := c.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		golden.File(t, "testdata/compare/"+name+".txt", text.Bytes())
	}
}

// TestIntervalsHoldWhatTheyPromise compares results of equal servers, and of servers 20 % apart, many times.
func TestIntervalsHoldWhatTheyPromise(t *testing.T) {
	fastset.LeaveOut(t, "intervals over thousands of samples")
	t.Parallel()
	differs, finds, rounds := 0, 0, 20
	rows := 0
	for i := range uint64(rounds) {
		a := synth{seed: 10 + i, requests: 300, seconds: 30, ttft: 100, itl: 20}
		same := synth{seed: 1000 + i, requests: 300, seconds: 30, ttft: 100, itl: 20}
		worse := synth{seed: 2000 + i, requests: 300, seconds: 30, ttft: 120, itl: 20}
		for _, r := range Compare(a.result(t), same.result(t), 0.95).Rows {
			if r.Outcome == RowBetter || r.Outcome == RowWorse {
				differs++
			}
			if r.Low != nil {
				rows++
			}
		}
		for _, r := range Compare(a.result(t), worse.result(t), 0.95).Rows {
			if r.Key == "median_ttft_ms" && r.Outcome == RowWorse {
				finds++
			}
		}
	}
	if share := float64(differs) / float64(rows); share > 0.08 {
		t.Errorf("%.1f %% of the rows of equal servers show a difference", 100*share)
	}
	if finds < rounds*9/10 {
		t.Errorf("20 %% more was found %d times of %d", finds, rounds)
	}
}

func TestPoissonDrawsHaveTheirMean(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, m := range []float64{0, 0.05, 1, 8, 39, 41, 4000} {
		sum := 0.0
		for range 4000 {
			sum += poisson(rng, m)
		}
		if got := sum / 4000; math.Abs(got-m) > 5*math.Sqrt(m/4000)+1e-9 {
			t.Errorf("mean of draws %v, want %v", got, m)
		}
	}
}

func TestRegressions(t *testing.T) {
	base := synth{seed: 1, requests: 600, seconds: 60, ttft: 100, itl: 20}
	for _, c := range []struct {
		next   synth
		bounds []string
		want   []string // what fails
	}{
		{synth{seed: 1, requests: 600, seconds: 60, ttft: 100, itl: 20}, []string{"0%"}, nil},
		{synth{seed: 5, requests: 600, seconds: 60, ttft: 100, itl: 20}, []string{"5%"}, nil},
		{synth{seed: 2, requests: 600, seconds: 60, ttft: 150, itl: 20}, []string{"5%"}, []string{"median_ttft_ms", "p99_ttft_ms", "p99_ttft_from_schedule_ms"}},
		{synth{seed: 2, requests: 600, seconds: 60, ttft: 150, itl: 20}, []string{"5%", "median_ttft_ms=80%", "p99_ttft_ms=80%", "p99_ttft_from_schedule_ms=90%"}, nil},
		{synth{seed: 2, requests: 600, seconds: 60, ttft: 70, itl: 15}, []string{"5%"}, nil},
		{synth{seed: 1, requests: 600, seconds: 60, ttft: 100, itl: 20, failed: 60}, []string{"50%"}, []string{"error_rate"}},
		{synth{seed: 1, requests: 600, seconds: 60, ttft: 100, itl: 20}, []string{"p50_queue_ms=5%"}, []string{"p50_queue_ms"}},
	} {
		var bounds []Regress
		for _, s := range c.bounds {
			b, err := ParseRegress(s)
			if err != nil {
				t.Fatal(err)
			}
			bounds = append(bounds, b)
		}
		var got []string
		for _, a := range Check(Compare(base.result(t), c.next.result(t), 0.99), bounds) {
			if !a.OK {
				got = append(got, strings.Fields(a.Text)[0])
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%+v, %v: %s", c.next, c.bounds, d)
		}
	}
	for _, s := range []string{"", "5", "%", "-5%", "x%", "p99_ttft_ms=", "p99_nope_ms=5%", "NaN%", "5%%", "1 2%"} {
		if b, err := ParseRegress(s); err == nil {
			t.Errorf("%q is read as %+v", s, b)
		}
	}
}

func TestAssert(t *testing.T) {
	r := synth{seed: 1, requests: 600, seconds: 60, ttft: 100, itl: 20, failed: 6, stages: []string{"a", "b"}}.result(t)
	v := 42.0
	vllm := &Result{Measures: map[string]*float64{"p99_ttft_ms": &v, "median_ttft_ms": &v}, Completed: 9, Failed: 1}
	for _, c := range []struct {
		r    *Result
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
		{vllm, "p99_ttft_ms<50", true, ""},
		{vllm, "p50_ttft_ms<50", true, ""},
		{vllm, "error_rate<5%", false, "error_rate is 10.00 %"},
		{vllm, "p90_ttft_ms<50", false, "cannot be judged: the file does not have it"},
		{vllm, "completed{stage=0}>0", false, "the file of another tool has no parts"},
	} {
		a, err := ParseAssert(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := a.Check(c.r); got.OK != c.ok || !strings.Contains(got.Reason, c.why) || (got.Reason == "") != c.ok {
			t.Errorf("%s: %+v", c.text, got)
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
	r := synth{seed: 1, requests: 40, seconds: 4, ttft: 100, itl: 20}.result(f)
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAssert(s)
		if err != nil {
			return
		}
		if _, err := parseMeasure(a.key.String()); err != nil {
			t.Fatalf("%q: its measure %q is not read again: %v", s, a.key, err)
		}
		if got := a.Check(r); got.OK == (got.Reason != "") {
			t.Fatalf("%q: %+v", s, got)
		}
	})
}

func FuzzParseRegress(f *testing.F) {
	for _, s := range []string{"5%", "0%", "p99_ttft_ms=10%", "=5%", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if b, err := ParseRegress(s); err == nil && !(b.limit >= 0 && b.limit <= 1e4) {
			t.Fatalf("%q: bound %v", s, b.limit)
		}
	})
}

func TestChecks(t *testing.T) {
	good := synth{seed: 1, requests: 600, seconds: 60, ttft: 100, itl: 20}.result(t)
	slow := synth{seed: 2, requests: 600, seconds: 60, ttft: 150, itl: 20}.result(t)
	bad := synth{seed: 1, requests: 600, seconds: 60, ttft: 100, itl: 20, invalid: "clock"}.result(t)
	base := saved(t, good)
	for _, c := range []struct {
		c    Checks
		r    *Result
		code int
	}{
		{Checks{}, good, 0},
		{Checks{Assert: []string{"failed==0"}}, good, 0},
		{Checks{Assert: []string{"failed==0", "p99_ttft_ms<1"}}, good, ExitThreshold},
		{Checks{}, bad, ExitInvalid},
		{Checks{AllowInvalid: true}, bad, 0},
		{Checks{Assert: []string{"failed==1"}}, bad, ExitThreshold},
		{Checks{Baseline: base, MaxRegress: []string{"5%"}}, good, 0},
		{Checks{Baseline: base, MaxRegress: []string{"5%"}}, slow, ExitThreshold},
		{Checks{Baseline: base}, good, ExitUsage},
		{Checks{MaxRegress: []string{"5%"}}, good, ExitUsage},
		{Checks{Baseline: base + "x", MaxRegress: []string{"5%"}}, good, ExitUsage},
		{Checks{Assert: []string{"nonsense"}}, good, ExitUsage},
		{Checks{Baseline: base, MaxRegress: []string{"5"}}, good, ExitUsage},
	} {
		j, err := c.c.Prepare()
		if err == nil {
			err = j.Apply(c.r, new(bytes.Buffer))
		}
		code := 0
		var e *ExitError
		if errors.As(err, &e) {
			code = e.ExitCode()
		}
		if code != c.code {
			t.Errorf("%+v: code %d, want %d: %v", c.c, code, c.code, err)
		}
	}
}

func TestCompareCommand(t *testing.T) {
	a := saved(t, synth{seed: 1, requests: 600, seconds: 60, ttft: 100, itl: 20}.result(t))
	b := saved(t, synth{seed: 2, requests: 600, seconds: 60, ttft: 150, itl: 20}.result(t))
	bad := saved(t, synth{seed: 1, requests: 600, seconds: 60, ttft: 100, itl: 20, invalid: "clock"}.result(t))
	one := saved(t, synth{seed: 1, requests: 60, seconds: 60, ttft: 100, itl: 20, stages: []string{"a", "b"}}.result(t))
	two := saved(t, synth{seed: 1, requests: 60, seconds: 60, ttft: 100, itl: 20, stages: []string{"c", "d"}}.result(t))
	out := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		c    CompareCmd
		code int
		want string
	}{
		{CompareCmd{Base: a, New: b, Confidence: 0.95}, 0, "worse: "},
		{CompareCmd{Base: a, New: b, Confidence: 0.95, Output: out}, 0, ""},
		{CompareCmd{Base: a, New: b, Confidence: 0.95, MaxRegress: []string{"5%"}}, ExitThreshold, "worse: "},
		{CompareCmd{Base: a, New: a, Confidence: 0.95, MaxRegress: []string{"0%"}}, 0, "no difference"},
		{CompareCmd{Base: a, New: bad, Confidence: 0.95}, ExitInvalid, "not valid: clock"},
		{CompareCmd{Base: bad, New: a, Confidence: 0.95, MaxRegress: []string{"5%"}}, ExitInvalid, "not valid: clock"},
		{CompareCmd{Base: a, New: bad, Confidence: 0.95, AllowInvalid: true}, 0, "not valid: clock"},
		{CompareCmd{Base: one, New: two, Confidence: 0.95}, ExitFailed, "nothing to compare"},
		{CompareCmd{Base: one, New: two, Confidence: 0.95, MaxRegress: []string{"5%"}}, ExitFailed, "nothing to compare"},
		{CompareCmd{Base: a, New: b, Confidence: 2}, 2, ""},
		{CompareCmd{Base: a, New: b + "x", Confidence: 0.95}, 2, ""},
		{CompareCmd{Base: a + "x", New: b, Confidence: 0.95}, 2, ""},
		{CompareCmd{Base: a, New: b, Confidence: 0.95, MaxRegress: []string{"x"}}, 2, ""},
	} {
		var text bytes.Buffer
		err := c.c.run(&text)
		code := 0
		var e *ExitError
		if errors.As(err, &e) {
			code = e.ExitCode()
		}
		if code != c.code || !strings.Contains(text.String(), c.want) {
			t.Errorf("%+v: code %d, want %d: %v\n%s", c.c, code, c.code, err, text.String())
		}
	}
	if b, err := os.ReadFile(out); err != nil || !strings.Contains(string(b), "worse: ") {
		t.Errorf("file: %v %s", err, b)
	}
	var text bytes.Buffer
	if err := (&CompareCmd{Base: a, New: b, Confidence: 0.95, Format: "json"}).run(&text); err != nil {
		t.Fatal(err)
	}
	var c CompareReport
	if err := json.Unmarshal(text.Bytes(), &c); err != nil || len(c.Rows) < 20 {
		t.Errorf("JSON: %v %s", err, text.String())
	}
}
