package upstreams

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"penstock/upstreams/http1"
)

// Some engines do not answer health checks while they generate: whisper and image servers never do,
// and vLLM under load may need half a minute. If a probe times out while calls are running, the
// upstream therefore becomes busy instead of going down. A busy upstream keeps its calls and gets
// no new calls. If no other upstream can accept a call, the busy upstream counts as full. The first
// successful probe, or the first progress on a call, brings the upstream up. The upstream goes down
//
//	when a probe is refused or reset
//	after maxBusySilence without a response byte, an ended call or a changed counter
//
// A silent process may be working or stopped. The longer the silence, the more likely the process
// has stopped. The edge logs a warning after minSuspectSilence or, if that is longer, after one and
// a half times the longest recent response (Health.suspectedSince). After half of maxBusySilence,
// calls that have sent nothing to their clients are retried on an upstream with a free slot
// (Health.ShouldRetryElsewhere).
//
// If the engine's counters can be read, the stall rule (stall.go) takes the upstream out of service
// sooner. Accepted connections prove nothing, because the kernel also accepts them for a stopped
// process.

const (
	// busyProbeTimeout is the probe timeout for a busy engine. It is long because each probe
	// occupies an entry in the engine's short accept queue, even after the probe has timed out. The
	// engine responds to the probe as soon as it is free.
	busyProbeTimeout = 10 * time.Second
	// A busy engine may be silent for minBusySilence or, if that is longer, for busySilenceFactor
	// times the duration of its longest recent response.
	minBusySilence    = time.Minute
	busySilenceFactor = 3
	// minSuspectSilence is the minimum silence of a busy engine before the edge logs a warning.
	minSuspectSilence = 10 * time.Second
	// longestResponseAge is how long the longest response counts as recent after it has ended.
	longestResponseAge = 10 * time.Minute
)

// busyProgress contains the facts that decide what happens to a busy engine.
type busyProgress struct {
	hasProgressed         bool          // the engine has made progress since it became busy
	countersStuck         bool          // the engine's counters can be read, but have not changed for too long
	silentFor             time.Duration // time since the last progress
	longestWaitedResponse time.Duration // longest recent response of the models with waiting calls
	longestResponse       time.Duration // longest recent response of any model
}

type busyVerdict uint8

const (
	busyVerdictContinue busyVerdict = iota
	busyVerdictUp                   // the upstream is up
	busyVerdictStalled              // the stall rule decides
	busyVerdictDown                 // the upstream is down
)

func (f busyProgress) verdict() busyVerdict {
	switch {
	case f.hasProgressed:
		return busyVerdictUp
	case f.silentFor >= maxBusySilence(f.longestWaitedResponse):
		return busyVerdictDown
	case f.countersStuck:
		return busyVerdictStalled
	}
	return busyVerdictContinue
}

// shouldRetryElsewhere reports whether calls should be retried at a different upstream, because the
// engine has been silent for half of maxBusySilence.
func (f busyProgress) shouldRetryElsewhere() bool {
	return f.silentFor >= maxBusySilence(f.longestWaitedResponse)/2
}

// isSuspect reports whether the silence is long enough to warn the operator.
func (f busyProgress) isSuspect() bool {
	return f.silentFor >= max(minSuspectSilence, f.longestResponse*3/2)
}

// maxBusySilence returns how long a busy engine may be silent, given the duration of its longest
// recent response.
func maxBusySilence(longest time.Duration) time.Duration {
	return max(minBusySilence, busySilenceFactor*longest)
}

// progressCounters contains counters that change when calls make progress.
type progressCounters struct {
	reads     uint64 // reads of response bytes
	ended     uint64 // calls that the engine completed or refused
	elsewhere int    // calls from other edges of the fleet
}

// progressTracker tracks when the engine last made progress.
type progressTracker struct {
	counters     progressCounters
	progressedAt time.Time
}

