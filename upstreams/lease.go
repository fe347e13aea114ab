package upstreams

import (
	"sync/atomic"
	"time"

	"penstock/config"
	"penstock/upstreams/http1"
	"penstock/upstreams/residency"
)

// Lease is one held slot of one upstream, and the only way to reach that upstream. The holder sends
// with Exchange, and gives the lease back with Release exactly once. Leases are not pooled. A
// second Release is harmless and counted, whereas on a recycled lease it would release another
// call's slot.
type Lease struct {
	_         noCopy
	held      atomic.Bool
	trial     atomic.Bool    // decides a half-open breaker; false again once it has decided
	failedFor *FailureSource // source of a failed call
	pool      Pool
	holder    uint8 // see slots.holders
	up        *Upstream
	model     *ServedModel     // nil: for no particular model
	place     *residency.Model // the turn that the call has entered; nil: there are no turns
	prompt    Prompt
	weight    int64         // tokens that the call adds to the upstream's load
	unread    int64         // prompt tokens still to be read, until the first token
	uncached  int64         // the same, as the upstream's load counts it
	reading   time.Duration // time spent reading the prompt; 0: not measured
	met       met
	needs     Features
	doubt     *Doubt         // settled when the call ends; nil: none
	loading   bool           // the call waits for its model to load
	buffers   bool           // see Buffers
	exchange  http1.Exchange // embedded by value, so that a call allocates once
}

// met holds the work at the upstream when the call got its slot, including the call itself.
type met struct {
	at     Moment
	calls  float64 // see callsAt
	unread int64   // prompt tokens still to be read
}

// Prompt is a call's prompt as a lease books it.
type Prompt struct {
	Tokens   int // estimated
	Uncached int // tokens that the engine probably has to read
	// Age says how long ago the engine read the cached tokens, as the number of blocks that it has
	// cached since then. The unit is the router's own; Lease.Prompt returns it.
	Age int
	// Stays says that the engine holds prompt tokens that belong only to this conversation. Such a
	// call has a reason to stay at this engine that other edges' calls do not have.
	Stays bool
}

// noCopy makes go vet refuse copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// TryLease takes a slot of the pool if one is free and the key with that id may use the upstream
// now. If the key's failures opened the breaker, its call may not be the trial. tokens is the
// call's estimated size, which counts in the upstream's load while the lease is held.
// Compare-and-swap decides both the limit and the single half-open trial, so the in-flight count
// never exceeds the limit.
func (u *Upstream) TryLease(key string, p Pool, tokens int, now time.Time) (*Lease, bool) {
	return lease(u, key, p, Prompt{Tokens: tokens, Uncached: tokens}, 0, now)
}

// lease is Upstream.TryLease for a call that must leave some slots free.
func lease(u *Upstream, key string, p Pool, prompt Prompt, free config.Percent, now time.Time) (*Lease, bool) {
	if !u.State().takesCalls() || u.Mode() != ModeReady {
		return nil, false
	}
	trial, ok := u.Breaker.admit(key, now)
	if !ok {
		return nil, false
	}
	if !u.slots.tryTake(p, free) {
		if trial {
			u.Breaker.trial.Store(false)
			u.hooks.room() // wake calls that the trial barred meanwhile
		}
		return nil, false
	}
	if u.State() == StateRetiring { // Retire may have seen the slot, so give it back as Release does
		u.set.giveBack(u, p, trial)
		return nil, false
	}
	if !prompt.Stays && u.slots.fleet.elsewhere.Load() != nil {
		u.slots.fleet.placed.Add(1)
	}
	l := &Lease{up: u, pool: p, holder: holderOf(key), prompt: prompt, weight: int64(max(0, prompt.Uncached))}
	u.slots.holders[l.holder].Add(1)
	l.held.Store(true)
	l.trial.Store(trial)
	u.slots.tokens[p].Add(l.weight)
	l.unread, l.uncached = int64(max(0, prompt.Tokens)), l.weight
	u.Progress.Unread(l.unread)
	at := At(now)
	l.met = met{at, callsAt(u, at), u.slots.unread.Add(l.uncached)}
	if l.met.unread == l.uncached {
		u.slots.reads.Store(int64(l.met.at))
	}
	return l, true
}

