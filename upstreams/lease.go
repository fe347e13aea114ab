package upstreams

import (
	"sync/atomic"
	"time"

	"penstock/config"
	"penstock/upstreams/http1"
	"penstock/upstreams/residency"
)

// Lease is one acquired slot of an upstream, and the only way to send a request to that upstream.
// The holder sends a request with Exchange, and calls Release exactly once. A second Release is
// harmless, but is counted. Leases are not pooled, because a second Release could then free another
// call's slot.
type Lease struct {
	_              noCopy
	isHeld         atomic.Bool
	isTrial        atomic.Bool    // the call is the undecided trial of a half-open breaker
	failureSource  *FailureSource // the source of the failure, if the call failed
	features       Features
	pool           SlotPool
	holderBucket   uint8 // see slots.holderCounts
	mayBeLoading   bool  // the model may still be loading
	buffers        bool  // see MarkBuffering
	up             *Upstream
	model          *ServedModel     // nil if the lease is not for a specific model
	turn           *residency.Model // the model whose turn the call has entered; nil if there are no turns
	prompt         Prompt
	loadTokens     int64         // the call's uncached tokens, as counted in the upstream's load
	unreadTokens   int64         // all prompt tokens, including cached ones, until the first token; then 0
	unreadUncached int64         // like unreadTokens, but without cached tokens
	prefillTime    time.Duration // prefill time; 0 if not measured
	startLoad      loadAtAcquire
	disputed       *DisputedRefusal // resolved when the call ends; may be nil
	exchange       http1.Exchange   // embedded by value to save an allocation
}

// loadAtAcquire is the load at the upstream when the call acquired its slot, including the call
// itself.
type loadAtAcquire struct {
	startedAt Moment
	calls     float64 // see estimatedCalls
	unread    int64   // prompt tokens that the engine has not read yet
}

// Prompt describes a call's prompt.
type Prompt struct {
	Tokens   int // estimate
	Uncached int // estimate of the tokens that the engine must read
	// Age is the age of this prompt's cached tokens: the number of blocks that the engine has
	// cached since it read these tokens. Only package routing interprets the value, which it reads
	// back with Lease.Prompt.
	Age int
	// Stays is true if the engine has cached prompt tokens that belong only to this conversation.
	// Such a call goes to this engine because of the cache, so it does not count in
	// LocalWork.Placed.
	Stays bool
}

// noCopy makes go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// TryLease acquires a slot of the pool if one is free and the breaker admits the key's call. If the
// key's failures opened the breaker, the call cannot be the trial. tokens is the estimated number
// of prompt tokens. They count in the upstream's load until the lease is released. A
// compare-and-swap enforces the limit, so the in-flight count never exceeds it. Another
// compare-and-swap ensures that there is only one trial.
func (u *Upstream) TryLease(key string, p SlotPool, tokens int, now time.Time) (*Lease, bool) {
	return acquireLease(u, key, p, Prompt{Tokens: tokens, Uncached: tokens}, 0, now)
}

// acquireLease does the work of TryLease. free is the percentage of the slots that the call must
// leave unused.
func acquireLease(u *Upstream, key string, p SlotPool, prompt Prompt, free config.Percent, now time.Time) (*Lease, bool) {
	if !u.State().acceptsCalls() || u.Mode() != ModeReady {
		return nil, false
	}
	trial, ok := u.Breaker.admitCall(key, now)
	if !ok {
		return nil, false
	}
	if !u.slots.tryAcquire(p, free) {
		if trial {
			u.Breaker.trialRunning.Store(false)
			u.hooks.wakeWaiting() // calls could not use the engine during the trial
		}
		return nil, false
	}
	if u.State() == StateRetiring { // RetireOmitted may have left the removal to this release
		u.set.returnUnusedSlot(u, p, trial)
		return nil, false
	}
	if !prompt.Stays && u.slots.fleet.others.Load() != nil {
		u.slots.fleet.placed.Add(1)
	}
	l := &Lease{up: u, pool: p, holderBucket: holderHashBucket(key), prompt: prompt, loadTokens: int64(max(0, prompt.Uncached))}
	u.slots.holderCounts[l.holderBucket].Add(1)
	l.isHeld.Store(true)
	l.isTrial.Store(trial)
	u.slots.tokens[p].Add(l.loadTokens)
	l.unreadTokens, l.unreadUncached = int64(max(0, prompt.Tokens)), l.loadTokens
	u.Progress.AddUnreadPromptTokens(l.unreadTokens)
	at := MomentOf(now)
	l.startLoad = loadAtAcquire{at, estimatedCalls(u, at), u.slots.unreadTokens.Add(l.unreadUncached)}
	if l.startLoad.unread == l.unreadUncached {
		u.slots.promptStart.Store(int64(l.startLoad.startedAt))
	}
	return l, true
}

