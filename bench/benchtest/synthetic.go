package benchtest

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"penstock/bench/result"
)

// SyntheticResult describes a synthetic result.
type SyntheticResult struct {
	Seed     uint64
	Requests int
	Seconds  int
	TTFT     float64 // median, in ms
	ITL      float64
	Failed   int
	Invalid  string
	Stages   []string
}

// distribution returns the distribution that a run with these samples would record.
func distribution(samples []float64) *result.Distribution {
	slices.Sort(samples)
	d := &result.Distribution{
		Count: int64(len(samples)), Min: samples[0], Max: samples[len(samples)-1],
		Percentiles: map[string]float64{},
	}
	for _, v := range samples {
		d.Mean += v
	}
	d.Mean /= float64(len(samples))
	for _, v := range samples {
		d.Std += (v - d.Mean) * (v - d.Mean) / float64(len(samples))
		width := math.Pow(10, math.Floor(math.Log10(v))-2)
		v = math.Round(v/width) * width
		if n := len(d.Buckets); n > 0 && d.Buckets[n-1][0] == v {
			d.Buckets[n-1][1]++
		} else {
			d.Buckets = append(d.Buckets, [2]float64{v, 1})
		}
	}
	d.Std = math.Sqrt(d.Std)
	for _, p := range []float64{1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9} {
		rank := p / 100 * float64(len(samples)-1)
		lo := int(rank)
		d.Percentiles[strconv.FormatFloat(p, 'f', -1, 64)] = samples[lo] + (samples[min(lo+1,
			len(samples)-1)]-samples[lo])*(rank-float64(lo))
	}
	return d
}

func (y SyntheticResult) buildSummary(rng *rand.Rand, requests int) result.Summary {
	draw := func(n int, median, spread float64) *result.Distribution {
		out := make([]float64, n)
		for i := range out {
			out[i] = median * math.Exp(spread*rng.NormFloat64())
		}
		return distribution(out)
	}
	f := func(v float64) *float64 { return &v }
	i64 := func(v int64) *int64 { return &v }
	s := result.Summary{
		Requests: requests, Completed: requests - y.Failed, Failed: y.Failed, Seconds: float64(y.Seconds),
		Errors: []result.ErrorCount{}, StreamFaults: map[string]int{}, Unmeasured: map[string]string{},
		Latency: map[string]*result.Distribution{
			result.TTFT: draw(requests, y.TTFT, 0.3), result.ITL: draw(requests*20, y.ITL, 0.2),
			result.TPOT: draw(requests, y.ITL, 0.1), result.TTFV: draw(requests, y.TTFT*1.1, 0.3),
			result.E2EL: draw(requests, y.TTFT+100*y.ITL, 0.2), result.TTFTFromSchedule: draw(requests, y.TTFT*1.05, 0.35),
			result.E2ELFromSchedule: draw(requests, y.TTFT*1.05+100*y.ITL, 0.2),
			result.ScheduleDelay:    draw(requests, 0.05*y.TTFT, 0.6), result.Queue: nil, result.Connect: draw(8, 0.2, 0.3),
		},
	}
	s.ErrorRate, s.GoodShare = f(float64(y.Failed)/float64(requests)), f(0.93)
	s.InputTokens, s.OutputTokens, s.CachedTokens, s.CachedShare = i64(int64(requests)*512), i64(int64(requests)*100),
		i64(int64(requests)*4), f(0.008)
	s.RequestThroughput, s.OutputThroughput = f(float64(s.Completed)/s.Seconds), f(float64(*s.OutputTokens)/s.Seconds)
	s.InputThroughput, s.Goodput, s.MeanConcurrency, s.CoalescedShare = f(float64(*s.InputTokens)/s.Seconds),
		f(0.93*float64(requests)/s.Seconds), f(7.5), f(0.004)
	s.Unmeasured[result.Queue] = "the target did not say: only an edge with log.debug_headers does"
	if y.Failed > 0 {
		s.Errors = []result.ErrorCount{{Kind: result.ErrStatus, Status: 503, Code: "no_healthy_route", Count: y.Failed}}
	}
	return s
}

