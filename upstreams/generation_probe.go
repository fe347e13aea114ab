package upstreams

import (
	"sync"
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
)

// A generation probe is a minimal request that the edge creates: one token of chat, or an embedding
// of one word. If responses have broken off, the probe requests more than one token and requires a
// complete response. A health probe shows whether an engine responds, and a generation probe shows
// whether the engine generates. A generation probe never repeats a client's request, because that
// request might itself be the cause of the failure.
//
//	generationProber.start     starts a probe in a slot, at most once a second
//	settings.generation        picks the model and the requests
//	engine.GenerationSteps     builds the requests for an engine and a kind of model
//	engine.GenerateFunc        sends them and judges the responses
//
// The verdict goes to the breaker (circuit.recordGeneration). Separate metrics count generation
// probes, because they are not client calls.

const (
	// minGenerationInterval is the minimum interval between two generation probes of an upstream.
	minGenerationInterval = time.Second
	// generationProbeTimeout is the maximum timeout of a probe, even if the failed call had a longer
	// timeout. If the engine may first have to load the model, the maximum is
	// generationProbeLoadTimeout.
	generationProbeTimeout     = 10 * time.Second
	generationProbeLoadTimeout = time.Minute
)

// LastGenerationProbe is the result of the newest generation probe.
type LastGenerationProbe struct {
	At           time.Time `json:"at"`
	Result       string    `json:"result"`
	Reason       string    `json:"reason,omitempty"` // a Failure's reason, or "status"
	Status       int       `json:"status,omitempty"` // the engine's status
	Milliseconds float64   `json:"milliseconds"`
}

type generationProber struct {
	up *Upstream

	mu                sync.Mutex
	lastFailed        probeTarget   // model and kind of the last failed call
	lastTimeout       time.Duration // that call's timeout for its first token
	lastNotFound      bool          // that call got a 404 without a reason
	isRunning         bool
	scheduledFailures int // consecutive failures when scheduleDoubtProbe last ran; 0 if no probe is scheduled
	startedAt         time.Time
	lastResult        *LastGenerationProbe // immutable
}

// setNextProbeTarget records a failed call. The next probe uses that call's model and kind. After a 404
// without a reason, the probe prefers the upstream's chat model. An engine on which only some
// models or paths are missing must stay in service.
func (g *generationProber) setNextProbeTarget(by FailureSource) {
	g.mu.Lock()
	g.lastFailed, g.lastTimeout, g.lastNotFound = probeTarget{by.Served, by.Kind}, by.Limit, by.NotFound
	if by.NotFound {
		g.lastFailed = probeTarget{}
	}
	g.mu.Unlock()
}

// probeTarget is a served model name and the kind of the model.
type probeTarget struct {
	served, kind string
}

