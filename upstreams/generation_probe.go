package upstreams

import (
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
)

// A generation probe is the edge's own tiny piece of work for an engine: one token of chat (or
// some, and a good end, where answers broke off in the middle), an embedding of one word. Health
// probes ask whether an engine answers; this one asks whether it does its work, without a client's
// request that might be the reason why it does not.
//
//	Upstream.probeGeneration   starts one in a slot, at most one a second
//	engine.GenerationSteps     what to send to an engine for a kind of model
//	engine.Generate            sends it and judges the answer
//
// The verdict goes to the breaker (health.generation), and into metrics of its own: it is no
// client's call.

const (
	// generationPause is the least time between two generation probes of an upstream.
	generationPause = time.Second
	// generationLimit bounds a probe where the failed call's own limit is longer; generationLoading
	// where it may have to wait for a model to be loaded.
	generationLimit   = 10 * time.Second
	generationLoading = time.Minute
)

// generator is the state of an upstream's generation probes, guarded by its mutex.
type generator struct {
	served  string        // the model of the last call that failed
	limit   time.Duration // how long that call might have waited for its first token
	running bool
	doubted int // failures in a row when probeDoubt was last set to come; 0: it is not due
	begun   time.Time
	last    *LastGeneration
}

// LastGeneration is what the newest generation probe came to.
type LastGeneration struct {
	At           time.Time `json:"at"`
	Result       string    `json:"result"`
	Reason       string    `json:"reason,omitempty"` // why not: a Failure's reason, or "status"
	Status       int       `json:"status,omitempty"` // what the engine answered with
	Milliseconds float64   `json:"milliseconds"`
}

// probeGeneration starts a generation probe in a slot of the pool, which the caller has taken and
// which the probe gives back. It is false, and the slot stays the caller's, when there may be none
// now: another one runs or ran less than a second ago, the upstream is out, or the edge has no
// probe for its kind of model.
func (u *Upstream) probeGeneration(pool Pool, trial bool) bool {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	g, p := &u.generator, u.prober
	if p == nil || p.generate == nil || g.running || now.Sub(g.begun) < generationPause || u.Mode() != ModeReady {
		return false
	}
	if s := u.State(); s != StateUp && s != StatePending {
		return false
	}
	profile := u.engine.Load()
	toEnd := u.health.broken
	steps := engine.GenerationSteps(u.settings.Load().kinds[g.served], profile, g.served, toEnd)
	if len(steps) == 0 {
		u.health.generation(engine.GenerationRejected, trial, now)
		u.publish(u.health.state, "calls fail", now)
		return false
	}
	g.running, g.begun = true, now
	limit := generationLimit
	if profile.Has(config.QuirkLoadsOnDemand) {
		limit = generationLoading
	}
	if g.limit > 0 && !toEnd {
		limit = min(limit, g.limit)
	}
	go u.set.o.Guard.Once(guardGeneration, func() { u.generate(p, profile, steps, limit, pool, trial) })
	return true
}

// generate runs a generation probe and books its verdict.
func (u *Upstream) generate(p *prober, profile *engine.Profile, steps []engine.GenerationStep, limit time.Duration, pool Pool, trial bool) {
	result := engine.GenerationResult{Verdict: engine.GenerationAborted}
	defer func() { // whatever the booking comes to
		u.giveBack(pool, false)
		u.set.o.OnFree(u)
		if trial { // calls that looked meanwhile were kept out
			u.set.o.OnRoom(u)
		}
	}()
	defer func() { u.bookGeneration(result, trial) }()
	u.set.o.Guard.Point(guardGeneration)
	for i := range steps {
		begun := time.Now()
		u.answers.Begin()
		result = p.generate(p.ctx, profile, &steps[i], limit)
		progressed := u.answers.End()
		if result.Verdict == engine.GenerationFailed && result.Reason == http1.ReasonTimeout && (progressed || u.busyForOthers(begun)) {
			result.Verdict = engine.GenerationRefused // the probe waited its turn, as long as one client makes it
		}
		if result.Verdict != engine.GenerationRejected {
			return
		}
	}
}

