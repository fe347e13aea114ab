package upstreams

import (
	"context"
	"time"

	"go.uber.org/zap"

	"penstock/upstreams/engine"
	"penstock/upstreams/progress"
)

// An upstream stalls if it has calls and none of them makes progress (package progress). A stalled
// upstream gets no new calls, and those of its calls that have sent nothing to their clients are
// retried elsewhere. A check every second (look) detects stalls. The health probes alone are not
// enough, because a stalled engine may still answer them. While no call of this edge makes
// progress, the check reads the engine's counters more often than the prober does.

const (
	lookEvery = time.Second
	// countTimeout is the timeout for reading counters. llama.cpp responds only between two
	// batches.
	countTimeout = time.Minute
	// trialAfter is how long an upstream without calls stays out of service if no generation probe
	// can bring it back. After that time, the upstream gets a call as a trial.
	trialAfter = 30 * time.Second
)

// Stall is the decision about a stalled upstream.
type Stall uint8

// The results of Options.Stall.
const (
	StallOut     Stall = iota // the upstream gets no new calls
	StallConfirm              // a generation probe decides, through the breaker
	StallStay                 // the upstream is the last target of a route and stays in service
)

// looker holds state between checks.
type looker struct {
	counting chan counters // receives the counters; nil if no read is in progress
	outSince time.Time     // zero while in service
	heard    heard
	busy     bool      // the upstream was busy at the last check
	since    time.Time // start of the current busy state
	first    time.Time // first check of that state
	ended    uint64    // number of calls that had ended at the last check
}

type counters struct {
	sum    float64
	counts bool
}

// look checks for progress every second until ctx is done.
func (p *prober) look(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var l looker
	for {
		select {
		case <-ctx.Done():
			if l.counting != nil {
				<-l.counting // the read still uses the transport
			}
			return
		case c := <-l.counting:
			l.counting = nil
			if c.counts {
				p.up.count(time.Now(), c.sum)
			}
		case now := <-tick.C:
			p.up.hooks.guard.Point(guardStall)
			p.sample(now, &l)
			l.heard.listen(p.up, now)
			p.judge(&l, now)
			if r := p.reader(countTimeout); l.counting == nil && r.Counts() && p.up.Progress.WantsCount(now) {
				l.counting, r.Get = make(chan counters, 1), p.count
				go p.up.hooks.guard.Once(guardStall, func() { readCounters(ctx, r, l.counting) })
			}
		}
	}
}

// sample reports the state of the upstream's calls to Progress. If an engine that counted as idle
// has calls, sample requests a health probe.
func (p *prober) sample(now time.Time, l *looker) {
	u := p.up
	s := progress.Sample{At: now, Held: u.slots.inFlight(), Reads: u.client.answers.Looks(), Ended: endedCalls(u)}
	u.Progress.Sample(s)
	if p.rest.resting.Load() && (s.Ended != l.ended || hasCalls(u)) && p.rest.resting.Swap(false) {
		p.kick()
	}
	l.ended = s.Ended
}

func readCounters(ctx context.Context, r engine.Reader, to chan<- counters) {
	var c counters
	defer func() { to <- c }()
	c.sum, _, c.counts = r.Progress(ctx)
}

// judge takes a stalled upstream out of service, and brings it back when it makes progress.
func (p *prober) judge(l *looker, now time.Time) {
	u, state := p.up, p.up.Health.now()
	if u.Models.Loading() { // the engine may not respond until the model is loaded
		u.Progress.Forget(now)
	}
	if l.busy && state == StateUp {
		u.Progress.Resume(now)
	}
	l.busy = state == StateBusy
	stalled := u.Progress.Stalled(now)
	switch {
	case state == StateBusy:
		p.judgeBusy(l, now)
	case state == StateDown, state == StatePending:
		l.outSince = time.Time{}
		u.Progress.Forget(now)
		u.Health.setStalled(false, "", now)
	case stalled && state == StateStalled:
		if l.outSince.IsZero() { // happens if an earlier check panicked
			l.outSince = now
		}
		p.try(l, now)
	case stalled:
		p.stalls(l, now)
	case state == StateStalled:
		l.outSince = time.Time{}
		u.Health.setStalled(false, "work moves again", now)
	}
}

// stalls decides what to do about an upstream that has just stalled.
func (p *prober) stalls(l *looker, now time.Time) {
	u := p.up
	if u.Mode() != ModeReady {
		return // the upstream gets no new calls anyway, and its running calls may wait
	}
	facts := u.Progress.Facts(now)
	u.set.stalls.Lock() // otherwise the last two upstreams of a route could go out of service together
	defer u.set.stalls.Unlock()
	switch u.set.o.Stall(u, now) {
	case StallOut:
		u.hooks.log.Warn("upstream has stalled: nothing moves although it has work", zap.Duration("for", facts.Still),
			zap.Int("calls", u.slots.inFlight()), zap.Bool("counters", facts.Counts))
		l.outSince = now
		u.Progress.TakeOut()
		u.Health.setStalled(true, "nothing moves", now)
	case StallConfirm:
		p.try(l, now)
	case StallStay:
	}
}

// try sends a generation probe, because any response to it is progress.
func (p *prober) try(l *looker, now time.Time) {
	u := p.up
	if u.slots.tryTake(PoolText, 0) && !u.generations.start(PoolText, false) {
		u.set.freeSlot(u, PoolText)
	}
	if l.outSince.IsZero() || u.slots.inFlight() > 0 {
		return
	}
	if now.Sub(l.outSince) >= trialAfter && !u.generations.failsSince(l.outSince) {
		l.outSince = time.Time{}
		u.Progress.Forget(now)
		u.Health.setStalled(false, "the next call is its trial", now)
	}
}
