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
// survives reloads as long as the configuration contains its ID. It must not be copied, and all its
// methods are safe for concurrent use. Its parts have separate locks and do not refer to each
// other. The methods for routing read only atomics and do not allocate.
type Upstream struct {
	identity identity
	set      *Set
	hooks    hooks

	settings    atomic.Pointer[settings]
	engine      atomic.Pointer[engine.Profile]
	recognition sync.Mutex // held while the engine and the state derived from it change
	mode        modeSwitch
	ending      ending

	Health   Health
	Breaker  CircuitBreaker
	Models   ServedModels
	Averages Averages
	Cache    PromptCache
	Progress progress.Watch
	slots    slots
	reports  reports
	penalty  penalty

	probing     probing
	generations generationProber
	series      series

	client client
}

// ending tracks the removal of an upstream.
type ending struct {
	leaving           atomic.Bool // the pod is gone, so the upstream gets no new calls even if routes contain it
	retiring, removed atomic.Bool
	handover          handover
}

type client struct {
	transport atomic.Pointer[http1.Transport] // for calls; a reload may replace it
	hosts     *http1.HostWatch
	answers   http1.AnswerWatch
}

// identity distinguishes the upstream from others. It never changes.
type identity struct {
	id      ID
	name    string // as configured
	label   string // the name in metrics and logs; includes the address if the name has more than one
	url     string // the base URL to dial
	address string // the resolved address, or empty
}

// settings holds the values that a reload may change while the upstream stays the same.
type settings struct {
	spec      config.Upstream
	weight    float64
	transport transportConfig // creates the transports
	probe     probeSettings
	source    *discovery // the discovery that found the upstream, or nil
	found     endpoint
	expected  []string // served names that routes expect at this upstream
	works     []work   // the models' names and kinds
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

// TagsOf returns the configured tags of an upstream.
func TagsOf(u *Upstream) []string { return u.settings.Load().spec.Tags }

// URL returns the base URL to dial, without credentials.
func (u *Upstream) URL() string { return u.identity.url }

// Engine returns the current profile, never nil. With `engine: auto` it returns the generic profile
// until the first detection.
func (u *Upstream) Engine() *engine.Profile { return u.engine.Load() }

// ContinuesAnswers reports whether an upstream's engine can continue a partial response that the
// request contains.
func ContinuesAnswers(u *Upstream) bool {
	return u.settings.Load().spec.Prefill == config.PrefillProven || engine.ContinuesAnswers(u.Engine())
}

// Priority returns the priority to send with a call of a class. It converts rank, the class's
// position (0 for the first), to the engine's order. ok is false if calls to this engine have no
// priority.
func Priority(u *Upstream, rank int) (number int, ok bool) {
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
	if u.ending.retiring.Load() || u.ending.leaving.Load() {
		return StateRetiring
	}
	return u.Health.now()
}

// EligibleIn reports whether the upstream is in health state s and a call may be sent to it now. s
// is StateUp or StatePending. A route uses pending upstreams if none is up, so that it can serve
// the first requests after a start. EligibleIn returns false for a retiring, leaving or drained
// upstream, and if the breaker admits no call.
func (u *Upstream) EligibleIn(s State, now Moment) bool {
	return u.Health.now() == s && !u.ending.retiring.Load() && !u.ending.leaving.Load() &&
		u.mode.now() == ModeReady && u.Breaker.passes(now)
}

// EligibleFor is like EligibleIn, for a call made with the key that has this id. If the key's
// failures opened the breaker, its call cannot be the trial.
func (u *Upstream) EligibleFor(key string, s State, now Moment) bool {
	return u.EligibleIn(s, now) && !u.Breaker.Bars(key)
}

// returns discards evidence from before the engine went down, because it may have restarted.
func (u *Upstream) returns() {
	u.penalty.clear()
	u.Models.mu.Lock()
	defer u.Models.mu.Unlock()
	for _, m := range u.Models.entries {
		m.lacking.clear(m)
	}
}

// Limits returns the configured or reported slots, before ghosts are subtracted.
func (u *Upstream) Limits() Limits { return u.slots.limits.Load().Limits }

// NextChance estimates how long it takes until a call for the served name may be sent to the
// upstream. It returns 0 if a call may be sent now, and an hour if the time cannot be estimated.
func (u *Upstream) NextChance(served string, now time.Time) time.Duration {
	until := ticks(now)
	switch s := u.State(); {
	case s == StateRetiring, u.Mode() != ModeReady:
		return time.Hour
	case s == StateDown:
		until = u.probing.due.Load() + int64(u.settings.Load().probe.rise-1)*int64(returnPause)
	case s == StatePending, !u.Models.Serves(served):
		until = u.probing.due.Load()
	}
	if u.Health.Wake.Possible(now) {
		return u.Health.Wake.Expected(now)
	}
	if breaker := u.Breaker.openUntil.Load(); breaker != breakerClosed {
		until = max(until, breaker)
	}
	return max(0, time.Duration(until-ticks(now)))
}

// ModelGone records a 404 for f.Served and starts a probe immediately. Only this name becomes
// unavailable. If all 404s come from f's source, the name stays available in two cases: the engine
// listed it after an earlier 404, or has never listed it. The name becomes available when a later
// list contains it, or after 30 s if the engine has no list or an incomplete one.
func (u *Upstream) ModelGone(f FailureSource) {
	now := time.Now()
	u.Health.Note(CauseModelGone, "", 404, now)
	u.Models.gone(f, now)
	u.probing.kick()
}
