package load

import (
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"penstock/bench/load/client"
	"penstock/bench/load/workload"
	"penstock/bench/result"
)

// penstockResult builds the load tester's part of the result from the samples. The caller adds all
// information that the samples do not contain.
func (f *findings) penstockResult(work *workload.Workload) *result.Penstock {
	p := &result.Penstock{
		SchemaVersion: result.SchemaVersion, Stages: []result.Stage{}, ByDialect: map[string]*result.Summary{},
		ByUpstream: map[string]*result.Summary{},
		Tokens:     result.TokenCounts{Input: map[string]int{}, Output: map[string]int{}},
		Events:     []result.Event{}, Telemetry: []result.Telemetry{},
		Objectives: append([]result.Objective{}, f.s.objectives...), ExpectErrors: append([]string{}, f.s.ExpectErrors...),
		Command: redactArgs(os.Args), Seed: f.s.Seed, Nonce: work.Nonce, Environment: Environment(),
	}
	wall := 0.0
	for i := range f.stages {
		wall += f.stages[i].seconds()
		p.Stages = append(p.Stages, f.stageReport(i))
	}
	p.Total = f.summary(func(k gapKey) bool { return k.target == 0 }, wall)
	for i := range f.samples {
		x := &f.samples[i]
		if x.Stage == warmupStage {
			continue
		}
		if p.ByDialect[x.Dialect.Name] == nil {
			sum := f.summary(func(k gapKey) bool { return k.dialect == x.Dialect && k.target == 0 }, wall)
			p.ByDialect[x.Dialect.Name] = &sum
		}
		if up := x.Edge.Upstream; up != "" && p.ByUpstream[up] == nil {
			sum := f.summary(func(k gapKey) bool { return k.upstream == up && k.target == 0 }, wall)
			p.ByUpstream[up] = &sum
		}
		if x.Completed() && x.Target == 0 {
			if x.Tokens.InSource != "" {
				p.Tokens.Input[x.Tokens.InSource]++
			}
			if x.Tokens.OutSource != "" {
				p.Tokens.Output[x.Tokens.OutSource]++
			}
		}
	}
	p.Load = f.loadSummary(work)
	return p
}

func (f *findings) stageReport(i int) result.Stage {
	sp := &f.stages[i]
	st := result.Stage{
		Name: sp.name, StartS: float64(sp.start) / 1e9, EndS: float64(sp.end) / 1e9, Missed: []string{},
		Summary: f.stageSummary(i),
	}
	if sp.spec.rate > 0 && !math.IsInf(sp.spec.rate, 1) {
		st.Rate = &sp.spec.rate
		if f.s.CompareURL != "" { // the second target gets half of the requests
			st.Rate = new(sp.spec.rate / 2)
		}
	}
	if sp.spec.concurrency > 0 {
		st.Concurrency = &sp.spec.concurrency
	}
	if sp.spec.rate > 0 {
		st.Scheduled = &sp.scheduled
	}
	if d := float64(sp.sendEnd-sp.start) / 1e9; d > 0 {
		st.SendS = d
		n := 0
		for j := range f.samples {
			if x := &f.samples[j]; x.Stage == i && x.Target == 0 && x.At.Sent != client.MissingValue &&
				x.At.Sent <= sp.sendEnd+int64(time.Millisecond) {
				n++
			}
		}
		st.AchievedRate = new(float64(n) / d)
	}
	if len(f.s.objectives) > 0 {
		o := f.judgeStage(i)
		st.Met, st.Missed = &o.met, o.broke
	}
	return st
}