// enterModelTurn enters the turn of the lease's model. If it is another model's turn,
// enterModelTurn releases the slot and returns false.
func (l *Lease) enterModelTurn(now time.Time) bool {
	place := l.model.turn.Load()
	if place == nil {
		return true
	}
	if l.up.Models.enterTurn(place, now) {
		l.turn = place
		return true
	}
	l.isHeld.Store(false)
	l.up.slots.holderCounts[l.holderBucket].Add(-1)
	l.up.slots.tokens[l.pool].Add(-l.loadTokens)
	l.finishPrefill()
	if l.isTrial.Swap(false) {
		l.up.Breaker.trialRunning.Store(false)
		l.up.hooks.wakeWaiting()
	}
	l.up.set.freeSlot(l.up, l.pool)
	return false
}

// leaveModelTurn leaves the turn of the lease's model, if the upstream's models take turns.
func (l *Lease) leaveModelTurn(o Outcome, now time.Time) {
	if l.turn == nil {
		return
	}
	if o == OutcomeOK {
		l.turn.RecordLoaded(0)
	}
	l.turn.EndCall(now)
	l.up.Models.scheduleTurnChange(now)
}

// Upstream returns the upstream of the lease.
func (l *Lease) Upstream() *Upstream { return l.up }

// Exchange returns the lease's exchange, with which the caller sends a request to the upstream. Any
// goroutine may abort the exchange, and the caller must Close it. Its connection uses the
// upstream's current settings. Call Exchange at most once, and NewExchange to get more exchanges.
func (l *Lease) Exchange() *http1.Exchange {
	if !l.isHeld.Load() {
		panicIfTesting("exchange of a lease that was released")
	}
	l.exchange.Begin(l.up.client.transport.Load(), &l.up.client.answerWatch)
	return &l.exchange
}

// NewExchange returns another exchange, so that the holder can repeat a request without releasing
// its slot. The previous exchange must be closed first.
func (l *Lease) NewExchange() *http1.Exchange {
	if !l.isHeld.Load() {
		panicIfTesting("exchange of a lease that was released")
	}
	x := &http1.Exchange{}
	x.Begin(l.up.client.transport.Load(), &l.up.client.answerWatch)
	return x
}

// longTrialTime is how long a trial must stream after its first token to succeed.
const longTrialTime = 3 * time.Second

// RecordFirstToken records the time from sending the request to receiving the first content. A
// trial succeeds when it completes. It also succeeds when it has streamed for longTrialTime after
// the first token, so that a long stream does not block all other calls.
func (l *Lease) RecordFirstToken(ttft time.Duration) {
	if l.mayBeLoading {
		l.model.lastLoaded.Store(time.Now().UnixNano())
	}
	if l.turn == nil || !l.turn.MayStillBeLoading() { // otherwise the time includes loading the model
		l.up.Averages.ttft.update(ttft.Seconds(), 0, 0.1)
		// Engines read prompts one after another. The prefill of this prompt therefore began no
		// earlier than the first token of the previous call.
		at := int64(l.startLoad.startedAt) + int64(ttft)
		d := time.Duration(at - max(int64(l.startLoad.startedAt), l.up.slots.promptStart.Swap(at)))
		if !l.mayBeLoading {
			l.up.Progress.RecordFirstToken(ttft, l.unreadTokens)
			l.prefillTime = max(time.Nanosecond, d)
		}
	} else {
		l.turn.RecordLoaded(ttft)
	}
	l.finishPrefill()
	if l.isTrial.Load() {
		time.AfterFunc(longTrialTime, l.closeBreakerAfterLongTrial)
	}
}

// Prompt returns the Prompt with which the lease was acquired.
func (l *Lease) Prompt() Prompt { return l.prompt }

// TokensAhead returns how many prompt tokens the engine still had to read when the call was sent,
// not counting this call's prompt.
func (l *Lease) TokensAhead() int { return int(l.startLoad.unread) - max(0, l.prompt.Uncached) }

// RecordPromptTokens records the prompt tokens and cached tokens that the engine reported. Call it
// before RecordResponse.
func (l *Lease) RecordPromptTokens(tokens, cached int) {
	uncached := max(0, tokens-cached)
	l.up.slots.tokens[l.pool].Add(int64(uncached) - l.loadTokens)
	l.loadTokens = int64(uncached)
}

// RecordResponse records a complete response: its token count, and how long it took from the first
// token to the last. at is the time of the last token.
func (l *Lease) RecordResponse(tokens int, took time.Duration, at time.Time) {
	if l.model == nil {
		return
	}
	places := float64(l.up.slots.limits.Load().places[l.pool])
	if l.prefillTime > 0 && l.startLoad.calls <= places { // otherwise the call queued at the engine
		l.model.speed.recordPrompt(l.prefillTime, l.loadTokens, l.startLoad, MomentOf(at))
	}
	calls := (l.startLoad.calls + estimatedCalls(l.up, MomentOf(at))) / 2
	l.model.speed.recordAnswer(took, tokens, min(calls, places), MomentOf(at))
}

// estimatedCalls estimates the number of calls at the engine: the calls from this edge and from the
// fleet, and the average number of calls from other clients.
func estimatedCalls(u *Upstream, now Moment) float64 {
	_, usual := u.reports.otherRequests(now)
	return float64(u.slots.inFlight()+u.slots.fleet.others.Load().inFlight(PoolText, true)) + usual
}

