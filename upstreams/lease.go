package upstreams

import (
	"sync/atomic"
	"time"

	"penstock/config"
	"penstock/upstreams/http1"
	"penstock/upstreams/residency"
)

// Lease is one acquired slot of an upstream, and the only access to that upstream. The holder sends
// a request with Exchange, and calls Release exactly once. Leases are not pooled. A second Release
// is harmless and counted. If leases were pooled, a second Release could free another call's slot.
type Lease struct {
	_         noCopy
	held      atomic.Bool
	trial     atomic.Bool    // the call is the trial of a half-open breaker, still undecided
	failedFor *FailureSource // the source of the failure, if the call failed
	pool      Pool
	holder    uint8 // see slots.holders
	up        *Upstream
	model     *ServedModel     // nil if the lease is for no particular model
	place     *residency.Model // the turn that the call has entered; nil if the upstream has no turns
	prompt    Prompt
	weight    int64         // the call's uncached tokens, as counted in the upstream's load
	unread    int64         // prompt tokens, cached or not, until the first token; then 0
	uncached  int64         // like unread, but only the uncached tokens
	reading   time.Duration // prefill time; 0 if not measured
	met       met
	needs     Features
	doubt     *Doubt         // settled when the call ends; may be nil
	loading   bool           // the model may still be loading
	buffers   bool           // see Buffers
	exchange  http1.Exchange // embedded by value to save an allocation
}

// met is the load at the upstream when the call acquired its slot, including the call itself.
type met struct {
	at     Moment
	calls  float64 // see callsAt
	unread int64   // prompt tokens not read yet
}

// Prompt describes a call's prompt.
type Prompt struct {
	Tokens   int // estimate
	Uncached int // estimate of the tokens that the engine must read
	// Age is the age of this prompt's cached tokens: the number of blocks that the engine has
	// cached since it read them. Only the router interprets the value. The router reads Age back
	// with Lease.Prompt.
	Age int
	// Stays is true if the engine caches only prompt tokens of this conversation. Such a call
	// benefits more from this engine than calls from other edges do.
	Stays bool
}

// noCopy makes go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// TryLease acquires a slot of the pool if one is free and the breaker admits the key's call. If the
// key's failures opened the breaker, the call cannot be the trial. tokens is the estimated size of
// the call. It counts in the upstream's load while the lease is held. Compare-and-swap enforces the
// limit and the single trial, so the in-flight count never exceeds the limit.
func (u *Upstream) TryLease(key string, p Pool, tokens int, now time.Time) (*Lease, bool) {
	return lease(u, key, p, Prompt{Tokens: tokens, Uncached: tokens}, 0, now)
}

