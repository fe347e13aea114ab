package bench

import (
	"context"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"penstock/proxy/build"
)

// newRun prepares a run: targets, workload, nothing sent yet.
func newRun(s *settings) (*run, error) {
	r := &run{s: s, clock: &clock{time.Now()}, series: newSeries(), meter: &cpuMeter{}, cells: map[cellKey]*gapCell{}, strings: map[string]string{}}
	var err error
	if r.work, err = newWorkload(s); err != nil {
		return nil, err
	}
	keys := []string{s.APIKey, s.CompareKey}
	for i, base := range []string{s.BaseURL, s.CompareURL} {
		if base == "" && i > 0 {
			break
		}
		t, err := newTarget(base, s.Insecure)
		if err != nil {
			return nil, err
		}
		t.clock = r.clock
		t.headers = bearer(keys[i])
		for _, h := range s.Header {
			at := strings.IndexAny(h, ":=")
			if at <= 0 || strings.ContainsAny(h, "\r\n") {
				return nil, usageError("--header %q: want K=V or K: V", h)
			}
			t.headers = append(t.headers, h[:at]+": "+strings.TrimSpace(h[at+1:])+"\r\n"...)
		}
		r.targets = append(r.targets, t)
	}
	return r, nil
}

// Run measures and returns the result. When ctx ends before the run does, the result holds what had been measured and says so.
// progress, unless nil, is called about once a second with the state of the run. Errors are *ExitError.
func Run(ctx context.Context, o Options, progress func(Progress)) (*Result, []*Record, error) {
	s, err := o.validate()
	if err != nil {
		return nil, nil, err
	}
	if s.BaseURL == "" {
		if s.BaseURL, err = discover(ctx); err != nil {
			return nil, nil, err
		}
	}
	r, err := newRun(s)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		for _, t := range r.targets {
			t.close()
		}
	}()
	if err := r.preflight(ctx); err != nil {
		return nil, nil, err
	}
	var floor *Floor
	if !s.NoFloor {
		if floor, err = measureClientOverhead(ctx); err != nil && ctx.Err() == nil {
			return nil, nil, &ExitError{ExitFailed, err.Error()}
		}
	}
	result, err := r.measure(ctx, floor, progress)
	if err != nil {
		return nil, nil, err
	}
	records := make([]*Record, len(r.samples))
	for i := range r.samples {
		records[i] = r.samples[i].record(s.objectives)
	}
	if len(records) == 0 && ctx.Err() == nil {
		return nil, nil, &ExitError{ExitFailed, "no request was sent"}
	}
	return result, records, nil
}

// measure runs the load and everything beside it.
func (r *run) measure(ctx context.Context, floor *Floor, progress func(Progress)) (*Result, error) {
	scrapers, err := r.scrapers(ctx)
	if err != nil {
		return nil, err
	}
	before := 0
	every := time.Second
	if r.s.LeaveShare > 0 {
		every = leaveEvery
	}
	started := time.Now()
	r.clock.start = started // the run begins now
	r.series, r.cells, r.samples = newSeries(), map[cellKey]*gapCell{}, nil
	side, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var beside sync.WaitGroup
	beside.Go(func() { r.meter.watch(side) })
	for _, s := range scrapers {
		s.once(ctx)
		if best, _ := inFlightGauge(scrapers); best == s && len(s.surplus) > 0 {
			before = s.surplus[0]
		}
		beside.Go(func() { s.watch(side, every) })
	}
	if progress != nil {
		beside.Go(func() { r.show(side, progress) })
	}
	loaded, done := context.WithCancel(ctx)
	beside.Go(func() { r.happened = r.events(loaded, r.clock.now()+int64(r.s.Warmup)) })
	search := r.drive(ctx)
	done()
	left := r.leaving(context.WithoutCancel(ctx), scrapers, before)
	stop()
	beside.Wait()
	slices.SortFunc(r.samples, func(a, b sample) int {
		if a.id != b.id {
			return a.id - b.id
		}
		return a.turn - b.turn
	})
	r.lostTokens()
	blame(r.happened, r.samples)
	result := r.result(started, search)
	p := result.Penstock
	p.Interrupted = ctx.Err() != nil
	p.Floor, p.Leave = floor, left
	p.Events = append(p.Events, r.happened...)
	for _, s := range scrapers {
		p.Telemetry = append(p.Telemetry, s.report())
	}
	p.Client = r.meter.report(r.spans, r.targets[0].connections())
	p.Verdict = judge(result, r.s)
	return result, nil
}