// busyForOthers reports whether the engine has said since then that requests wait, and that it has
// some which are not of this edge.
func (u *Upstream) busyForOthers(since time.Time) bool {
	r := u.report.Load()
	return r != nil && r.At.After(since) && r.Waiting > 0 && r.others > 0
}

// bookGeneration books a probe's verdict.
func (u *Upstream) bookGeneration(result engine.GenerationResult, trial bool) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if trial {
		defer u.trial.Store(false)
	}
	u.generated[result.Verdict].Inc()
	g := &u.generator
	g.running = false
	g.last = &LastGeneration{
		At: now, Result: result.Verdict.String(), Reason: result.Reason, Status: result.Status,
		Milliseconds: float64(now.Sub(g.begun).Microseconds()) / 1000,
	}
	u.health.generation(result.Verdict, trial, now)
	u.publish(u.health.state, "generation probe: "+g.last.Result, now)
}

// probeDoubtLater calls probeDoubt soon, if there is reason to. Called with mu held.
func (u *Upstream) probeDoubtLater() {
	if u.prober != nil && u.generator.doubted == 0 && u.health.inDoubt() {
		u.generator.doubted = u.health.failures
		time.AfterFunc(doubtPause, u.probeDoubt)
	}
}

// probeDoubt sends a generation probe if there has been no success since, and a slot is free. Where
// calls still come, it waits for what they tell.
func (u *Upstream) probeDoubt() {
	defer u.set.o.Guard.Catch(guardRoom, nil)
	u.mu.Lock()
	more := u.health.failures != u.generator.doubted || u.slots.Load() != 0
	u.generator.doubted = 0
	wanted := u.health.inDoubt() && !u.retiring.Load()
	if wanted && more { // calls still come, and tell by themselves
		u.probeDoubtLater()
	}
	u.mu.Unlock()
	if !wanted || more || !u.takeSlot(PoolText) {
		return
	}
	if !u.probeGeneration(PoolText, false) {
		u.giveBack(PoolText, false)
		u.set.o.OnFree(u)
	}
}

// trialHeadStart is how long calls that wait are given to be the trial of a half-open breaker,
// before a generation probe is it.
const trialHeadStart = 100 * time.Millisecond

// probeTrial makes a generation probe the trial of a half-open breaker.
func (u *Upstream) probeTrial() {
	defer u.set.o.Guard.Catch(guardRoom, nil)
	defer u.retrialLater() // where the probe could not be sent, or decides nothing
	if !u.trialMissing() || !u.trial.CompareAndSwap(false, true) {
		return
	}
	taken := u.takeSlot(PoolText)
	if taken && u.probeGeneration(PoolText, true) {
		return
	}
	if taken {
		u.giveBack(PoolText, true)
	} else {
		u.trial.Store(false)
	}
	u.set.o.OnRoom(u) // calls that looked meanwhile were kept out
}

// probeTrialLater calls probeTrial soon, where not every call may be the trial of the half-open
// breaker.
func (u *Upstream) probeTrialLater() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.prober != nil && u.trialMissing() {
		u.trialTimer = time.AfterFunc(trialHeadStart, u.probeTrial)
	}
}

// retrialLater calls retrial later, where the breaker is half-open still.
func (u *Upstream) retrialLater() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.prober != nil && u.trialMissing() {
		u.trialTimer = time.AfterFunc(generationPause, u.retrial)
	}
}

// trialMissing reports whether the breaker is half-open, and not every call may be its trial.
func (u *Upstream) trialMissing() bool {
	until, barred := u.openUntil.Load(), u.barred.Load()
	return until != breakerClosed && ticks(time.Now()) >= until && !u.retiring.Load() && barred != nil && len(*barred) > 0
}