// enter takes the turn of the lease's model. If it is not the model's turn, it gives the lease back
// and returns false.
func (l *Lease) enter(now time.Time) bool {
	place := l.model.place.Load()
	if place == nil {
		return true
	}
	if l.up.Models.enter(place, now) {
		l.place = place
		return true
	}
	l.held.Store(false)
	l.up.slots.holders[l.holder].Add(-1)
	l.up.slots.tokens[l.pool].Add(-l.weight)
	l.read()
	if l.trial.Swap(false) {
		l.up.Breaker.trial.Store(false)
		l.up.hooks.room()
	}
	l.up.set.freeSlot(l.up, l.pool)
	return false
}

// leave ends the turn of the lease's model, if the model has one.
func (l *Lease) leave(o Outcome, now time.Time) {
	if l.place == nil {
		return
	}
	if o == OutcomeOK {
		l.place.Loaded(0)
	}
	l.place.Leave(now)
	l.up.Models.awaitTurn(now)
}

// Upstream returns the upstream of the lease.
func (l *Lease) Upstream() *Upstream { return l.up }

// Exchange returns the lease's only exchange with the upstream, which has not sent anything yet.
// The exchange can be aborted from any goroutine, and the caller must Close it. The connection uses
// the current settings. Exchange may be called once.
func (l *Lease) Exchange() *http1.Exchange {
	if !l.held.Load() {
		bug("exchange of a lease that was released")
	}
	l.exchange.Begin(l.up.client.transport.Load(), &l.up.client.answers)
	return &l.exchange
}

// Again returns another exchange, for a holder that has closed the last one and asks the same
// upstream again without giving up its slot.
func (l *Lease) Again() *http1.Exchange {
	if !l.held.Load() {
		bug("exchange of a lease that was released")
	}
	x := &http1.Exchange{}
	x.Begin(l.up.client.transport.Load(), &l.up.client.answers)
	return x
}

// longTrial is the time that a trial must run after its first token to pass.
const longTrial = 3 * time.Second

// FirstToken books the time from sending to the first content. A trial passes when it completes. It
// also passes when it has run for longTrial from here on, so that a long stream does not keep all
// other calls out.
func (l *Lease) FirstToken(ttft time.Duration) {
	if l.loading {
		l.model.answered.Store(time.Now().UnixNano())
	}
	if l.place == nil || !l.place.Cold() { // the time includes loading the model
		l.up.Averages.ttft.learn(ttft.Seconds(), 0, 0.1)
		// The engine reads prompts in turn, so it started to read this one after the previous first
		// token.
		at := int64(l.met.at) + int64(ttft)
		d := time.Duration(at - max(int64(l.met.at), l.up.slots.reads.Swap(at)))
		if !l.loading {
			l.up.Progress.FirstToken(ttft, l.unread)
			l.reading = max(time.Nanosecond, d)
		}
	} else {
		l.place.Loaded(ttft)
	}
	l.read()
	if l.trial.Load() {
		time.AfterFunc(longTrial, l.passLongTrial)
	}
}

// Prompt returns the booked prompt.
func (l *Lease) Prompt() Prompt { return l.prompt }

// Ahead returns the number of prompt tokens that the engine still had to read when the call was
// sent.
func (l *Lease) Ahead() int { return int(l.met.unread) - max(0, l.prompt.Uncached) }

// Counted books the engine's count: how many tokens the prompt has, and how many were cached. Call
// it before Answered.
func (l *Lease) Counted(tokens, cached int) {
	uncached := max(0, tokens-cached)
	l.up.slots.tokens[l.pool].Add(int64(uncached) - l.weight)
	l.weight = int64(uncached)
}

// Answered books the number of tokens of a complete answer, and the time from its first token to
// its last. at is the time of the last token.
func (l *Lease) Answered(tokens int, took time.Duration, at time.Time) {
	if l.model == nil {
		return
	}
	places := float64(l.up.slots.limits.Load().places[l.pool])
	if l.reading > 0 && l.met.calls <= places { // otherwise the call waited for a place at the engine
		l.model.speed.readPrompt(l.reading, l.weight, l.met, At(at))
	}
	calls := (l.met.calls + callsAt(l.up, At(at))) / 2
	l.model.speed.wroteAnswer(took, tokens, min(calls, places), At(at))
}

// callsAt returns the number of calls that the engine probably has: this edge's, its fleet's and,
// on average, others'.
func callsAt(u *Upstream, now Moment) float64 {
	_, usual := u.reports.others(now)
	return float64(u.slots.inFlight()+u.slots.fleet.elsewhere.Load().inFlight(PoolText, true)) + usual
}

