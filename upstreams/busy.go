package upstreams

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"penstock/upstreams/http1"
)

// Some engines do not answer health checks while they generate: whisper and image servers never do,
// and vLLM under load may need half a minute. A probe that times out while calls run therefore
// makes the upstream busy instead of down. A busy upstream keeps its calls and gets no new ones. If
// no other upstream can take a call, the call finds the busy one full. The first successful probe,
// or the first progress on a call, brings the upstream up. It goes down
//
//	when a probe is refused or reset
//	after busyBound without a response byte, an ended call or a changed counter
//
// A silent process may be working or stopped. The longer the silence, the more likely the process
// has stopped. The operator is warned after suspectLeast or, if that is longer, after one and a
// half times the longest recent response (Health.suspectedSince). After half of busyBound, calls
// that have sent nothing to their clients are retried on an upstream with a free slot
// (Health.Unheard).
//
// If the engine's counters can be read, the stall rule (stall.go) takes the upstream out sooner.
// Accepted connections prove nothing, because the kernel also accepts them for a stopped process.

const (
	// busyPatience is the probe timeout for a busy engine. It is long because a waiting probe
	// occupies one entry of the engine's short accept queue, while ten short probes would occupy
	// ten. The engine responds as soon as it is free.
	busyPatience = 10 * time.Second
	// A busy engine may be silent for busyLeast or, if that is longer, for busyAnswers times its
	// longest recent response.
	busyLeast   = time.Minute
	busyAnswers = 3
	// suspectLeast is the minimum silence of a busy engine before the operator is warned.
	suspectLeast = 10 * time.Second
	// answersFor is how long the longest response counts as recent.
	answersFor = 10 * time.Minute
)

// busyFacts describes the progress of a busy engine.
type busyFacts struct {
	works   bool          // the engine has made progress since it became busy
	stands  bool          // the engine's counters can be read and have been unchanged for too long
	still   time.Duration // time since the last progress
	longest time.Duration // longest recent response of the models with waiting calls
	usual   time.Duration // longest recent response of any model
}

type busyEnd uint8

const (
	busyStays  busyEnd = iota
	busyWorks          // the upstream is up
	busyStalls         // the stall rule decides
	busyDead           // the upstream is down
)

func (f busyFacts) verdict() busyEnd {
	switch {
	case f.works:
		return busyWorks
	case f.still >= busyBound(f.longest):
		return busyDead
	case f.stands:
		return busyStalls
	}
	return busyStays
}

// unheard reports whether calls should be retried elsewhere, because the engine has been silent for
// half of busyBound.
func (f busyFacts) unheard() bool { return f.still >= busyBound(f.longest)/2 }

// suspect reports whether the silence is long enough to warn the operator.
func (f busyFacts) suspect() bool { return f.still >= max(suspectLeast, f.usual*3/2) }

// busyBound returns the maximum silence of a busy engine, given the duration of its longest recent
// response.
func busyBound(longest time.Duration) time.Duration { return max(busyLeast, busyAnswers*longest) }

// signs holds counters that change when calls make progress.
type signs struct {
	reads     uint64 // reads of response bytes
	ended     uint64 // calls that the engine completed or refused
	elsewhere int    // calls from other edges of the fleet
}

// heard tracks when the engine last made progress.
type heard struct {
	signs signs
	at    time.Time
}

// listen updates the time of the last progress. An idle engine counts as making progress. A busy
// engine without calls does not, because the calls that it had may have been retried elsewhere.
func (h *heard) listen(u *Upstream, now time.Time) {
	s := signs{reads: u.client.answers.Looks(), elsewhere: u.slots.fleet.elsewhere.Load().all()}
	for _, o := range [...]Outcome{OutcomeOK, OutcomeBadResponse, OutcomeRefused, OutcomeRejected, OutcomeModelGone} {
		s.ended += u.series.attempts[o].Get()
	}
	idle := !hasCalls(u) && u.Health.now() != StateBusy
	if s != h.signs || idle || h.at.IsZero() || u.Progress.MovedSince(h.at) {
		h.signs, h.at = s, now
	}
}

// hasCalls reports whether this edge or another edge of the fleet has calls at the engine.
func hasCalls(u *Upstream) bool {
	return u.slots.inFlight() > 0 || !DownElsewhere(u) && u.slots.fleet.elsewhere.Load().all() > 0
}

// all returns how many calls other edges have at the upstream.
func (v *elsewhere) all() int { return v.inFlight(PoolText, true) }

// judgeBusy acts on the verdict about a busy upstream. It ends the busy state if the verdict is
// busyWorks or busyDead, calls stalls if it is busyStalls, and otherwise warns of a long silence.
func (p *prober) judgeBusy(l *looker, now time.Time) {
	u := p.up
	if since := u.Health.read().changed; !since.Equal(l.since) {
		l.since, l.first = since, now // this check may see progress from before the busy state
	}
	f := busyFacts{
		works: l.heard.at.After(l.first), stands: u.Progress.StandsStill(now),
		still: now.Sub(l.heard.at), longest: u.Models.longestAnswer(true), usual: u.Models.longestAnswer(false),
	}
	switch f.verdict() {
	case busyWorks:
		u.Health.endBusy(true, "work moves", now)
	case busyStalls:
		p.stalls(l, now)
	case busyDead:
		u.hooks.log.Warn("upstream is busy and nothing has come from it for too long", zap.Duration("for", f.still.Truncate(time.Second)),
			zap.Int("calls", u.slots.inFlight()),
			zap.String("remedy", "restart it if it hangs; if its answers take longer, raise probe.timeout above them (penstock explain upstreams.probe.timeout)"))
		u.Health.endBusy(false, "nothing comes", now)
	case busyStays:
		if f.suspect() && u.Health.setSuspected(l.heard.at) {
			u.hooks.log.Warn("upstream does not answer its probes and nothing comes from it: it is busy or has stopped",
				zap.String("event", "upstream_suspect"), zap.String("cause", http1.ReasonTimeout),
				zap.Duration("for", f.still.Truncate(time.Second)), zap.Int("calls", u.slots.inFlight()),
				zap.String("remedy", "look at its process and its log: penstock explain upstream_suspect"))
		}
		if f.unheard() {
			u.Health.setUnheard()
		}
	}
}

// answerTimes tracks the response times of a model and its waiting calls.
type answerTimes struct {
	awaited atomic.Int64 // calls without a response byte for progress.Patience
	longest atomic.Int64 // duration of the longest recent response
	at      atomic.Int64 // when the longest response ended, in ticks
}

func (a *answerTimes) learn(took time.Duration, now Moment) {
	if int64(took) >= a.longest.Load() || now-Moment(a.at.Load()) > Moment(answersFor) {
		a.longest.Store(int64(took))
		a.at.Store(int64(now))
	}
}

// longestAnswer returns the duration of the longest recent response. If awaited is true, it
// considers only models with waiting calls.
func (s *ServedModels) longestAnswer(awaited bool) (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.entries {
		if !awaited || m.answers.awaited.Load() > 0 {
			longest = max(longest, time.Duration(m.answers.longest.Load()))
		}
	}
	return longest
}

// Waits adds n to the count of calls that have waited for longer than progress.Patience.
func (l *Lease) Waits(n int64) {
	l.up.Progress.Waits(n)
	if l.model != nil {
		l.model.answers.awaited.Add(n)
	}
}
