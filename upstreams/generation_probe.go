package upstreams

import (
	"sync"
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
)

// A generation probe is the edge's own tiny piece of work for an engine: one token of chat (or
// several, with a proper end, if answers broke off in the middle), or an embedding of one word.
// Health probes show whether an engine answers. A generation probe shows whether the engine works,
// without a client's request, which might itself cause the failure.
//
//	generationProber.start     starts one in a slot, at most one a second
//	settings.generation        the model to ask, and what to send
//	engine.GenerationSteps     what to send to an engine for a kind of model
//	engine.Generate            sends it and judges the answer
//
// The verdict goes to the breaker (circuit.generation), and has metrics of its own because it is
// not a client's call.

const (
	// generationPause is the minimum time between two generation probes of an upstream.
	generationPause = time.Second
	// generationLimit is the maximum time of a probe, even if the failed call's own limit is
	// longer. generationLoading is the maximum if the model may have to load first.
	generationLimit   = 10 * time.Second
	generationLoading = time.Minute
)

// LastGeneration is the result of the newest generation probe.
type LastGeneration struct {
	At           time.Time `json:"at"`
	Result       string    `json:"result"`
	Reason       string    `json:"reason,omitempty"` // why it failed: a Failure's reason, or "status"
	Status       int       `json:"status,omitempty"` // the engine's status
	Milliseconds float64   `json:"milliseconds"`
}

// generationProber sends the generation probes of an upstream.
type generationProber struct {
	up *Upstream

	mu      sync.Mutex
	last    work          // the work that the last failed call needed
	limit   time.Duration // maximum wait of that call for a first token
	running bool
	doubted int // failures in a row at the last lookLater; 0: not scheduled
	begun   time.Time
	newest  *LastGeneration // immutable once set
}

// failed records a failed call, whose kind the next probe will have.
func (g *generationProber) failed(by FailureSource) {
	g.mu.Lock()
	g.last, g.limit = work{by.Served, by.Kind}, by.Limit
	g.mu.Unlock()
}

// work is the work of a configured model at an engine: a served name, and the kind of model behind
// it.
type work struct {
	served, kind string
}

// generation returns the requests of a generation probe. If the last failed call's kind has a
// probe, they ask for the same work. Otherwise (an image) they ask the upstream's chat model, or
// another of its models, because five failed calls of one client must not take the engine out
// unchecked. steps is empty if no model can be probed.
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

// start starts a generation probe in a slot that the caller has taken from the pool. The probe
// gives the slot back. start returns false, and the caller keeps the slot, if another probe runs or
// ran less than a second ago, if the upstream is out, or if none of its models has a probe.
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
	defer func() { // even if the booking panics
		u.set.freeSlot(u, pool)
		if trial { // wake calls that were barred meanwhile
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
			result.Verdict = engine.GenerationRefused // the probe waited, as clients of a busy engine do
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

// failsSince reports whether the newest probe failed and is newer than the given time.
func (g *generationProber) failsSince(then time.Time) bool {
	last := g.result()
	return last != nil && last.At.After(then) && last.Result == engine.GenerationFailed.String()
}

// alone reports whether a generation probe is the engine's only work.
func (g *generationProber) alone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running && g.up.slots.inFlight() == 1 && g.up.slots.fleet.elsewhere.Load().all() == 0
}

// result returns the newest result, or nil.
func (g *generationProber) result() *LastGeneration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.newest
}

// lookLater schedules lookAtDoubt if the breaker is in doubt.
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

// lookAtDoubt sends a generation probe if no call has succeeded since and a slot is free. While
// calls still come, it waits for their outcomes.
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
	case u.slots.tryTake(PoolText, 0) && !g.start(PoolText, false):
		u.set.freeSlot(u, PoolText)
	}
}

// trialHeadStart is the time for which waiting calls may become the trial of a half-open breaker
// before a generation probe does. If there is no probe, other clients get unprobedHeadStart. After
// that any call may be the trial, even one of the client whose trial failed.
const (
	trialHeadStart    = 100 * time.Millisecond
	unprobedHeadStart = time.Second
)

// probeTrial sends a generation probe as the trial of a half-open breaker.
func (g *generationProber) probeTrial() {
	defer g.up.hooks.guard.Catch(guardRoom, nil)
	defer g.retrialLater() // in case the probe could not be sent, or decides nothing
	u := g.up
	if !g.trialMissing() || !u.Breaker.trial.CompareAndSwap(false, true) {
		return
	}
	taken := u.slots.tryTake(PoolText, 0)
	if taken && g.start(PoolText, true) {
		return
	}
	if taken {
		u.set.giveBack(u, PoolText, true)
	} else {
		u.Breaker.trial.Store(false)
	}
	u.hooks.room() // wake calls that were barred meanwhile
}

// trialLater schedules probeTrial if the half-open breaker bars some calls from its trial.
func (g *generationProber) trialLater() {
	if g.trialMissing() {
		g.up.Breaker.lookLater(time.AfterFunc(g.up.Breaker.headStart(), g.probeTrial))
	}
}

// retrialLater looks for a trial again later if the breaker is still half-open.
func (g *generationProber) retrialLater() {
	if g.trialMissing() {
		g.up.Breaker.lookLater(time.AfterFunc(generationPause, g.up.Breaker.halfOpen))
	}
}

// trialMissing reports whether the half-open breaker bars some calls from its trial.
func (g *generationProber) trialMissing() bool {
	return g.up.Breaker.trialMissing() && !g.up.ending.retiring.Load() && g.up.probing.current() != nil
}
