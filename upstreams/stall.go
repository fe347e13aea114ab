package upstreams

import (
	"context"
	"time"

	"go.uber.org/zap"

	"penstock/upstreams/engine"
	"penstock/upstreams/progress"
)

// An upstream stalls if it has calls and none of them makes progress (package progress). A stalled
// upstream gets no new calls, and its calls that have sent nothing to their clients are retried
// elsewhere. A check every second detects stalls (watchProgress). The health probes alone are not
// enough, because a stalled engine may still answer them. While no call of this edge makes
// progress, the check reads the engine's counters more often than the prober does.

const (
	progressCheckInterval = time.Second
	// countersTimeout is the timeout for reading counters. It is long, because llama.cpp responds
	// only between two batches.
	countersTimeout = time.Minute
	// stallTrialDelay is how long an upstream without calls stays out of service if no generation
	// probe can bring it back. After that time, the upstream gets a call as a trial.
	stallTrialDelay = 30 * time.Second
)

// StallDecision is the decision about a stalled upstream.
type StallDecision uint8

// The values that Options.Stall may return.
const (
	StallTakeOut     StallDecision = iota // the upstream gets no new calls
	StallProbeFirst                       // a generation probe decides, through the breaker
	StallKeepServing                      // the upstream is the last target of a route and stays in service
)

// progressChecker is the state of watchProgress between two checks.
type progressChecker struct {
	countersResult    chan counterReading // receives the counters; nil if no read is in progress
	outOfServiceSince time.Time           // zero while the upstream is in service
	progress          progressTracker
	wasBusy           bool      // the upstream was busy at the last check
	busySince         time.Time // start of the current busy state
	firstBusyCheck    time.Time // first check of that state
	endedCalls        uint64    // number of calls that had ended at the last check
}

type counterReading struct {
	sum       float64
	available bool
}

// watchProgress checks for progress every second until ctx is done.
func (p *prober) watchProgress(ctx context.Context) {
	tick := time.NewTicker(progressCheckInterval)
	defer tick.Stop()
	var l progressChecker
	for {
		select {
		case <-ctx.Done():
			if l.countersResult != nil {
				<-l.countersResult // wait, because the read still uses the transport
			}
			return
		case c := <-l.countersResult:
			l.countersResult = nil
			if c.available {
				p.up.recordCounterSum(time.Now(), c.sum)
			}
		case now := <-tick.C:
			p.up.hooks.guard.PanicIfInjected(guardStall)
			p.sampleProgress(now, &l)
			l.progress.update(p.up, now)
			p.judgeStall(&l, now)
			if r := p.reader(countersTimeout); l.countersResult == nil && r.HasCounters() && p.up.Progress.ShouldReadCounters(now) {
				l.countersResult, r.Get = make(chan counterReading, 1), p.getCounters
				go p.up.hooks.guard.RunWithRecover(guardStall, func() { readCounters(ctx, r, l.countersResult) })
			}
		}
	}
}

// sampleProgress records the state of the upstream's calls in Progress. If an engine that counted
// as idle has calls again, sampleProgress requests a health probe.
func (p *prober) sampleProgress(now time.Time, l *progressChecker) {
	u := p.up
	s := progress.Sample{At: now, Held: u.slots.inFlight(), Reads: u.client.answerWatch.ArrivalNumber(), Ended: endedCallCount(u)}
	u.Progress.RecordSample(s)
	if p.idle.probeDelayed.Load() && (s.Ended != l.endedCalls || hasCalls(u)) && p.idle.probeDelayed.Swap(false) {
		p.probeNow()
	}
	l.endedCalls = s.Ended
}

func readCounters(ctx context.Context, r engine.PageReader, to chan<- counterReading) {
	var c counterReading
	defer func() { to <- c }()
	c.sum, _, c.available = r.ReadCounters(ctx)
}

// judgeStall takes a stalled upstream out of service, and brings it back when it makes progress.
func (p *prober) judgeStall(l *progressChecker, now time.Time) {
	u, state := p.up, p.up.Health.currentState()
	if u.Models.IsLoading() { // the engine may not respond until the model is loaded
		u.Progress.Reset(now)
	}
	if l.wasBusy && state == StateUp {
		u.Progress.Resume(now)
	}
	l.wasBusy = state == StateBusy
	stalled := u.Progress.IsStalled(now)
	switch {
	case state == StateBusy:
		p.judgeBusy(l, now)
	case state == StateDown, state == StatePending:
		l.outOfServiceSince = time.Time{}
		u.Progress.Reset(now)
		u.Health.setStalled(false, "", now)
	case stalled && state == StateStalled:
		if l.outOfServiceSince.IsZero() { // an earlier check has panicked
			l.outOfServiceSince = now
		}
		p.probeStalled(l, now)
	case stalled:
		p.handleStall(l, now)
	case state == StateStalled:
		l.outOfServiceSince = time.Time{}
		u.Health.setStalled(false, "work moves again", now)
	}
}

// handleStall decides what to do about an upstream that has just stalled.
func (p *prober) handleStall(l *progressChecker, now time.Time) {
	u := p.up
	if u.Mode() != ModeReady {
		return // the upstream gets no new calls anyway, and its running calls may continue to wait
	}
	facts := u.Progress.Facts(now)
	u.set.stallMu.Lock() // otherwise the last two upstreams of a route could go out of service together
	defer u.set.stallMu.Unlock()
	switch u.set.o.Stall(u, now) {
	case StallTakeOut:
		u.hooks.log.Warn("upstream has stalled: nothing moves although it has work", zap.Duration("for", facts.Still),
			zap.Int("calls", u.slots.inFlight()), zap.Bool("counters", facts.Counts))
		l.outOfServiceSince = now
		u.Progress.MarkOutOfService()
		u.Health.setStalled(true, "nothing moves", now)
	case StallProbeFirst:
		p.probeStalled(l, now)
	case StallKeepServing:
	}
}

// probeStalled sends a generation probe, because any response to it is progress.
func (p *prober) probeStalled(l *progressChecker, now time.Time) {
	u := p.up
	if u.slots.tryAcquire(PoolText, 0) && !u.generations.start(PoolText, false) {
		u.set.freeSlot(u, PoolText)
	}
	if l.outOfServiceSince.IsZero() || u.slots.inFlight() > 0 {
		return
	}
	if now.Sub(l.outOfServiceSince) >= stallTrialDelay && !u.generations.hasFailedSince(l.outOfServiceSince) {
		l.outOfServiceSince = time.Time{}
		u.Progress.Reset(now)
		u.Health.setStalled(false, "the next call is its trial", now)
	}
}