// result makes the result of the samples.
func (r *run) result(started time.Time, search *Search) *Result {
	s := r.s
	p := &Penstock{
		SchemaVersion: SchemaVersion, Target: Target{r.targets[0].base, r.facts.engines[0]}, Search: search,
		Stages: []Stage{}, ByDialect: map[string]*Summary{}, ByUpstream: map[string]*Summary{},
		Tokens: TokenCounts{Input: map[string]int{}, Output: map[string]int{}},
		Events: []Event{}, Telemetry: []Telemetry{}, Objectives: append([]Objective{}, s.objectives...), ExpectErrors: append([]string{}, s.ExpectErrors...),
		Command: commandLine(os.Args), Seed: s.Seed, Nonce: r.work.nonce, Environment: environment(),
	}
	wall := 0.0
	sent := map[*dialect]int{}
	for i := range r.spans {
		wall += float64(r.spans[i].end-r.spans[i].start) / 1e9
		p.Stages = append(p.Stages, r.stageReport(i))
	}
	first := func(_ int, _ *dialect, _ string, target uint8) bool { return target == 0 }
	p.Total = r.summary(first, wall)
	warmed := 0
	var end int64
	upstreams := map[string]bool{}
	for i := range r.samples {
		x := &r.samples[i]
		end = max(end, x.end)
		if x.stage == warm {
			warmed++
			continue
		}
		sent[x.dialect]++
		if x.upstream != "" {
			upstreams[x.upstream] = true
		}
		if x.completed() && x.target == 0 {
			if x.inSource != "" {
				p.Tokens.Input[x.inSource]++
			}
			if x.outSource != "" {
				p.Tokens.Output[x.outSource]++
			}
		}
	}
	for d := range sent {
		sum := r.summary(func(_ int, of *dialect, _ string, target uint8) bool { return of == d && target == 0 }, wall)
		p.ByDialect[d.name] = &sum
	}
	for u := range upstreams {
		sum := r.summary(func(_ int, _ *dialect, of string, target uint8) bool { return of == u && target == 0 }, wall)
		p.ByUpstream[u] = &sum
	}
	p.Load = r.loadSummary(warmed)
	p.Series = r.series.columns(r.samples, p.Stages, end)
	p.Compare = r.comparison(wall)
	return r.flat(started, p)
}

