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

// Upstream is one engine process, configured or discovered: its identity, its settings and
// everything known about it. It survives reloads as long as its ID is configured. It is used by
// pointer and never copied, and all of its methods are safe for concurrent use. Its parts have
// their own locks and no references to each other. The methods that a pick calls read only atomics
// and do not allocate.
type Upstream struct {
	identity identity
	set      *Set
	hooks    hooks

	settings    atomic.Pointer[settings]
	engine      atomic.Pointer[engine.Profile]
	recognition sync.Mutex // held while the engine and everything derived from it change
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

// ending is the progress of an upstream's removal.
type ending struct {
	leaving           atomic.Bool // its pod is gone: it gets no new calls, although routes have it
	retiring, removed atomic.Bool
	handover          handover
}

// client holds the upstream's connections.
type client struct {
	transport atomic.Pointer[http1.Transport] // for calls; a reload may replace it
	hosts     *http1.HostWatch
	answers   http1.AnswerWatch
}

// identity distinguishes the upstream from others. It never changes.
type identity struct {
	id      ID
	name    string // as configured
	label   string // the name in metrics and logs, with the address if there are several
	url     string // the dialled URL
	address string // the resolved address, or empty
}

// settings holds what a reload may change while the upstream stays the same.
type settings struct {
	spec      config.Upstream
	weight    float64
	transport transportConfig // makes the transports
	probe     probeSettings
	source    *discovery // the discovery that found the upstream; nil: none
	found     endpoint
	expected  []string // served names that routes expect here
	works     []work   // the kinds of work that their models need
}

// ID identifies an upstream: its configured name, its normalised base URL and, if a name has
// several addresses, the address. It serves as a label in logs and metrics and as a map key; no
// code parses it.
type ID string

// ID returns the upstream's identity: name, normalised URL and discovered endpoint.
func (u *Upstream) ID() ID { return u.identity.id }

// Name returns the configured name. Upstreams that differ only in their resolved address share a
// name.
func (u *Upstream) Name() string { return u.identity.name }

// Label returns this upstream's unique name in metrics and logs.
func (u *Upstream) Label() string { return u.identity.label }

// APIKey returns the credential sent to the engine with each request, so that replies can be
// redacted.
func (u *Upstream) APIKey() string { return u.settings.Load().spec.APIKey.Value() }

// TagsOf returns the configured tags of an upstream.
func TagsOf(u *Upstream) []string { return u.settings.Load().spec.Tags }

// URL returns the base URL that is dialled, without a credential.
func (u *Upstream) URL() string { return u.identity.url }

// Engine returns the profile in force, never nil. With `engine: auto` that is the generic profile
// until the first detection.
func (u *Upstream) Engine() *engine.Profile { return u.engine.Load() }

// ContinuesAnswers reports whether an upstream's engine can continue an answer that starts in the
// request.
func ContinuesAnswers(u *Upstream) bool {
	return u.settings.Load().spec.Prefill == config.PrefillProven || engine.ContinuesAnswers(u.Engine())
}

// Priority returns the priority to send with a call of a class. It converts the class's rank, 0 for
// the first, to the engine's order. ok is false if calls to this engine carry no priority.
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

// EligibleIn reports whether a call may be sent here now, if the upstream is in the given state:
// up, or pending, which means not yet probed. A route falls back on pending upstreams when none is
// up, so that the first requests after a start are served. The upstream must not be retiring, and
// its breaker must be closed or free for a trial.
func (u *Upstream) EligibleIn(s State, now Moment) bool {
	return u.Health.now() == s && !u.ending.retiring.Load() && !u.ending.leaving.Load() &&
		u.mode.now() == ModeReady && u.Breaker.passes(now)
}

// EligibleFor is EligibleIn for a call of the key with that id. If the key's failures opened the
// breaker, its call may not be the half-open trial.
func (u *Upstream) EligibleFor(key string, s State, now Moment) bool {
	return u.EligibleIn(s, now) && !u.Breaker.Bars(key)
}

// returns() clears the bad record of an engine that may have been restarted.
func (u *Upstream) returns() {
	u.penalty.clear()
	u.Models.mu.Lock()
	defer u.Models.mu.Unlock()
	for _, m := range u.Models.entries {
		m.lacking.clear(m)
	}
}

// Limits returns the configured or learned slots, before ghosts are subtracted.
func (u *Upstream) Limits() Limits { return u.slots.limits.Load().Limits }

// NextChance estimates how long it takes until a call for the served name may go here: 0 if a call
// may go now, an hour if no chance is in sight.
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

// ModelGone records that the engine answered a call with a 404 about f.Served. A probe starts at
// once. Only this name leaves the upstream. The name stays if f is the only source and the engine
// listed the name after an earlier 404, or never listed it. The name returns when a later reading
// of the list has it, or after 30 s if the engine has no list or an incomplete one.
func (u *Upstream) ModelGone(f FailureSource) {
	now := time.Now()
	u.Health.Note(CauseModelGone, "", 404, now)
	u.Models.gone(f, now)
	u.probing.kick()
}
