package upstreams

import (
	"sync"
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
//	generationProber.start     starts one in a slot, at most one a second
//	settings.generation        the model to ask, and what to send
//	engine.GenerationSteps     what to send to an engine for a kind of model
//	engine.Generate            sends it and judges the answer
//
// The verdict goes to the breaker (circuit.generation), and into metrics of its own: it is no
// client's call.

const (
	// generationPause is the least time between two generation probes of an upstream.
	generationPause = time.Second
	// generationLimit bounds a probe where the failed call's own limit is longer; generationLoading
	// where it may have to wait for a model to be loaded.
	generationLimit   = 10 * time.Second
	generationLoading = time.Minute
)

// LastGeneration is what the newest generation probe came to.
type LastGeneration struct {
	At           time.Time `json:"at"`
	Result       string    `json:"result"`
	Reason       string    `json:"reason,omitempty"` // why not: a Failure's reason, or "status"
	Status       int       `json:"status,omitempty"` // what the engine answered with
	Milliseconds float64   `json:"milliseconds"`
}

// generationProber sends the generation probes of an upstream.
type generationProber struct {
	up *Upstream

	mu      sync.Mutex
	last    work          // of the last call that failed
	limit   time.Duration // how long that call might have waited for its first token
	running bool
	doubted int // failures in a row when lookAtDoubt was last set to come; 0: it is not due
	begun   time.Time
	newest  *LastGeneration // never written again
}

// failed notes a call that failed: the next probe is of its kind.
func (g *generationProber) failed(by FailureSource) {
	g.mu.Lock()
	g.last, g.limit = work{by.Served, by.Kind}, by.Limit
	g.mu.Unlock()
}

// work is what a model of the configuration wants of an engine: a served name, and the kind of
// model that it stands for.
type work struct {
	served, kind string
}

// generation returns what a generation probe asks for. That is the work of the last call that
// failed, as far as the edge has a probe for its kind. Otherwise (an image) it is the chat model of
// the upstream, or another of its models: five failed calls of one client shall not take the
// engine from the others without a look at it. There are no steps where nothing can be asked.
func (s *settings) generation(
	last work, profile *engine.Profile, models *ServedModels, toEnd bool,
) (served string, steps []engine.GenerationStep) {
	if last.served != "" || len(s.works) == 0 {
		if steps = engine.GenerationSteps(last.kind, profile, last.served, toEnd); len(steps) > 0 {
			return last.served, steps
		}
	}
	for _, chat := range []bool{true, false} {
		for _, w := range s.works {
			if isChat := w.kind == "" || w.kind == config.KindChat; isChat != chat || !models.Serves(w.served) {
				continue
			}
			if steps = engine.GenerationSteps(w.kind, profile, w.served, toEnd); len(steps) > 0 {
				return w.served, steps
			}
		}
	}
	return last.served, nil
}

// start starts a generation probe in a slot of the pool, which the caller has taken and which the
// probe gives back. It is false, and the slot stays the caller's, when there may be none now:
// another one runs or ran less than a second ago, the upstream is out, or the edge has no probe for
// any of its models.
func (g *generationProber) start(pool Pool, trial bool) bool {
	u, now := g.up, time.Now()
	p, s := u.probing.current(), u.State()
	if p == nil || p.generate == nil || u.Mode() != ModeReady || !s.takesCalls() && s != StateBusy {
		return false
	}
	profile, toEnd := u.engine.Load(), u.Breaker.broken()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running || now.Sub(g.begun) < generationPause {
		return false
	}
	served, steps := u.settings.Load().generation(g.last, profile, &u.Models, toEnd)
	if number, told := Priority(u, 0); told {
		engine.WithPriority(steps, number)
	}
	if len(steps) == 0 {
		u.Breaker.generation(engine.GenerationRejected, trial, "calls fail", now)
		return false
	}
	turn, ok := u.Models.takeTurn(served, now)
	if !ok {
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
	go u.hooks.guard.Once(guardGeneration, func() {
		defer turn.Leave(time.Now())
		g.run(p, profile, steps, limit, pool, trial)
	})
	return true
}

// run sends a generation probe and books its verdict.
func (g *generationProber) run(
	p *prober, profile *engine.Profile, steps []engine.GenerationStep, limit time.Duration, pool Pool, trial bool,
) {
	u, result := g.up, engine.GenerationResult{Verdict: engine.GenerationAborted}
	defer func() { // whatever the booking comes to
		u.set.freeSlot(u, pool)
		if trial { // calls that looked meanwhile were kept out
			u.hooks.room()
		}
	}()
	defer func() { g.book(result, trial) }()
	u.hooks.guard.Point(guardGeneration)
	for i := range steps {
		begun, reads := time.Now(), u.client.answers.Looks()
		result = p.generate(p.ctx, profile, &steps[i], limit)
		progressed := u.client.answers.Looks() != reads || u.Progress.MovedSince(begun)
		timedOut := result.Verdict == engine.GenerationFailed && result.Reason == http1.ReasonTimeout
		if timedOut && (progressed || u.reports.queuesForOthers(begun)) {
			result.Verdict = engine.GenerationRefused // the probe waited its turn, as long as one client makes it
		}
		if result.Verdict != engine.GenerationRejected {
			return
		}
	}
}

// book books a probe's verdict.
func (g *generationProber) book(result engine.GenerationResult, trial bool) {
	u, now := g.up, time.Now()
	if trial {
		defer u.Breaker.trial.Store(false)
	}
	u.series.generated[result.Verdict].Inc()
	if result.Verdict == engine.GenerationOK {
		u.Progress.Moved(now)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = false
	g.newest = &LastGeneration{
		At: now, Result: result.Verdict.String(), Reason: result.Reason, Status: result.Status,
		Milliseconds: float64(now.Sub(g.begun).Microseconds()) / 1000,
	}
	u.Breaker.generation(result.Verdict, trial, "generation probe: "+g.newest.Result, now)
}

// failsSince reports whether the newest probe since then has failed.
func (g *generationProber) failsSince(then time.Time) bool {
	last := g.result()
	return last != nil && last.At.After(then) && last.Result == engine.GenerationFailed.String()
}

// result returns the newest result, or nil.
func (g *generationProber) result() *LastGeneration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.newest
}

// lookLater calls lookAtDoubt soon, if there is reason to.
func (g *generationProber) lookLater() {
	failures, wanted := g.up.Breaker.doubt()
	if !wanted || g.up.probing.current() == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.doubted == 0 {
		g.doubted = failures
		time.AfterFunc(doubtPause, g.lookAtDoubt)
	}
}

// lookAtDoubt sends a generation probe if there has been no success since, and a slot is free.
// Where calls still come, it waits for what they show.
func (g *generationProber) lookAtDoubt() {
	defer g.up.hooks.guard.Catch(guardRoom, nil)
	u := g.up
	failures, wanted := u.Breaker.doubt()
	g.mu.Lock()
	more := failures != g.doubted || u.slots.inFlight() != 0
	g.doubted = 0
	g.mu.Unlock()
	switch {
	case !wanted || u.ending.retiring.Load():
	case more:
		g.lookLater()
	case u.slots.take(PoolText, 0) && !g.start(PoolText, false):
		u.set.freeSlot(u, PoolText)
	}
}

// trialHeadStart is how long calls that wait are given to be the trial of a half-open breaker,
// before a generation probe is it. Where there is no probe, other clients get unprobedHeadStart:
// then every call may be the trial, one of the client whose trial failed, too.
const (
	trialHeadStart    = 100 * time.Millisecond
	unprobedHeadStart = time.Second
)

// probeTrial makes a generation probe the trial of a half-open breaker.
func (g *generationProber) probeTrial() {
	defer g.up.hooks.guard.Catch(guardRoom, nil)
	defer g.retrialLater() // where the probe could not be sent, or decides nothing
	u := g.up
	if !g.trialMissing() || !u.Breaker.trial.CompareAndSwap(false, true) {
		return
	}
	taken := u.slots.take(PoolText, 0)
	if taken && g.start(PoolText, true) {
		return
	}
	if taken {
		u.set.giveBack(u, PoolText, true)
	} else {
		u.Breaker.trial.Store(false)
	}
	u.hooks.room() // calls that looked meanwhile were kept out
}

// trialLater calls probeTrial soon, where not every call may be the trial of the half-open breaker.
func (g *generationProber) trialLater() {
	if g.trialMissing() {
		g.up.Breaker.lookLater(time.AfterFunc(g.up.Breaker.headStart(), g.probeTrial))
	}
}

// retrialLater has the breaker look for a trial again, where it is half-open still.
func (g *generationProber) retrialLater() {
	if g.trialMissing() {
		g.up.Breaker.lookLater(time.AfterFunc(generationPause, g.up.Breaker.halfOpen))
	}
}

// trialMissing reports whether not every call may be the trial of the half-open breaker.
func (g *generationProber) trialMissing() bool {
	return g.up.Breaker.trialMissing() && !g.up.ending.retiring.Load() && g.up.probing.current() != nil
}