// generationSteps returns the requests of a generation probe. If the kind of the last failed call
// can be probed, the probe uses that call's model. Otherwise (images), the probe uses the
// upstream's chat model, or another of its models. Without a probe, five failed calls of one client
// could take the engine out of service.
func (s *settings) generationSteps(
	last probeTarget, profile *engine.Profile, models *ServedModels, toEnd bool,
) (served string, steps []engine.GenerationStep) {
	if last.served != "" || len(s.probeTargets) == 0 {
		if steps = engine.GenerationSteps(last.kind, profile, last.served, toEnd); len(steps) > 0 {
			return last.served, steps
		}
	}
	for _, chat := range []bool{true, false} {
		for _, w := range s.probeTargets {
			if isChat := w.kind == "" || w.kind == config.ModelKindChat; isChat != chat || !models.Serves(w.served) {
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
//   - Another probe is running, or started less than a second ago.
//   - The upstream is out of service.
//   - No model of the upstream can be probed.
func (g *generationProber) start(pool SlotPool, trial bool) bool {
	u, now := g.up, time.Now()
	p, s := u.probeControl.currentProber(), u.State()
	if p == nil || p.generate == nil || u.Mode() != ModeReady || !s.acceptsCalls() && s != StateBusy {
		return false
	}
	profile, toEnd := u.engine.Load(), u.Breaker.hasBrokenResponse()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isRunning || now.Sub(g.startedAt) < minGenerationInterval {
		return false
	}
	served, steps := u.settings.Load().generationSteps(g.lastFailed, profile, &u.Models, toEnd)
	if number, told := EnginePriority(u, 0); told {
		engine.SetProbePriority(steps, number)
	}
	if len(steps) == 0 {
		u.Breaker.recordGeneration(engine.GenerationRejected, trial, "calls fail", now)
		return false
	}
	turn, ok := u.Models.enterTurnForProbe(served, now)
	if !ok {
		return false
	}
	g.isRunning, g.startedAt = true, now
	limit := generationProbeTimeout
	if profile.HasQuirk(config.QuirkLoadsOnDemand) {
		limit = generationProbeLoadTimeout
	}
	if g.lastTimeout > 0 && !toEnd {
		limit = min(limit, g.lastTimeout)
	}
	go u.hooks.guard.RunWithRecover(guardGeneration, func() {
		defer turn.EndCall(time.Now())
		g.run(p, profile, steps, limit, pool, trial)
	})
	return true
}

func (g *generationProber) run(
	p *prober, profile *engine.Profile, steps []engine.GenerationStep, limit time.Duration, pool SlotPool, trial bool,
) {
	u, result := g.up, engine.GenerationResult{Verdict: engine.GenerationAborted}
	defer func() { // release the slot even if recordResult panics
		u.set.freeSlot(u, pool)
		if trial { // calls could not use the engine during the trial
			u.hooks.wakeWaiting()
		}
	}()
	defer func() { g.recordResult(result, trial) }()
	u.hooks.guard.PanicIfInjected(guardGeneration)
	notFound := true
	for i := range steps {
		begun, reads := time.Now(), u.client.answerWatch.ArrivalNumber()
		result = p.generate(p.ctx, profile, &steps[i], limit)
		// NotFound stays true only if every step gets a 404 that names no model. Otherwise the
		// engine serves at least one of the paths.
		notFound = notFound && result.NotFound
		result.NotFound = notFound
		progressed := u.client.answerWatch.ArrivalNumber() != reads || u.Progress.ProgressedSince(begun)
		timedOut := result.Verdict == engine.GenerationFailed && result.Reason == http1.ReasonTimeout
		if timedOut && (progressed || u.reports.queuesForOthers(begun)) {
			result.Verdict = engine.GenerationRefused // the probe was queued behind calls that make progress
		}
		if result.Verdict != engine.GenerationRejected {
			return
		}
	}
}

func (g *generationProber) recordResult(result engine.GenerationResult, trial bool) {
	u, now := g.up, time.Now()
	if trial {
		defer u.Breaker.trialRunning.Store(false)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lastNotFound && result.Verdict == engine.GenerationRejected && result.NotFound {
		result.Verdict = engine.GenerationFailed // the edge's own requests get the same response as the calls
	}
	u.series.generated[result.Verdict].Inc()
	if result.Verdict == engine.GenerationOK {
		u.Progress.RecordProgress(now)
	}
	g.isRunning = false
	g.lastResult = &LastGenerationProbe{
		At: now, Result: result.Verdict.String(), Reason: result.Reason, Status: result.Status,
		Milliseconds: float64(now.Sub(g.startedAt).Microseconds()) / 1000,
	}
	u.Breaker.recordGeneration(result.Verdict, trial, "generation probe: "+g.lastResult.Result, now)
}

// hasFailedSince reports whether the newest probe was sent after the given time and failed.
func (g *generationProber) hasFailedSince(then time.Time) bool {
	last := g.lastGeneration()
	return last != nil && last.At.After(then) && last.Result == engine.GenerationFailed.String()
}

// isOnlyCall reports whether a running generation probe is the engine's only call.
func (g *generationProber) isOnlyCall() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isRunning && g.up.slots.inFlight() == 1 && g.up.slots.fleet.others.Load().totalCalls() == 0
}

func (g *generationProber) lastGeneration() *LastGenerationProbe {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lastResult
}

// scheduleDoubtProbe schedules probeDoubt if the circuit is in doubt (circuit.isInDoubt).
func (g *generationProber) scheduleDoubtProbe() {
	failures, wanted := g.up.Breaker.consecutiveFailures()
	if !wanted || g.up.probeControl.currentProber() == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.scheduledFailures == 0 {
		g.scheduledFailures = failures
		time.AfterFunc(doubtProbePause, g.probeDoubt)
	}
}

// probeDoubt sends a generation probe if the circuit is still in doubt and a slot is free. If calls
// are running or have failed in the meantime, it waits for further outcomes.
func (g *generationProber) probeDoubt() {
	defer g.up.hooks.guard.Catch(guardSlotWakeups, nil)
	u := g.up
	failures, wanted := u.Breaker.consecutiveFailures()
	g.mu.Lock()
	more := failures != g.scheduledFailures || u.slots.inFlight() != 0
	g.scheduledFailures = 0
	g.mu.Unlock()
	switch {
	case !wanted || u.removal.isRetiring.Load():
	case more:
		g.scheduleDoubtProbe()
	case u.slots.tryAcquire(PoolText, 0) && !g.start(PoolText, false):
		u.set.freeSlot(u, PoolText)
	}
}

// A waiting call can become the trial of a half-open breaker within callTrialHeadStart. After
// that time, the edge sends a generation probe as the trial. If no probe is possible, calls of
// barred keys cannot be the trial within barredTrialHeadStart. After that time, any call can.
const (
	callTrialHeadStart   = 100 * time.Millisecond
	barredTrialHeadStart = time.Second
)

// probeAsBreakerTrial sends a generation probe as the trial of a half-open breaker.
func (g *generationProber) probeAsBreakerTrial() {
	defer g.up.hooks.guard.Catch(guardSlotWakeups, nil)
	defer g.rescheduleBreakerTrial() // if the probe is not sent or is inconclusive
	u := g.up
	if !g.needsTrialProbe() || !u.Breaker.trialRunning.CompareAndSwap(false, true) {
		return
	}
	taken := u.slots.tryAcquire(PoolText, 0)
	if taken && g.start(PoolText, true) {
		return
	}
	if taken {
		u.set.returnUnusedSlot(u, PoolText, true)
	} else {
		u.Breaker.trialRunning.Store(false)
	}
	u.hooks.wakeWaiting() // calls could not use the engine during the trial
}

// scheduleBreakerTrial schedules probeAsBreakerTrial if some keys' calls cannot be the trial.
func (g *generationProber) scheduleBreakerTrial() {
	if g.needsTrialProbe() {
		g.up.Breaker.setTrialTimer(time.AfterFunc(g.up.Breaker.trialDelay(), g.probeAsBreakerTrial))
	}
}

// rescheduleBreakerTrial schedules another attempt if the breaker is still half-open.
func (g *generationProber) rescheduleBreakerTrial() {
	if g.needsTrialProbe() {
		g.up.Breaker.setTrialTimer(time.AfterFunc(minGenerationInterval, g.up.Breaker.wakeForTrial))
	}
}

// needsTrialProbe reports whether the half-open breaker needs a probe as its trial.
func (g *generationProber) needsTrialProbe() bool {
	return g.up.Breaker.needsTrialProbe() && !g.up.removal.isRetiring.Load() && g.up.probeControl.currentProber() != nil
}
