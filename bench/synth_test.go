package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// synth describes a made-up result: what it would be like if a server had these times.
type synth struct {
	seed     uint64
	requests int
	seconds  int
	ttft     float64 // median, in ms
	itl      float64
	failed   int
	invalid  string
	stages   []string
}

// distribution makes what a run would have recorded of samples.
func distribution(samples []float64) *Distribution {
	slices.Sort(samples)
	d := &Distribution{Count: int64(len(samples)), Min: samples[0], Max: samples[len(samples)-1], Percentiles: map[string]float64{}}
	d.Mean = mean(samples)
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
		d.Percentiles[strconv.FormatFloat(p, 'f', -1, 64)] = samples[lo] + (samples[min(lo+1, len(samples)-1)]-samples[lo])*(rank-float64(lo))
	}
	return d
}

func (y synth) summary(rng *rand.Rand, requests int) Summary {
	draw := func(n int, median, spread float64) *Distribution {
		out := make([]float64, n)
		for i := range out {
			out[i] = median * math.Exp(spread*rng.NormFloat64())
		}
		return distribution(out)
	}
	f := func(v float64) *float64 { return &v }
	i64 := func(v int64) *int64 { return &v }
	s := Summary{
		Requests: requests, Completed: requests - y.failed, Failed: y.failed, Seconds: float64(y.seconds),
		Errors: []ErrorCount{}, StreamFaults: map[string]int{}, Unmeasured: map[string]string{},
		Latency: map[string]*Distribution{
			TTFT: draw(requests, y.ttft, 0.3), ITL: draw(requests*20, y.itl, 0.2), TPOT: draw(requests, y.itl, 0.1), TTFV: draw(requests, y.ttft*1.1, 0.3),
			E2EL: draw(requests, y.ttft+100*y.itl, 0.2), TTFTFromSchedule: draw(requests, y.ttft*1.05, 0.35), E2ELFromSchedule: draw(requests, y.ttft*1.05+100*y.itl, 0.2),
			ScheduleDelay: draw(requests, 0.05*y.ttft, 0.6), Queue: nil, Connect: draw(8, 0.2, 0.3),
		},
	}
	s.ErrorRate, s.GoodShare = f(float64(y.failed)/float64(requests)), f(0.93)
	s.InputTokens, s.OutputTokens, s.CachedTokens, s.CachedShare = i64(int64(requests)*512), i64(int64(requests)*100), i64(int64(requests)*4), f(0.008)
	s.RequestThroughput, s.OutputThroughput = f(float64(s.Completed)/s.Seconds), f(float64(*s.OutputTokens)/s.Seconds)
	s.InputThroughput, s.Goodput, s.MeanConcurrency, s.CoalescedShare = f(float64(*s.InputTokens)/s.Seconds), f(0.93*float64(requests)/s.Seconds), f(7.5), f(0.004)
	s.Unmeasured[Queue] = "the target did not say: only an edge with log.debug_headers does"
	if y.failed > 0 {
		s.Errors = []ErrorCount{{Kind: ErrStatus, Status: 503, Code: "no_healthy_route", Count: y.failed}}
	}
	return s
}

// result makes the file.
func (y synth) result(t testing.TB) *Result {
	t.Helper()
	rng := rand.New(rand.NewPCG(y.seed, 99))
	r := sampleResult()
	r.NumPrompts, r.Duration = y.requests, float64(y.seconds)
	r.ModelID, r.RequestRate = "demo", Rate(float64(y.requests)/float64(y.seconds))
	p := r.Penstock
	p.Verdict = Verdict{Valid: y.invalid == "", Reasons: []Reason{}}
	if y.invalid != "" {
		p.Verdict.Reasons = append(p.Verdict.Reasons, Reason{Code: "client_saturated", Text: y.invalid, Invalidates: true})
	}
	p.Target = Target{BaseURL: "http://127.0.0.1:4000", Engine: "edge"}
	p.Load.Mode, p.Load.Arrival = "open", "poisson"
	p.Total = y.summary(rng, y.requests)
	r.Completed, r.Failed = p.Total.Completed, p.Total.Failed
	r.RequestThroughput, r.OutputThroughput, r.RequestGoodput = p.Total.RequestThroughput, p.Total.OutputThroughput, p.Total.Goodput
	p.ByDialect = map[string]*Summary{"chat": &p.Total}
	p.ByUpstream = map[string]*Summary{}
	p.Objectives = []Objective{{TTFT, 200}, {ITL, 50}}
	names := y.stages
	if len(names) == 0 {
		names = []string{"rate " + numberText(float64(y.requests)/float64(y.seconds))}
	}
	p.Stages = nil
	for i, name := range names {
		at := synth{seed: y.seed, requests: y.requests / len(names), seconds: y.seconds / len(names), ttft: y.ttft * (1 + float64(i*i)/4), itl: y.itl * (1 + float64(i)/10), failed: y.failed / len(names)}
		rate, ok := float64(10*(i+1)), i < 3
		p.Stages = append(p.Stages, Stage{
			Name: name, Rate: &rate, AchievedRate: &rate, StartS: float64(i * at.seconds), EndS: float64((i + 1) * at.seconds), Met: &ok, Broke: []string{}, Summary: at.summary(rng, at.requests),
		})
	}
	y.series(p, rng, len(names))
	return r
}

func (y synth) series(p *Penstock, rng *rand.Rand, stages int) {
	s := Series{IntervalS: 1, Latency: map[string]map[string][]*float64{}}
	for _, m := range []string{TTFT, TTFTFromSchedule, ITL, E2EL} {
		s.Latency[m] = map[string][]*float64{}
	}
	rate := float64(y.requests) / float64(y.seconds)
	base := map[string]float64{TTFT: y.ttft, TTFTFromSchedule: y.ttft * 1.05, ITL: y.itl, E2EL: y.ttft + 100*y.itl}
	for i := range y.seconds {
		n := int(poisson(rng, rate))
		s.TS = append(s.TS, float64(i))
		s.Scheduled, s.Sent, s.Completed = append(s.Scheduled, n), append(s.Sent, n), append(s.Completed, n)
		s.Failed, s.Left, s.InFlight = append(s.Failed, y.failed/y.seconds), append(s.Left, 0), append(s.InFlight, 4+n/4)
		s.OutputTokens = append(s.OutputTokens, float64(100*n))
		s.Stage = append(s.Stage, i*stages/y.seconds)
		for m, v := range base {
			for j, q := range []string{"50", "90", "99", "max"} {
				x := v * (1 + 0.25*float64(j)) * (1 + 0.1*rng.Float64())
				s.Latency[m][q] = append(s.Latency[m][q], &x)
			}
		}
	}
	p.Series = s
}