// update updates progressedAt. An idle engine counts as making progress. A busy engine without
// calls does not count as idle, because its calls may have been retried elsewhere.
func (h *progressTracker) update(u *Upstream, now time.Time) {
	s := progressCounters{reads: u.client.answerWatch.ArrivalNumber(), elsewhere: u.slots.fleet.others.Load().totalCalls()}
	for _, o := range [...]Outcome{OutcomeOK, OutcomeBadResponse, OutcomeRefused, OutcomeRejected, OutcomeModelGone} {
		s.ended += u.series.attempts[o].Get()
	}
	idle := !hasCalls(u) && u.Health.currentState() != StateBusy
	if s != h.counters || idle || h.progressedAt.IsZero() || u.Progress.ProgressedSince(h.progressedAt) {
		h.counters, h.progressedAt = s, now
	}
}

// hasCalls reports whether this edge or another edge of the fleet has calls at the engine.
func hasCalls(u *Upstream) bool {
	return u.slots.inFlight() > 0 || !IsDownElsewhere(u) && u.slots.fleet.others.Load().totalCalls() > 0
}

// totalCalls returns how many calls other edges have at the upstream.
func (v *otherEdges) totalCalls() int { return v.inFlight(PoolText, true) }

// judgeBusy acts on the verdict about a busy upstream. It ends the busy state if the verdict is
// busyVerdictUp or busyVerdictDown, and calls handleStall if the verdict is busyVerdictStalled.
// Otherwise it logs a warning after a long silence.
func (p *prober) judgeBusy(l *progressChecker, now time.Time) {
	u := p.up
	if since := u.Health.factsSnapshot().changedAt; !since.Equal(l.busySince) {
		l.busySince, l.firstBusyCheck = since, now // this check may include earlier progress
	}
	f := busyProgress{
		hasProgressed: l.progress.progressedAt.After(l.firstBusyCheck), countersStuck: u.Progress.IsProvenStalled(now),
		silentFor: now.Sub(l.progress.progressedAt), longestWaitedResponse: u.Models.longestResponse(true), longestResponse: u.Models.longestResponse(false),
	}
	switch f.verdict() {
	case busyVerdictUp:
		u.Health.endBusy(true, "work moves", now)
	case busyVerdictStalled:
		p.handleStall(l, now)
	case busyVerdictDown:
		u.hooks.log.Warn("upstream is busy and nothing has come from it for too long", zap.Duration("for", f.silentFor.Truncate(time.Second)),
			zap.Int("calls", u.slots.inFlight()),
			zap.String("remedy", "restart it if it hangs; if its answers take longer, raise probe.timeout above them (penstock explain upstreams.probe.timeout)"))
		u.Health.endBusy(false, "nothing comes", now)
	case busyVerdictContinue:
		if f.isSuspect() && u.Health.setSuspected(l.progress.progressedAt) {
			u.hooks.log.Warn("upstream does not answer its probes and nothing comes from it: it is busy or has stopped",
				zap.String("event", "upstream_suspect"), zap.String("cause", http1.ReasonTimeout),
				zap.Duration("for", f.silentFor.Truncate(time.Second)), zap.Int("calls", u.slots.inFlight()),
				zap.String("remedy", "look at its process and its log: penstock explain upstream_suspect"))
		}
		if f.shouldRetryElsewhere() {
			u.Health.setRetryElsewhere()
		}
	}
}

// responseTimes tracks a model's longest recent response and its waiting calls.
type responseTimes struct {
	waitingCalls atomic.Int64 // calls that have been silent for progress.WaitingAfter
	longest      atomic.Int64 // duration of the longest recent response
	longestAt    atomic.Int64 // when the longest response ended, in ticks
}

func (a *responseTimes) record(took time.Duration, now Moment) {
	if int64(took) >= a.longest.Load() || now-Moment(a.longestAt.Load()) > Moment(longestResponseAge) {
		a.longest.Store(int64(took))
		a.longestAt.Store(int64(now))
	}
}

// longestResponse returns the duration of the longest recent response. If awaited is true, only
// models with waiting calls count.
func (s *ServedModels) longestResponse(awaited bool) (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.entries {
		if !awaited || m.responses.waitingCalls.Load() > 0 {
			longest = max(longest, time.Duration(m.responses.longest.Load()))
		}
	}
	return longest
}

// AddWaiting adds n to the number of calls that have been silent for progress.WaitingAfter.
func (l *Lease) AddWaiting(n int64) {
	l.up.Progress.AddWaiting(n)
	if l.model != nil {
		l.model.responses.waitingCalls.Add(n)
	}
}