// loadSummary describes the requested load and the load that was sent.
func (f *findings) loadSummary(work *workload.Workload) result.LoadSummary {
	out := result.LoadSummary{
		Mode: "open", Arrival: "poisson", Mix: map[string]float64{}, Unstreamed: []string{},
		Dataset: f.s.DatasetName,
	}
	if f.s.DatasetPath == "" {
		out.InputLength, out.OutputLength = f.s.work.In.String(), f.s.work.Out.String()
	}
	for _, m := range f.s.work.Mix {
		out.Mix[m.D.Name] += m.Weight
		out.Streamed = out.Streamed || work.WantsStream(m.D)
		if work.Unstreamed[m.D] {
			out.Unstreamed = append(out.Unstreamed, m.D.Name)
		}
	}
	switch {
	case f.s.closed:
		out.Mode, out.Arrival = "closed", ""
	case f.s.DatasetName == "trace":
		out.Mode, out.Arrival = "trace", "trace"
	case f.s.Ramp != "":
		out.Arrival = "ramp"
	case f.s.Constant:
		out.Arrival = "constant"
	}
	var asked, got, wall float64
	for i := range f.stages {
		sp := &f.stages[i]
		d := float64(sp.sendEnd-sp.start) / 1e9
		wall += d
		asked += sp.spec.rate * d
	}
	for i := range f.samples {
		switch x := &f.samples[i]; {
		case x.Stage == warmupStage:
			out.WarmupRequests++
		case x.At.Sent != client.MissingValue:
			got++
		}
	}
	if wall > 0 {
		got /= wall
		out.AchievedRate = &got
		if asked /= wall; out.Mode == "open" && out.Arrival != "ramp" && !math.IsInf(asked, 0) && f.s.Profile == "" {
			out.RequestedRate = &asked
		}
	}
	return out
}

// vllmResult builds vLLM's part of the result.
func (f *findings) vllmResult(p *result.Penstock) *result.Result {
	s, t := f.s, &p.Total
	out := &result.Result{
		Backend: "mix", NumPrompts: t.Requests,
		RequestRate: result.Rate(math.Inf(1)), Burstiness: result.Rate(s.arrivalGammaShape()), Duration: t.Seconds,
		Completed: t.Completed, Failed: t.Failed,
		TotalInputTokens: t.InputTokens, TotalOutputTokens: t.OutputTokens, RequestThroughput: t.RequestThroughput,
		RequestGoodput:   t.Goodput,
		OutputThroughput: t.OutputThroughput, Measures: map[string]*float64{}, Penstock: p,
	}
	if len(s.work.Mix) == 1 {
		out.Backend = s.work.Mix[0].D.Backend
	}
	out.EndpointType = out.Backend
	if n := len(f.stages); n > 0 {
		last := &f.stages[n-1].spec
		if last.rate > 0 && !last.ramp {
			out.RequestRate = result.Rate(last.rate)
		}
		if last.concurrency > 0 {
			out.MaxConcurrency = &last.concurrency
		}
	}
	if s.Ramp != "" {
		out.RampUpStrategy, out.RampUpStartRPS, out.RampUpEndRPS = "linear", &s.rampFrom, &s.rampTo
	}
	if t.InputThroughput != nil && t.OutputThroughput != nil {
		out.TotalTokenThroughput = new(*t.InputThroughput + *t.OutputThroughput)
	}
	if v := highestRate(p.Series.OutputTokens, p.Series.IntervalS); !math.IsNaN(v) && t.OutputTokens != nil {
		out.MaxOutputTokensPerS = &v
	}
	f.setAudioThroughput(out)
	for _, m := range result.FlatMeasures {
		for _, stat := range result.FlatStatistics {
			name := stat + "_" + m + "_ms"
			out.Measures[name] = nil
			if k, err := result.ParseKey(name); err == nil && t.Latency[m] != nil {
				out.Measures[name] = new(k.FromDistribution(t.Latency[m]))
			}
		}
	}
	return out
}

// setAudioThroughput sets the number of seconds of audio that were transcribed per second.
func (f *findings) setAudioThroughput(out *result.Result) {
	sum := 0.0
	for i := range f.samples {
		if x := &f.samples[i]; x.Stage != warmupStage && x.Completed() && x.Target == 0 {
			sum += x.Audio
		}
	}
	if sum > 0 && out.Duration > 0 {
		out.RTFX = new(sum / out.Duration)
	}
}

func redactArgs(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		name, _, joined := strings.Cut(a, "=")
		switch name {
		case "--api-key", "--header", "-H":
		default:
			continue
		}
		if joined {
			out[i] = name + "=***"
		} else if i+1 < len(out) {
			out[i+1] = "***"
		}
	}
	return out
}