// Build creates a result with the properties described by y.
func (y SyntheticResult) Build(t testing.TB) *result.Result {
	t.Helper()
	rng := rand.New(rand.NewPCG(y.Seed, 99))
	r := SampleResult()
	r.NumPrompts, r.Duration = y.Requests, float64(y.Seconds)
	r.ModelID, r.RequestRate = "demo", result.Rate(float64(y.Requests)/float64(y.Seconds))
	p := r.Penstock
	p.Verdict = result.Verdict{Valid: y.Invalid == "", Reasons: []result.Reason{}}
	if y.Invalid != "" {
		p.Verdict.Reasons = append(p.Verdict.Reasons, result.Reason{
			Code: "client_saturated", Text: y.Invalid,
			Invalidates: true,
		})
	}
	p.Target = result.Target{BaseURL: "http://127.0.0.1:4000", Engine: "edge"}
	p.Load.Mode, p.Load.Arrival = "open", "poisson"
	p.Total = y.buildSummary(rng, y.Requests)
	r.Completed, r.Failed = p.Total.Completed, p.Total.Failed
	r.RequestThroughput, r.OutputThroughput, r.RequestGoodput = p.Total.RequestThroughput, p.Total.OutputThroughput,
		p.Total.Goodput
	p.ByDialect = map[string]*result.Summary{"chat": &p.Total}
	p.ByUpstream = map[string]*result.Summary{}
	p.Objectives = []result.Objective{{Measure: result.TTFT, Limit: 200}, {Measure: result.ITL, Limit: 50}}
	names := y.Stages
	if len(names) == 0 {
		names = []string{"rate " + result.NumberText(float64(y.Requests)/float64(y.Seconds))}
	}
	p.Stages = nil
	for i, name := range names {
		at := SyntheticResult{
			Seed: y.Seed, Requests: y.Requests / len(names), Seconds: y.Seconds / len(names),
			TTFT: y.TTFT * (1 + float64(i*i)/4), ITL: y.ITL * (1 + float64(i)/10), Failed: y.Failed / len(names),
		}
		rate, ok := float64(10*(i+1)), i < 3
		p.Stages = append(p.Stages, result.Stage{
			Name: name, Rate: &rate, AchievedRate: &rate, StartS: float64(i * at.Seconds), EndS: float64((i + 1) * at.Seconds),
			Met: &ok, Missed: []string{}, Summary: at.buildSummary(rng, at.Requests),
		})
	}
	y.addSeries(p, rng, len(names))
	return r
}

func (y SyntheticResult) addSeries(p *result.Penstock, rng *rand.Rand, stages int) {
	s := result.Series{IntervalS: 1, Latency: map[string]map[string][]*float64{}, Upstreams: map[string][]int{}}
	for _, m := range []string{result.TTFT, result.TTFTFromSchedule, result.ITL, result.E2EL} {
		s.Latency[m] = map[string][]*float64{}
	}
	rate := float64(y.Requests) / float64(y.Seconds)
	base := map[string]float64{
		result.TTFT: y.TTFT, result.TTFTFromSchedule: y.TTFT * 1.05, result.ITL: y.ITL,
		result.E2EL: y.TTFT + 100*y.ITL,
	}
	for i := range y.Seconds {
		n := int(poissonCount(rng, rate))
		s.TS = append(s.TS, float64(i))
		s.Scheduled, s.Sent, s.Completed = append(s.Scheduled, n), append(s.Sent, n), append(s.Completed, n)
		s.Failed, s.Left, s.InFlight = append(s.Failed, y.Failed/y.Seconds), append(s.Left, 0), append(s.InFlight, 4+n/4)
		s.Upstreams["gpu-a"], s.Upstreams["gpu-b"] = append(s.Upstreams["gpu-a"], n/2), append(s.Upstreams["gpu-b"], n-n/2)
		s.OutputTokens = append(s.OutputTokens, float64(100*n))
		s.Stage = append(s.Stage, i*stages/y.Seconds)
		for m, v := range base {
			for j, q := range []string{"50", "90", "99", "max"} {
				x := v * (1 + 0.25*float64(j)) * (1 + 0.1*rng.Float64())
				s.Latency[m][q] = append(s.Latency[m][q], &x)
			}
		}
	}
	p.Series = s
}

// poissonCount returns a Poisson-distributed count.
func poissonCount(rng *rand.Rand, mean float64) float64 {
	n, p, limit := -1.0, 1.0, math.Exp(-mean)
	for p > limit {
		p *= rng.Float64()
		n++
	}
	return max(0, n)
}
