package upstreams

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"penstock/upstreams/http1"
)

// Some engines do not answer their health page while they work: whisper and image servers never
// answer it then, and vLLM under load may take half a minute. A probe that times out therefore says
// nothing about an upstream that has calls: it is busy, not down. A busy upstream keeps its calls
// and gets no new ones: a call that has no other upstream finds it full. It is up again with the
// first answered probe or the first sign of work, and down
//
//	as soon as a probe is refused or reset
//	after busyBound in which no byte was read, no call ended and no counter moved
//
// Nothing distinguishes a stopped process from a working one, but the longer a process is silent,
// the likelier it has stopped. After suspectLeast, or one and a half times the longest recent
// answer, the operator is warned (Health.suspectedSince). After half of busyBound, calls that have
// sent nothing leave the upstream for one with a free slot (Health.Unheard).
//
// If an engine's counters can be read, the stall rule (stall.go) takes the upstream out sooner.
// Accepted connections prove nothing: the kernel also accepts them for a stopped process.

const (
	// busyPatience is the time for which a probe of a busy engine waits for an answer. The engine
	// answers as soon as it is free. One long probe takes one place in a short accept queue, where
	// ten short ones would take ten.
	busyPatience = 10 * time.Second
	// busyLeast and busyAnswers determine how long a busy engine may be silent: a minute, or longer
	// if its answers take longer.
	busyLeast   = time.Minute
	busyAnswers = 3
	// suspectLeast is the minimum time that a busy engine is silent before the operator is warned.
	suspectLeast = 10 * time.Second
	// answersFor is the time for which the longest answer is remembered.
	answersFor = 10 * time.Minute
)

// busyFacts holds what is known about a busy engine's work.
type busyFacts struct {
	works   bool          // since the engine became busy, a byte was read, a call ended or a counter moved
	stands  bool          // the readable counters have stood still for longer than allowed
	still   time.Duration // time since the last sign of work
	longest time.Duration // longest recent answer of the models with waiting calls
	usual   time.Duration // longest recent answer of any model
}

// busyEnd is the verdict on a busy upstream.
type busyEnd uint8

const (
	busyStays  busyEnd = iota
	busyWorks          // the upstream is up
	busyStalls         // the stall rule decides
	busyDead           // the upstream is down
)

// verdict decides what happens to a busy upstream.
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

// unheard reports whether the engine has been silent for longer than its work explains, which is
// half of busyBound.
func (f busyFacts) unheard() bool { return f.still >= busyBound(f.longest)/2 }

// suspect reports whether the engine has been silent for so long that the operator should look.
func (f busyFacts) suspect() bool { return f.still >= max(suspectLeast, f.usual*3/2) }

// busyBound returns the maximum time that a busy engine may be silent, given the duration of its
// longest recent answer.
func busyBound(longest time.Duration) time.Duration { return max(busyLeast, busyAnswers*longest) }

// signs holds counters of the work done for calls. Any change is a sign of work.
type signs struct {
	reads     uint64 // reads of answers
	ended     uint64 // calls that the engine has ended
	elsewhere int    // calls of the fleet's other edges
}

// heard records when the engine last gave a sign of work.
type heard struct {
	signs signs
	at    time.Time
}

// listen records the current signs. An engine without work counts as heard. The exception is a busy
// engine without work, because its calls may have left.
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

// hasCalls reports whether the engine has calls from this edge or its fleet.
func hasCalls(u *Upstream) bool {
	return u.slots.inFlight() > 0 || !DownElsewhere(u) && u.slots.fleet.elsewhere.Load().all() > 0
}

// all returns the number of calls of the other edges at the upstream.
func (v *elsewhere) all() int { return v.inFlight(PoolText, true) }

// judgeBusy ends the busy state once its verdict is due.
func (p *prober) judgeBusy(l *looker, now time.Time) {
	u := p.up
	if since := u.Health.read().changed; !since.Equal(l.since) {
		l.since, l.first = since, now // the signs that this check saw may be older than the state
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

// answerTimes records the duration of a model's answers, and the number of calls that wait for an
// answer.
type answerTimes struct {
	awaited atomic.Int64 // calls that have been silent for progress.Patience
	longest atomic.Int64 // duration of the longest recent answer
	at      atomic.Int64 // when the longest answer ended, in ticks
}

// learn records the duration of an answer. Most answers change nothing.
func (a *answerTimes) learn(took time.Duration, now Moment) {
	if int64(took) >= a.longest.Load() || now-Moment(a.at.Load()) > Moment(answersFor) {
		a.longest.Store(int64(took))
		a.at.Store(int64(now))
	}
}

// longestAnswer returns how long the longest recent answer took. With awaited, it looks only at
// models that have calls waiting at the engine.
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

// Waits counts a call that begins (1) or stops (-1) waiting for its engine after progress.Patience.
func (l *Lease) Waits(n int64) {
	l.up.Progress.Waits(n)
	if l.model != nil {
		l.model.answers.awaited.Add(n)
	}
}
