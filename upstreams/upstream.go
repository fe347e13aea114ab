package upstreams

import (
	"sync"
	"sync/atomic"
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
	"penstock/upstreams/progress"
)

// Upstream is one engine process, configured or discovered, with its settings and state. It
// survives reloads as long as the configuration contains its ID. An Upstream must not be copied.
// All methods are safe for concurrent use. The parts of an Upstream have separate locks and do not
// refer to each other. The methods for routing read only atomic fields and do not allocate.
type Upstream struct {
	identity identity
	set      *Set
	hooks    upstreamHooks

	settings  atomic.Pointer[settings]
	engine    atomic.Pointer[engine.Profile]
	profileMu sync.Mutex // held while the engine and the state derived from it change
	mode      modeSwitch
	removal   removalState

	Health   Health
	Breaker  CircuitBreaker
	Models   ServedModels
	Averages Averages
	Cache    PromptCache
	Progress progress.Watch
	slots    slots
	reports  loadReports
	penalty  penalty

	probeControl probeControl
	generations  generationProber
	series       upstreamMetrics

	client client
}

// removalState tracks the removal of an upstream.
type removalState struct {
	podGone               atomic.Bool // the pod is gone, so the upstream gets no new calls
	isRetiring, isRemoved atomic.Bool
	handover              drainTimer
}

type client struct {
	transport   atomic.Pointer[http1.Transport] // transport for calls; a reload may replace it
	hosts       *http1.HostWatch
	answerWatch http1.AnswerWatch
}

// identity distinguishes an upstream from others. It never changes.
type identity struct {
	id      ID
	name    string // as configured
	label   string // the name in metrics and logs; includes the address if the name resolves to more than one
	url     string // the base URL to dial
	address string // the resolved address, or empty
}

// settings contains the values that a reload may change while the upstream stays the same.
type settings struct {
	spec         config.Upstream
	weight       float64
	transport    transportConfig
	probe        probeSettings
	discovery    *endpointDiscovery // the discovery that found the upstream, or nil
	endpoint     discoveredEndpoint
	expected     []string      // served names that routes expect at this upstream
	probeTargets []probeTarget // the models' names and kinds
}

// ID identifies an upstream: its configured name, its normalised base URL and, if it was
// discovered, its endpoint. IDs are map keys and labels in logs and metrics. No code parses them.
type ID string

// ID returns the upstream's identity: name, normalised URL and discovered endpoint.
func (u *Upstream) ID() ID { return u.identity.id }

// Name returns the configured name. Discovered upstreams of the same configuration entry share a
// name.
func (u *Upstream) Name() string { return u.identity.name }

// Label returns the upstream's unique name in metrics and logs.
func (u *Upstream) Label() string { return u.identity.label }

// APIKey returns the credential that the edge sends to the engine, so that callers can redact it
// from responses.
func (u *Upstream) APIKey() string { return u.settings.Load().spec.APIKey.Value() }

// ConfiguredTags returns the configured tags of an upstream.
func ConfiguredTags(u *Upstream) []string { return u.settings.Load().spec.Tags }

// URL returns the base URL to dial, without credentials.
func (u *Upstream) URL() string { return u.identity.url }

// Engine returns the current profile, never nil. With `engine: auto` it returns the generic profile
// until the first detection.
func (u *Upstream) Engine() *engine.Profile { return u.engine.Load() }

// CanContinueAnswers reports whether an upstream's engine can continue a partial response that the
// request contains.
func CanContinueAnswers(u *Upstream) bool {
	return u.settings.Load().spec.Prefill == config.PrefillProven || engine.ContinuesAnswers(u.Engine())
}

// EnginePriority returns the priority to send with a call of a class. It converts rank, the class's
// position (0 for the first), to the engine's order. ok is false if calls to this engine have no
// priority.
func EnginePriority(u *Upstream, rank int) (number int, ok bool) {
	order := engine.PriorityOrder(u.Engine())
	if !u.settings.Load().spec.Priorities || order == "" {
		return 0, false
	}
	if order == config.PriorityHigherFirst {
		return -rank, true
	}
	return rank, true
}

// State returns the upstream's state.
func (u *Upstream) State() State {
	if u.removal.isRetiring.Load() || u.removal.podGone.Load() {
		return StateRetiring
	}
	return u.Health.currentState()
}

// IsEligibleIn reports whether the upstream is in health state s and a call may be sent to it now.
// It returns false if the upstream is retiring or drained, if its pod is gone, or if the breaker
// admits no call.
func (u *Upstream) IsEligibleIn(s State, now Moment) bool {
	return u.Health.currentState() == s && !u.removal.isRetiring.Load() && !u.removal.podGone.Load() &&
		u.mode.current() == ModeReady && u.Breaker.admitsCalls(now)
}

// IsEligibleFor is like IsEligibleIn, for a call made with the key that has this id. If the key's
// failures opened the breaker, the key's calls cannot be the trial.
func (u *Upstream) IsEligibleFor(key string, s State, now Moment) bool {
	return u.IsEligibleIn(s, now) && !u.Breaker.BarsKeyFromTrial(key)
}

// resetAfterReturn discards evidence from before the engine went down, because the engine may have
// restarted.
func (u *Upstream) resetAfterReturn() {
	u.penalty.clear()
	u.Models.mu.Lock()
	defer u.Models.mu.Unlock()
	for _, m := range u.Models.entries {
		m.lacking.clear(m)
	}
}

// Limits returns the configured or reported limits, before ghosts are subtracted.
func (u *Upstream) Limits() Limits { return u.slots.limits.Load().Limits }

// RetryDelay estimates how long it takes until a call for the served name may be sent to the
// upstream. It returns 0 if a call may be sent now, and an hour if the time cannot be estimated.
func (u *Upstream) RetryDelay(served string, now time.Time) time.Duration {
	until := momentTicks(now)
	switch s := u.State(); {
	case s == StateRetiring, u.Mode() != ModeReady:
		return time.Hour
	case s == StateDown:
		until = u.probeControl.nextProbe.Load() + int64(u.settings.Load().probe.rise-1)*int64(recoveryConfirmPause)
	case s == StatePending, !u.Models.Serves(served):
		until = u.probeControl.nextProbe.Load()
	}
	if u.Health.Wake.CanWake(now) {
		return u.Health.Wake.ExpectedWait(now)
	}
	if breaker := u.Breaker.openUntil.Load(); breaker != breakerClosed {
		until = max(until, breaker)
	}
	return max(0, time.Duration(until-momentTicks(now)))
}

// RecordModelGone records a 404 for f.Served and starts a probe immediately. Only this name becomes
// unavailable. If all 404s come from the same source, the name stays available in two cases: the
// engine has listed the name after an earlier 404, or has never listed it. The name becomes
// available when a later list contains it, or after 30 s if the engine has no list or an incomplete
// one.
func (u *Upstream) RecordModelGone(f FailureSource) {
	now := time.Now()
	u.Health.RecordFailure(CauseModelGone, "", 404, now)
	u.Models.recordModelGone(f, now)
	u.probeControl.probeNow()
}