// stageReport is a stage as the result has it.
func (r *run) stageReport(i int) Stage {
	sp := &r.spans[i]
	st := Stage{Name: sp.name, StartS: float64(sp.start) / 1e9, EndS: float64(sp.end) / 1e9, Broke: []string{}, Summary: r.stageSummary(i)}
	if sp.spec.rate > 0 && !math.IsInf(sp.spec.rate, 1) {
		st.Rate = &sp.spec.rate
		if r.s.CompareURL != "" { // half of the requests go to the second target
			half := sp.spec.rate / 2
			st.Rate = &half
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
		for j := range r.samples {
			if x := &r.samples[j]; x.stage == i && x.target == 0 && x.sent != none && x.sent <= sp.sendEnd+int64(time.Millisecond) {
				n++
			}
		}
		rate := float64(n) / d
		st.AchievedRate = &rate
	}
	if len(r.s.objectives) > 0 {
		o := r.outcome(i)
		st.Met, st.Broke = &o.met, o.broke
	}
	return st
}

func (r *run) loadSummary(warmed int) LoadSummary {
	out := LoadSummary{Mode: "open", Arrival: "poisson", Mix: map[string]float64{}, Unstreamed: []string{}, Dataset: r.s.DatasetName}
	if r.s.DatasetPath == "" {
		out.InputLength, out.OutputLength = r.s.in.String(), r.s.out.String()
	}
	for _, m := range r.s.mix {
		out.Mix[m.d.name] += m.weight
		out.Streamed = out.Streamed || r.work.streams(m.d)
		if r.work.unstreamed[m.d] {
			out.Unstreamed = append(out.Unstreamed, m.d.name)
		}
	}
	for i := range r.spans {
		out.CooldownRequests += r.spans[i].cooled
	}
	out.WarmupRequests = warmed - out.CooldownRequests
	switch {
	case r.s.closed:
		out.Mode, out.Arrival = "closed", ""
	case r.s.DatasetName == "trace":
		out.Mode, out.Arrival = "trace", "trace"
	case r.s.Ramp != "":
		out.Arrival = "ramp"
	case math.IsInf(r.s.Burstiness, 1):
		out.Arrival = "constant"
	case r.s.Burstiness != 1:
		out.Arrival = "gamma"
	}
	var asked, got, wall float64
	for i := range r.spans {
		sp := &r.spans[i]
		d := float64(sp.sendEnd-sp.start) / 1e9
		wall += d
		asked += sp.spec.rate * d
	}
	for i := range r.samples {
		if x := &r.samples[i]; x.stage != warm && x.sent != none {
			got++
		}
	}
	if wall > 0 {
		got /= wall
		out.AchievedRate = &got
		if asked /= wall; out.Mode == "open" && out.Arrival != "ramp" && !math.IsInf(asked, 0) && r.s.Profile == "" {
			out.RequestedRate = &asked
		}
	}
	return out
}

// flat fills in vLLM's part of the result.
func (r *run) flat(started time.Time, p *Penstock) *Result {
	s, t := r.s, &p.Total
	out := &Result{
		Date: started.Format("20060102-150405"), Backend: "mix", ModelID: r.work.model, NumPrompts: t.Requests,
		RequestRate: Rate(math.Inf(1)), Burstiness: Rate(s.Burstiness), Duration: t.Seconds, Completed: t.Completed, Failed: t.Failed,
		TotalInputTokens: t.InputTokens, TotalOutputTokens: t.OutputTokens, RequestThroughput: t.RequestThroughput, RequestGoodput: t.Goodput,
		OutputThroughput: t.OutputThroughput, MaxConcurrentRequests: int(r.live.peak.Load()), Measures: map[string]*float64{}, Metadata: s.metadata, Penstock: p,
	}
	if len(s.mix) == 1 {
		out.Backend = s.mix[0].d.backend
	}
	out.EndpointType = out.Backend
	if n := len(r.spans); n > 0 {
		last := &r.spans[n-1].spec
		if last.rate > 0 && !last.ramp {
			out.RequestRate = Rate(last.rate)
		}
		if last.concurrency > 0 {
			out.MaxConcurrency = &last.concurrency
		}
	}
	if s.Ramp != "" {
		out.RampUpStrategy, out.RampUpStartRPS, out.RampUpEndRPS = "linear", &s.rampFrom, &s.rampTo
	}
	if t.InputThroughput != nil && t.OutputThroughput != nil {
		sum := *t.InputThroughput + *t.OutputThroughput
		out.TotalTokenThroughput = &sum
	}
	if v := best(p.Series.OutputTokens, p.Series.IntervalS); !math.IsNaN(v) && t.OutputTokens != nil {
		out.MaxOutputTokensPerS = &v
	}
	r.audio(out)
	for _, m := range s.metrics {
		set := func(name string, v func(*Distribution) float64) {
			out.Measures[name+"_"+m+"_ms"] = nil
			if d := t.Latency[m]; d != nil {
				x := v(d)
				out.Measures[name+"_"+m+"_ms"] = &x
			}
		}
		set("mean", func(d *Distribution) float64 { return d.Mean })
		set("std", func(d *Distribution) float64 { return d.Std })
		set("median", func(d *Distribution) float64 { return d.Percentile(50) })
		for _, q := range s.percents {
			set("p"+percentileName(q), func(d *Distribution) float64 { return d.Percentile(q) })
		}
	}
	if s.SaveDetailed {
		out.Detailed = r.detailed()
	}
	return out
}

// audio sets the seconds of sound that were transcribed per second.
func (r *run) audio(out *Result) {
	sum := 0.0
	for i := range r.samples {
		if x := &r.samples[i]; x.stage != warm && x.completed() && x.target == 0 {
			sum += x.audio
		}
	}
	if sum > 0 && out.Duration > 0 {
		rtfx := sum / out.Duration
		out.RTFX = &rtfx
	}
}

// detailed makes vLLM's arrays.
func (r *run) detailed() *Detailed {
	d := &Detailed{InputLens: []*int{}, OutputLens: []*int{}, TTFTs: []*float64{}, ITLs: [][]float64{}, StartTimes: []float64{}, Latencies: []*float64{}, Errors: []string{}}
	secs := func(ns int64) *float64 {
		if ns == none {
			return nil
		}
		v := float64(ns) / 1e9
		return &v
	}
	for i := range r.samples {
		x := &r.samples[i]
		if x.stage == warm || x.target != 0 {
			continue
		}
		gaps := make([]float64, len(x.gaps))
		for j, g := range x.gaps {
			gaps[j] = float64(g) / 1e9
		}
		d.InputLens, d.OutputLens = append(d.InputLens, some(x.in)), append(d.OutputLens, some(x.out))
		d.TTFTs, d.ITLs = append(d.TTFTs, secs(x.latency(TTFT))), append(d.ITLs, gaps)
		d.StartTimes, d.Latencies = append(d.StartTimes, float64(x.sent)/1e9), append(d.Latencies, secs(x.latency(E2EL)))
		d.Errors = append(d.Errors, x.err)
	}
	return d
}

// commandLine is the command without values of secrets.
func commandLine(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		name, _, joined := strings.Cut(a, "=")
		switch name {
		case "--api-key", "--compare-key", "--admin-token", "--header", "-H":
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

func environment() Environment {
	e := Environment{Version: build.Version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), FileLimit: fileLimit()}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				e.CPU = strings.TrimSpace(v)
				break
			}
		}
	}
	return e
}
