package bench

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// run is one run of the load tester.
type run struct {
	s     *settings
	send  *sender
	work  *workload
	rec   *recorder
	live  counters
	meter cpuMeter
}

// newRun prepares a run: targets, workload, nothing sent yet.
func newRun(s *settings) (*run, error) {
	r := &run{s: s, rec: newRecorder()}
	r.send = &sender{clock: &clock{time.Now()}, timeout: time.Duration(s.RequestTimeout), detailed: s.SaveDetailed, watch: r.rec}
	var err error
	if r.work, err = newWorkload(&s.work); err != nil {
		return nil, err
	}
	keys := []string{s.APIKey, s.CompareKey}
	for i, base := range []string{s.BaseURL, s.CompareURL} {
		if base == "" && i > 0 {
			break
		}
		headers := bearer(keys[i])
		for _, h := range s.Header {
			at := strings.IndexAny(h, ":=")
			if at <= 0 || strings.ContainsAny(h, "\r\n") {
				return nil, usageError("--header %q: want K=V or K: V", h)
			}
			headers = append(headers, h[:at]+": "+strings.TrimSpace(h[at+1:])+"\r\n"...)
		}
		t, err := newTarget(base, s.Insecure, headers)
		if err != nil {
			return nil, err
		}
		t.clock = r.send.clock
		r.send.targets = append(r.send.targets, t)
	}
	return r, nil
}

// driver sends the load of the run.
func (r *run) driver(count tokenCounter) *driver {
	return &driver{s: r.s, send: r.send, work: r.work, rec: r.rec, live: &r.live, count: count}
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
		for _, t := range r.send.targets {
			t.close()
		}
	}()
	look := &preflight{s: s, send: r.send, work: r.work}
	if err := look.run(ctx); err != nil {
		return nil, nil, err
	}
	var floor *Floor
	if !s.NoFloor {
		if floor, err = measureClientOverhead(ctx); err != nil && ctx.Err() == nil {
			return nil, nil, &ExitError{ExitFailed, err.Error()}
		}
	}
	result, err := r.measure(ctx, look, progress)
	if err != nil {
		return nil, nil, err
	}
	result.Penstock.Floor = floor
	result.Penstock.Verdict = judge(result, s)
	records := make([]*Record, len(r.rec.samples))
	for i := range records {
		records[i] = r.rec.samples[i].record(s.objectives)
	}
	if len(records) == 0 && ctx.Err() == nil {
		return nil, nil, &ExitError{ExitFailed, "no request was sent"}
	}
	return result, records, nil
}

// measure runs the load and everything beside it.
func (r *run) measure(ctx context.Context, look *preflight, progress func(Progress)) (*Result, error) {
	scrapers, err := newScrapers(ctx, r.s, r.send.targets[0], r.send.clock, &r.live.inFlight)
	if err != nil {
		return nil, err
	}
	every := time.Second
	if r.s.LeaveShare > 0 {
		every = leaveEvery
	}
	started := time.Now()
	r.send.clock.start = started // the run begins now
	*r.rec = recorder{series: newSeries(), gaps: map[gapKey]*gapCell{}}
	side, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var beside sync.WaitGroup
	beside.Go(func() { r.meter.watch(side) })
	before := 0
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
	var happened []Event
	beside.Go(func() { happened = r.s.runEvents(loaded, r.send.clock, r.send.clock.now()+int64(r.s.Warmup)) })
	d := r.driver(look.count)
	search := d.drive(ctx)
	done()
	left := leaving(context.WithoutCancel(ctx), r.s, r.rec.samples, scrapers, before)
	stop()
	beside.Wait()
	slices.SortFunc(r.rec.samples, func(a, b sample) int {
		if a.id != b.id {
			return a.id - b.id
		}
		return a.turn - b.turn
	})
	lostTokens(r.rec.samples)
	blame(happened, r.rec.samples)
	f := d.findings()
	f.happened = happened
	p := f.penstock(r.work)
	p.Search, p.Leave, p.Interrupted = search, left, ctx.Err() != nil
	p.Events = append(p.Events, happened...)
	p.Target = Target{r.send.targets[0].base, look.engines[0]}
	p.Series = r.rec.series.columns(f.samples, p.Stages)
	if len(r.send.targets) > 1 {
		p.Compare = f.comparison(Target{r.send.targets[1].base, look.engines[1]}, p.Total.Seconds)
	}
	for _, s := range scrapers {
		p.Telemetry = append(p.Telemetry, s.report())
	}
	p.Client = r.meter.report(d.spans, r.send.targets[0].connections())
	result := f.flat(p)
	result.Date, result.ModelID, result.MaxConcurrentRequests = started.Format("20060102-150405"), r.work.model, int(r.live.peak.Load())
	return result, nil
}

// lostTokens marks streams with fewer token events than tokens, where nearly all others of the same target and dialect have
// one event for each token: then the difference is what got lost. Where engines put several tokens into an event it cannot
// be told.
func lostTokens(samples []sample) {
	type key struct {
		d      *dialect
		target uint8
		model  int // of streams that ended the same way: some engines count the token that ends the text
	}
	gaps := map[key]map[int]int{}
	finishes := map[string]int{}
	of := func(s *sample) (key, bool) {
		if !s.stream || s.tokens.outSource != TokensFromUsage || s.flow.chunks == 0 || s.left || s.err != "" {
			return key{}, false
		}
		if _, ok := finishes[s.finish]; !ok {
			finishes[s.finish] = len(finishes)
		}
		return key{s.dialect, s.target, finishes[s.finish]}, true
	}
	for i := range samples {
		if k, ok := of(&samples[i]); ok {
			if gaps[k] == nil {
				gaps[k] = map[int]int{}
			}
			gaps[k][samples[i].tokens.out-samples[i].flow.chunks]++
		}
	}
	for k, counts := range gaps {
		total, usual, most := 0, 0, 0
		for gap, n := range counts {
			if total += n; n > most {
				usual, most = gap, n
			}
		}
		if total < 20 || float64(most) < 0.9*float64(total) {
			continue
		}
		for i := range samples {
			s := &samples[i]
			if same, ok := of(s); ok && same == k && s.tokens.out-s.flow.chunks > usual {
				s.faults.add(FaultLost)
				s.err = ErrStream
			}
		}
	}
}
