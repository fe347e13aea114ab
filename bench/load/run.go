package load

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"penstock/bench/exit"
	"penstock/bench/load/client"
	"penstock/bench/load/workload"
	"penstock/bench/result"
)

type loadRun struct {
	s     *settings
	send  *client.Sender
	work  *workload.Workload
	rec   *recorder
	live  progressCounters
	meter clientMeter
}

// newRun sets up the targets and the workload. It does not send requests.
func newRun(s *settings) (*loadRun, error) {
	r := &loadRun{s: s, rec: newRecorder()}
	r.send = &client.Sender{
		Clock: &client.Clock{Start: time.Now()}, Timeout: time.Duration(s.RequestTimeout), Watch: r.rec,
		Gaps: slices.ContainsFunc(s.Output, func(name string) bool { return strings.HasSuffix(name, ".jsonl") }),
	}
	var err error
	if r.work, err = workload.New(&s.work); err != nil {
		return nil, err
	}
	keys := []string{s.APIKey, s.CompareKey}
	for i, base := range []string{s.BaseURL, s.CompareURL} {
		if base == "" && i > 0 {
			break
		}
		headers := client.BearerHeader(keys[i])
		for _, h := range s.Header {
			headers = append(headers, h+"\r\n"...)
		}
		t, err := client.NewTarget(base, s.Insecure, headers)
		if err != nil {
			return nil, err
		}
		t.Clock = r.send.Clock
		r.send.Targets = append(r.send.Targets, t)
	}
	return r, nil
}

func (r *loadRun) newDriver() *stageDriver {
	return &stageDriver{s: r.s, send: r.send, work: r.work, rec: r.rec, live: &r.live}
}

// Run measures and returns the result. If ctx ends early, the result covers the time until that
// moment and is marked as interrupted. If progress is not nil, Run calls it about once a second.
// All errors are *exit.Error.
func Run(ctx context.Context, o Options, progress func(Progress)) (*result.Result, []*result.Record, error) {
	s, err := o.Validate()
	if err != nil {
		return nil, nil, err
	}
	if s.BaseURL == "" {
		if s.BaseURL, err = discoverTarget(ctx); err != nil {
			return nil, nil, err
		}
	}
	r, err := newRun(s)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		for _, t := range r.send.Targets {
			t.Close()
		}
	}()
	look := &preflight{s: s, send: r.send, work: r.work}
	if err := look.checkTargets(ctx); err != nil {
		return nil, nil, err
	}
	var floor *result.Floor
	if !s.NoFloor {
		if floor, err = measureClientOverhead(ctx); err != nil && ctx.Err() == nil {
			return nil, nil, exit.NewError(exit.Failed, err.Error())
		}
	}
	out, err := r.measure(ctx, look, progress)
	if err != nil {
		return nil, nil, err
	}
	out.Penstock.Floor = floor
	out.Penstock.Verdict = judgeResult(out, s)
	records := make([]*result.Record, len(r.rec.samples))
	for i := range records {
		records[i] = r.rec.samples[i].ToRecord(s.objectives)
	}
	if len(records) == 0 && ctx.Err() == nil {
		return nil, nil, exit.NewError(exit.Failed, "no request was sent")
	}
	return out, records, nil
}

// measure sends the load. All other measurements run at the same time.
func (r *loadRun) measure(ctx context.Context, look *preflight, progress func(Progress)) (*result.Result, error) {
	scrapers, err := newScrapers(ctx, r.s, r.send.Targets[0], r.send.Clock, &r.live.inFlight)
	if err != nil {
		return nil, err
	}
	every := time.Second
	if r.s.work.LeaveShare > 0 {
		every = gaugePollInterval
	}
	started := time.Now()
	r.send.Clock.Start = started // the clock of the run starts here
	r.rec = newRecorder()
	r.send.Watch = r.rec
	side, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var beside sync.WaitGroup
	beside.Go(func() { r.meter.sampleUntilDone(side) })
	for _, s := range scrapers {
		s.scrapeOnce(ctx)
		beside.Go(func() { s.scrapeUntilDone(side, every) })
	}
	if progress != nil {
		beside.Go(func() { r.reportProgress(side, progress) })
	}
	loaded, done := context.WithCancel(ctx)
	var happened []result.Event
	beside.Go(func() { happened = r.s.runEvents(loaded, r.send.Clock, r.send.Clock.Now()+int64(r.s.Warmup)) })
	d := r.newDriver()
	search := d.runAllStages(ctx)
	done()
	left := disconnectReport(context.WithoutCancel(ctx), r.s, r.rec.samples, scrapers)
	stop()
	beside.Wait()
	slices.SortFunc(r.rec.samples, func(a, b client.Sample) int {
		if a.ID != b.ID {
			return a.ID - b.ID
		}
		return a.Turn - b.Turn
	})
	markLostTokens(r.rec.samples)
	countEventFailures(happened, r.rec.samples)
	countMovedCalls(happened, scrapers)
	f := d.collectFindings()
	f.happened = happened
	p := f.penstockResult(r.work)
	p.Search, p.Leave, p.Interrupted = search, left, ctx.Err() != nil
	p.Events = append(p.Events, happened...)
	p.Target = result.Target{BaseURL: r.send.Targets[0].Base, Engine: look.engines[0]}
	p.Series = r.rec.series.resultSeries(f.samples, p.Stages)
	if len(r.send.Targets) > 1 {
		p.Compare = f.compareTargets(result.Target{BaseURL: r.send.Targets[1].Base, Engine: look.engines[1]}, p.Total.Seconds)
	}
	for _, s := range scrapers {
		p.Telemetry = append(p.Telemetry, s.telemetryResult())
	}
	p.Load.RetryWaitS = float64(r.rec.retryWaitNanos.Load()) / 1e9
	p.Phases = f.tracePhases(p.Telemetry)
	p.Client = r.meter.clientReport(d.stages, r.send.Targets[0].ConnectionCount())
	out := f.vllmResult(p)
	out.Date, out.ModelID, out.MaxConcurrentRequests = started.Format("20060102-150405"), r.work.Model,
		int(r.live.peak.Load())
	return out, nil
}

// markLostTokens marks streams that have fewer token events than tokens, if nearly all other
// streams from the same target and in the same dialect have one event per token. If an engine puts
// more than one token into an event, losses cannot be detected.
func markLostTokens(samples []client.Sample) {
	type key struct {
		d      *client.Dialect
		target uint8
		// Streams are grouped by finish reason, because some engines count the token that ends the text.
		model int
	}
	gaps := map[key]map[int]int{}
	finishes := map[string]int{}
	of := func(s *client.Sample) (key, bool) {
		if !s.Stream || s.Tokens.OutSource != result.TokensFromUsage || s.Flow.Chunks == 0 || s.Left || s.Err != "" {
			return key{}, false
		}
		if _, ok := finishes[s.Finish]; !ok {
			finishes[s.Finish] = len(finishes)
		}
		return key{s.Dialect, s.Target, finishes[s.Finish]}, true
	}
	for i := range samples {
		if k, ok := of(&samples[i]); ok {
			if gaps[k] == nil {
				gaps[k] = map[int]int{}
			}
			gaps[k][samples[i].Tokens.Out-samples[i].Flow.Chunks]++
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
			if same, ok := of(s); ok && same == k && s.Tokens.Out-s.Flow.Chunks > usual {
				s.Faults.Add(result.FaultLost)
				s.Err = result.ErrStream
			}
		}
	}
}
