package upstreams

import (
	"sync"
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
)

// A generation probe is a minimal request that the edge generates: one token of chat, or an
// embedding of one word. If responses have broken off, the probe requests several tokens and
// requires a complete response. A health probe shows whether an engine responds. A generation probe
// shows whether the engine generates. A generation probe never reuses a client's request, because
// the request might itself be the cause of the failure.
//
//	generationProber.start     starts a probe in a slot, at most once a second
//	settings.generation        picks the model and the requests
//	engine.GenerationSteps     builds the requests for an engine and a kind of model
//	engine.Generate            sends them and judges the responses
//
// The verdict goes to the breaker (circuit.generation). Separate metrics count generation probes,
// because they are not client calls.

const (
	// generationPause is the minimum interval between two generation probes of an upstream.
	generationPause = time.Second
	// generationLimit is the timeout of a probe, even if the failed call had a longer timeout. If
	// the engine may first have to load the model, the timeout is generationLoading.
	generationLimit   = 10 * time.Second
	generationLoading = time.Minute
)

// LastGeneration is the result of the newest generation probe.
type LastGeneration struct {
	At           time.Time `json:"at"`
	Result       string    `json:"result"`
	Reason       string    `json:"reason,omitempty"` // a Failure's reason, or "status"
	Status       int       `json:"status,omitempty"` // the engine's status
	Milliseconds float64   `json:"milliseconds"`
}

type generationProber struct {
	up *Upstream

	mu      sync.Mutex
	last    work          // model and kind of the last failed call
	limit   time.Duration // timeout of that call for its first token
	lost    bool          // that call got a 404 without a reason
	running bool
	doubted int // consecutive failures when lookLater last ran; 0 if no probe is scheduled
	begun   time.Time
	newest  *LastGeneration // immutable
}

// failed records a failed call. The next probe uses its model and kind. After a 404 without a
// reason, the probe uses the upstream's chat model if there is one, because an engine that lacks
// only a part of its work must stay in service.
func (g *generationProber) failed(by FailureSource) {
	g.mu.Lock()
	g.last, g.limit, g.lost = work{by.Served, by.Kind}, by.Limit, by.NotFound
	if by.NotFound {
		g.last = work{}
	}
	g.mu.Unlock()
}

// work is a served model name and the kind of the model.
type work struct {
	served, kind string
}

// generation returns the requests of a generation probe. If the kind of the last failed call can be
// probed, the probe uses that call's model. Otherwise (images), the probe uses the upstream's chat
// model, or another of its models. Five failed calls of one client must not take the engine out
// without a probe.
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

// start starts a generation probe in a slot that the caller has acquired from the pool. The probe
// releases the slot. start returns false, and the caller keeps the slot, in these cases:
//
//   - Another probe runs, or started less than a second ago.
//   - The upstream is out of service.
//   - No model of the upstream can be probed.
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

func (g *generationProber) run(
	p *prober, profile *engine.Profile, steps []engine.GenerationStep, limit time.Duration, pool Pool, trial bool,
) {
	u, result := g.up, engine.GenerationResult{Verdict: engine.GenerationAborted}
	defer func() { // ensures the release even if book panics
		u.set.freeSlot(u, pool)
		if trial { // wake calls that were barred during the trial
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
			result.Verdict = engine.GenerationRefused // the probe was queued behind calls that make progress
		}
		if result.Verdict != engine.GenerationRejected {
			return
		}
	}
}

func (g *generationProber) book(result engine.GenerationResult, trial bool) {
	u, now := g.up, time.Now()
	if trial {
		defer u.Breaker.trial.Store(false)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost && result.Verdict == engine.GenerationRejected && result.Status == 404 {
		result.Verdict = engine.GenerationFailed // the edge's own request gets the answer of the calls
	}
	u.series.generated[result.Verdict].Inc()
	if result.Verdict == engine.GenerationOK {
		u.Progress.Moved(now)
	}
	g.running = false
	g.newest = &LastGeneration{
		At: now, Result: result.Verdict.String(), Reason: result.Reason, Status: result.Status,
		Milliseconds: float64(now.Sub(g.begun).Microseconds()) / 1000,
	}
	u.Breaker.generation(result.Verdict, trial, "generation probe: "+g.newest.Result, now)
}

// failsSince reports whether the newest probe was sent after the given time and failed.
func (g *generationProber) failsSince(then time.Time) bool {
	last := g.result()
	return last != nil && last.At.After(then) && last.Result == engine.GenerationFailed.String()
}

// alone reports whether a running generation probe is the engine's only call.
func (g *generationProber) alone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running && g.up.slots.inFlight() == 1 && g.up.slots.fleet.elsewhere.Load().all() == 0
}

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

// lookAtDoubt sends a generation probe if the breaker is still in doubt and a slot is free. While
// calls still run or fail, it waits for their outcomes.
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

// trialHeadStart is how long waiting calls have to become the trial of a half-open breaker before
// the edge sends a generation probe. If no probe is possible, other clients have unprobedHeadStart.
// When that time is over, any call may be the trial, even a call of the barred client.
const (
	trialHeadStart    = 100 * time.Millisecond
	unprobedHeadStart = time.Second
)

// probeTrial sends a generation probe as the trial of a half-open breaker.
func (g *generationProber) probeTrial() {
	defer g.up.hooks.guard.Catch(guardRoom, nil)
	defer g.retrialLater() // in case the probe is not sent or is inconclusive
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
	u.hooks.room() // wake calls that were barred during the trial
}

// trialLater schedules probeTrial if some keys' calls cannot be the trial.
func (g *generationProber) trialLater() {
	if g.trialMissing() {
		g.up.Breaker.lookLater(time.AfterFunc(g.up.Breaker.headStart(), g.probeTrial))
	}
}

// retrialLater schedules another attempt if the breaker is still half-open.
func (g *generationProber) retrialLater() {
	if g.trialMissing() {
		g.up.Breaker.lookLater(time.AfterFunc(generationPause, g.up.Breaker.halfOpen))
	}
}

// trialMissing reports whether the half-open breaker needs a probe as its trial.
func (g *generationProber) trialMissing() bool {
	return g.up.Breaker.trialMissing() && !g.up.ending.retiring.Load() && g.up.probing.current() != nil
}