// lease does the work of TryLease for a call that must leave free percent of the slots unused.
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
			u.hooks.room() // wake calls that the trial barred
		}
		return nil, false
	}
	if u.State() == StateRetiring { // Retire may rely on this slot's release to remove the upstream
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

// enter enters the turn of the lease's model. If it is another model's turn, enter gives the slot
// back and returns false.
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

// leave leaves the turn of the lease's model, if the upstream has turns.
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

// Exchange returns the lease's exchange with the upstream, before anything is sent. Any goroutine
// may abort the exchange, and the caller must Close it. Its connection uses the upstream's current
// settings. Call Exchange at most once, and Again to get more exchanges.
func (l *Lease) Exchange() *http1.Exchange {
	if !l.held.Load() {
		bug("exchange of a lease that was released")
	}
	l.exchange.Begin(l.up.client.transport.Load(), &l.up.client.answers)
	return &l.exchange
}

// Again returns another exchange, so that a holder can repeat a request without giving up its slot.
// The previous exchange must be closed.
func (l *Lease) Again() *http1.Exchange {
	if !l.held.Load() {
		bug("exchange of a lease that was released")
	}
	x := &http1.Exchange{}
	x.Begin(l.up.client.transport.Load(), &l.up.client.answers)
	return x
}

// longTrial is how long a trial must stream after its first token to succeed.
const longTrial = 3 * time.Second

// FirstToken records the time from sending the request to receiving the first content. A trial
// succeeds when it completes. It also succeeds when it has streamed for longTrial after the first
// token, so that a long stream does not block all other calls.
func (l *Lease) FirstToken(ttft time.Duration) {
	if l.loading {
		l.model.answered.Store(time.Now().UnixNano())
	}
	if l.place == nil || !l.place.Cold() { // otherwise the time includes loading the model
		l.up.Averages.ttft.learn(ttft.Seconds(), 0, 0.1)
		// Engines read prompts one after another. The prefill of this prompt therefore began no
		// earlier than the first token of the previous call.
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

// Prompt returns the prompt passed at acquisition.
func (l *Lease) Prompt() Prompt { return l.prompt }

// Ahead returns how many prompt tokens the engine still had to read when the call was sent, not
// counting this call's prompt.
func (l *Lease) Ahead() int { return int(l.met.unread) - max(0, l.prompt.Uncached) }

// Counted records the prompt tokens and cached tokens that the engine reported. Call it before
// Answered.
func (l *Lease) Counted(tokens, cached int) {
	uncached := max(0, tokens-cached)
	l.up.slots.tokens[l.pool].Add(int64(uncached) - l.weight)
	l.weight = int64(uncached)
}

// Answered records a complete response: its token count, and the time from the first token to the
// last. at is the time of the last token.
func (l *Lease) Answered(tokens int, took time.Duration, at time.Time) {
	if l.model == nil {
		return
	}
	places := float64(l.up.slots.limits.Load().places[l.pool])
	if l.reading > 0 && l.met.calls <= places { // otherwise the call queued at the engine
		l.model.speed.readPrompt(l.reading, l.weight, l.met, At(at))
	}
	calls := (l.met.calls + callsAt(l.up, At(at))) / 2
	l.model.speed.wroteAnswer(took, tokens, min(calls, places), At(at))
}

// callsAt estimates the number of calls at the engine: calls from this edge, from the fleet, and
// the average number from other clients.
func callsAt(u *Upstream, now Moment) float64 {
	_, usual := u.reports.others(now)
	return float64(u.slots.inFlight()+u.slots.fleet.elsewhere.Load().inFlight(PoolText, true)) + usual
}

// read records that the engine has read the prompt, or that the call has ended.
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
// engine may be silent.
func (l *Lease) load() {
	if l.up.engine.Load().Has(config.QuirkLoadsOnDemand) && l.model.loads() {
		l.loading = true
		l.up.Progress.Buffers(1)
	}
}

// Loads reports whether the engine is probably still loading the model for this call.
func (l *Lease) Loads() bool { return l.loading && l.model.loads() }

// Buffers records that the engine may buffer the whole response, so silence does not mean a stall.
func (l *Lease) Buffers() {
	if !l.buffers {
		l.buffers = true
		l.up.Progress.Buffers(1)
	}
}

// passLongTrial closes the breaker if this call is still the trial.
func (l *Lease) passLongTrial() {
	defer l.up.hooks.guard.Catch(guardRoom, nil)
	if l.trial.CompareAndSwap(true, false) {
		l.up.Breaker.passTrial(time.Now())
	}
}

// FailedFor sets the source of a failure. Call it before Release. If no source is set, the failure
// counts as that of a call without a key.
func (l *Lease) FailedFor(f FailureSource) { l.failedFor = &f }

// Release frees the slot, records the outcome and wakes calls that wait for a slot. Call it exactly
// once, from any goroutine, after the exchange has ended. A second call only increments a counter,
// and panics under `-tags testing`.
func (l *Lease) Release(o Outcome) { l.ReleaseAt(o, time.Now()) }

// ReleaseAt is like Release, but takes the current time from the caller.
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
	defer func() { // release the slot even if book panics
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

// book reports the outcome to the breaker, the passive health check and the penalty. It reports
// whether a generation probe should confirm the failure.
func (l *Lease) book(o Outcome, by FailureSource, trial bool, now time.Time) (generate bool) {
	u := l.up
	if o.Failed() || o == OutcomeRefused || o == OutcomeModelGone { // an engine that fails fast must not look idle
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