// finishPrefill records that the engine has read the prompt, or that the call has ended.
func (l *Lease) finishPrefill() {
	l.up.Progress.AddUnreadPromptTokens(-l.unreadTokens)
	l.up.slots.unreadTokens.Add(-l.unreadUncached)
	l.unreadTokens, l.unreadUncached = 0, 0
	if l.mayBeLoading {
		l.mayBeLoading = false
		l.up.Progress.AddBuffering(-1)
	}
}

// markLoading records that the engine may first have to load the model, and may be silent until
// then.
func (l *Lease) markLoading() {
	if l.up.engine.Load().HasQuirk(config.QuirkLoadsOnDemand) && l.model.mayBeLoading() {
		l.mayBeLoading = true
		l.up.Progress.AddBuffering(1)
	}
}

// IsLoading reports whether the engine is probably still loading the model for this call.
func (l *Lease) IsLoading() bool { return l.mayBeLoading && l.model.mayBeLoading() }

// MarkBuffering records that the engine may buffer the whole response, so silence does not mean a
// stall.
func (l *Lease) MarkBuffering() {
	if !l.buffers {
		l.buffers = true
		l.up.Progress.AddBuffering(1)
	}
}

// closeBreakerAfterLongTrial closes the breaker if this call is still the trial.
func (l *Lease) closeBreakerAfterLongTrial() {
	defer l.up.hooks.guard.Catch(guardSlotWakeups, nil)
	if l.isTrial.CompareAndSwap(true, false) {
		l.up.Breaker.closeDuringTrial(time.Now())
	}
}

// SetFailureSource sets the source of a failure. Call it before Release. If no source is set, the
// failure counts like that of a call without a key.
func (l *Lease) SetFailureSource(f FailureSource) { l.failureSource = &f }

// Release frees the slot, records the outcome and wakes the calls that are waiting for a slot. Call
// it exactly once, from any goroutine, after the exchange has ended. A second call only increments
// a counter, and panics under `-tags testing`.
func (l *Lease) Release(o Outcome) { l.ReleaseAt(o, time.Now()) }

// ReleaseAt is like Release, but the caller passes the current time.
func (l *Lease) ReleaseAt(o Outcome, now time.Time) {
	if !l.isHeld.CompareAndSwap(true, false) {
		l.up.set.doubleReleases.Inc()
		panicIfTesting("lease released twice")
		return
	}
	l.up.slots.holderCounts[l.holderBucket].Add(-1)
	l.up.slots.tokens[l.pool].Add(-l.loadTokens)
	if l.mayBeLoading && o == OutcomeOK {
		l.model.lastLoaded.Store(now.UnixNano())
	}
	l.finishPrefill()
	if l.buffers {
		l.up.Progress.AddBuffering(-1)
	}
	var by FailureSource
	if l.failureSource != nil {
		by = *l.failureSource
	}
	passedOn := false
	defer func() { // release the slot even if recording the outcome panics
		if !passedOn {
			l.up.set.freeSlot(l.up, l.pool)
		}
	}()
	l.up.series.attempts[o].Inc()
	if o == OutcomeOK && l.model != nil {
		at := MomentOf(now)
		took := time.Duration(at - l.startLoad.startedAt)
		l.model.responses.record(took, at)
		l.model.callTime.update(took.Seconds(), 0, 0.1)
		l.model.lacking.recordSuccess(l.model, l.features)
	}
	if l.disputed != nil {
		l.disputed.resolve(o, MomentOf(now))
	}
	if o == OutcomeTimeout && l.model != nil && l.model.mayBeLoading() {
		o = OutcomeClientGone // a timeout while the engine loads the model is not a failure
		l.up.probeControl.probeNow()
	}
	l.leaveModelTurn(o, now)
	passedOn = l.reportOutcome(o, by, l.isTrial.Swap(false), now) && l.up.generations.start(l.pool, false)
}

// reportOutcome reports the outcome to the breaker, the passive health check and the penalty. It
// reports whether a generation probe should confirm the failure.
func (l *Lease) reportOutcome(o Outcome, by FailureSource, trial bool, now time.Time) (generate bool) {
	u := l.up
	// An engine that fails fast must not look idle.
	if o.IsFailure() || o == OutcomeRefused || o == OutcomeModelGone {
		u.penalty.addFailure(MomentOf(now))
	}
	if o == OutcomeClientGone || o == OutcomeTimeout || o == OutcomeStalled || o == OutcomeHandedOver {
		u.reports.countAbandonedCall()
	}
	if o.IsFailure() {
		u.generations.setNextProbeTarget(by)
	}
	look := u.Health.recordOutcome(o, by, now)
	generate = u.Breaker.recordOutcome(o, by, trial, now)
	if !generate && u.Breaker.HasFailures() {
		u.generations.scheduleDoubtProbe()
	}
	if look {
		u.probeControl.probeNow()
	}
	return generate
}