// read records that the prompt has been read, or will not be read any more.
func (l *Lease) read() {
	l.up.Progress.Unread(-l.unread)
	l.up.slots.unread.Add(-l.uncached)
	l.unread, l.uncached = 0, 0
	if l.loading {
		l.loading = false
		l.up.Progress.Buffers(-1)
	}
}

// load records that the engine may first have to load the model. Until the model is loaded, the
// engine's silence means nothing.
func (l *Lease) load() {
	if l.up.engine.Load().Has(config.QuirkLoadsOnDemand) && l.model.loads() {
		l.loading = true
		l.up.Progress.Buffers(1)
	}
}

// Loads reports whether the engine is probably still loading the model for this call.
func (l *Lease) Loads() bool { return l.loading && l.model.loads() }

// Buffers records that the engine may hold the answer back until the answer is complete, so the
// engine's silence means nothing.
func (l *Lease) Buffers() {
	if !l.buffers {
		l.buffers = true
		l.up.Progress.Buffers(1)
	}
}

// passLongTrial closes the breaker if this running call is still the trial.
func (l *Lease) passLongTrial() {
	defer l.up.hooks.guard.Catch(guardRoom, nil)
	if l.trial.CompareAndSwap(true, false) {
		l.up.Breaker.passTrial(time.Now())
	}
}

// FailedFor sets the source of a failed call. Call it before Release. Without a source the failure
// counts as one from a call without a key.
func (l *Lease) FailedFor(f FailureSource) { l.failedFor = &f }

// Release gives the slot back, counts the outcome and wakes calls that wait for room. Call it
// exactly once, from any goroutine, after the upstream's reply has ended. A second call only
// increments a counter, and panics under `-tags testing`.
func (l *Lease) Release(o Outcome) { l.ReleaseAt(o, time.Now()) }

// ReleaseAt is Release for a caller that has already read the clock.
func (l *Lease) ReleaseAt(o Outcome, now time.Time) {
	if !l.held.CompareAndSwap(true, false) {
		l.up.set.doubleReleases.Inc()
		bug("lease released twice")
		return
	}
	l.up.slots.holders[l.holder].Add(-1)
	l.up.slots.tokens[l.pool].Add(-l.weight)
	if l.loading && o == OutcomeOK {
		l.model.answered.Store(now.UnixNano())
	}
	l.read()
	if l.buffers {
		l.up.Progress.Buffers(-1)
	}
	var by FailureSource
	if l.failedFor != nil {
		by = *l.failedFor
	}
	passedOn := false
	defer func() { // even if the booking panics
		if !passedOn {
			l.up.set.freeSlot(l.up, l.pool)
		}
	}()
	l.up.series.attempts[o].Inc()
	if o == OutcomeOK && l.model != nil {
		at := At(now)
		l.model.answers.learn(time.Duration(at-l.met.at), at)
		l.model.lacking.answered(l.model, l.needs)
	}
	if l.doubt != nil {
		l.doubt.resolve(o, At(now))
	}
	if o == OutcomeTimeout && l.model != nil && l.model.loads() {
		o = OutcomeClientGone // a timeout while the engine loads the model is not a failure
		l.up.probing.kick()
	}
	l.leave(o, now)
	passedOn = l.book(o, by, l.trial.Swap(false), now) && l.up.generations.start(l.pool, false)
}

// book books the outcome: breaker, passive health, penalty. It reports whether a generation probe
// should confirm that the engine fails.
func (l *Lease) book(o Outcome, by FailureSource, trial bool, now time.Time) (generate bool) {
	u := l.up
	if o.Failed() || o == OutcomeRefused || o == OutcomeModelGone { // must not look idle
		u.penalty.charge(At(now))
	}
	if o == OutcomeClientGone || o == OutcomeTimeout || o == OutcomeStalled || o == OutcomeHandedOver {
		u.reports.abandon()
	}
	if o.Failed() {
		u.generations.failed(by)
	}
	look := u.Health.outcome(o, by, now)
	generate = u.Breaker.outcome(o, by, trial, now)
	if !generate && u.Breaker.Doubted() {
		u.generations.lookLater()
	}
	if look {
		u.probing.kick()
	}
	return generate
}
