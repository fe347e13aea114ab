package bench

import (
	"context"
	"math"
	"sync"
	"time"
)

// probes are single-token requests beside the load, at a steady rate and past every bound of concurrency: what somebody feels who has a
// short question while the load goes on. They are in no other number.
type probes struct {
	mu                sync.Mutex
	completed, failed int
	e2el              histogram
}

// probe sends probes until the load is over, and returns when all are answered, or the run is stopped.
func (r *run) probe(ctx, load context.Context) *probes {
	out := new(probes)
	if r.s.ProbeRate == 0 {
		return out
	}
	p := newGammaPacer(r.s.Seed, r.s.ProbeRate, math.Inf(1), 0)
	var all sync.WaitGroup
	begin, rng := r.clock.now(), r.work.rng(1<<41)
	for n := 0; ; n++ {
		at, ok := p.Next()
		if !ok || !sleep(load, time.Duration(begin+int64(at)-r.clock.now())) {
			break
		}
		q := &request{id: -1000 - n, d: r.s.probe, model: r.work.model, stream: r.work.streams(r.s.probe), probe: true, outWanted: 1, extra: r.s.extra}
		q.messages = []message{{role: "user", text: appendWords([]byte(r.work.tag(q)), rng, 10)}}
		all.Go(func() { r.probeOnce(ctx, q, out) })
	}
	all.Wait()
	return out
}

func (r *run) probeOnce(ctx context.Context, q *request, out *probes) {
	s := newSample(q, warm)
	s.scheduled = r.clock.now()
	r.live.probes.Add(1)
	_, done := r.exchange(ctx, q, q.d.body(nil, q), &s)
	r.live.probes.Add(-1)
	done()
	out.mu.Lock()
	defer out.mu.Unlock()
	switch {
	case s.failed():
		out.failed++
	case s.completed():
		out.completed++
		out.e2el.record(s.latency(E2EL))
	}
}

// report fills in vLLM's keys.
func (p *probes) report(out *Result) {
	out.ProbeCompleted, out.ProbeFailed = &p.completed, &p.failed
	if d := p.e2el.distribution(nil); d != nil {
		median, p99 := d.Percentile(50), d.Percentile(99)
		out.ProbeMedianE2ELMs, out.ProbeP99E2ELMs, out.ProbeMaxE2ELMs = &median, &p99, &d.Max
	}
}
