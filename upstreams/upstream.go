package upstreams

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
)

// Upstream is one engine process (one address of it, with `resolve`): its identity, its settings
// and everything that is known about it. It survives reloads for as long as its ID is configured,
// is used by pointer, never copied, and all of its methods are safe for concurrent use. The methods
// that a pick calls read atomics only and do not allocate.
type Upstream struct {
	id      ID
	name    string // as configured
	label   string // in metrics and logs: the name, and the address where there are several
	url     string // what is dialled
	address string // the resolved address, or empty
	log     *zap.Logger
	set     *Set
	hosts   *http1.HostWatch

	settings atomic.Pointer[settings]
	engine   atomic.Pointer[engine.Profile]
	capacity atomic.Pointer[capacity]

	slots      atomic.Uint64 // in-flight of every pool in one word, see slotUnit
	tokens     [poolCount]atomic.Int64
	ghostSlots atomic.Int64 // slots that ghosts hold; see ghostTracker

	state     atomic.Uint32 // State, without retiring
	retiring  atomic.Bool
	removed   atomic.Bool
	openUntil atomic.Int64             // the breaker lets nothing through before this (ticks), or breakerClosed
	trial     atomic.Bool              // a half-open trial is out
	barred    atomic.Pointer[[]string] // keys whose calls may not be that trial
	doubted   atomic.Bool              // calls failed since the last that went well
	mode      atomic.Uint32
	penalty   atomic.Pointer[decaying]
	returned  atomic.Int64 // when it last came back from down (ticks), for the slow start
	report    atomic.Pointer[Report]
	models    atomic.Pointer[engine.ModelList]
	missing   atomic.Pointer[missingModels]
	nextProbe atomic.Int64 // when it is due (ticks)
	answers   http1.AnswerWatch
	ttft      average // seconds
	perToken  average // bytes a token

	mu            sync.Mutex // guards what follows; held for bookkeeping only, never over I/O
	health        health
	reportedSlots int // the engine's own capacity; 0: not reported
	ghosts        ghostTracker
	failure       *LastFailure
	check         *LastCheck
	stateChanged  time.Time // when the state last changed
	modeChanged   time.Time // when the mode last changed; zero: never
	servedModels  map[string]*ServedModel
	flaps         map[string]flaps // by served name
	prober        *prober
	generator     generator
	// trialTimer calls retrial or probeTrial; nil before the breaker has opened.
	trialTimer *time.Timer
	probedAt   time.Time
	probed     chan struct{} // closed after the first probe
	transport  atomic.Pointer[http1.Transport]

	metrics    *metrics.Set // guarded by the set's mutex, as is registered
	registered bool
	attempts   [outcomeCount]*metrics.Counter
	abandoned  [fateCount]*metrics.Counter
	generated  [engine.GenerationCount]*metrics.Counter
}

// settings are what a reload may change without making another upstream of it.
type settings struct {
	spec      config.Upstream
	weight    float64
	transport transportConfig // what the transports are made from
	probe     probeSettings
	expected  []string          // served names that routes send here
	kinds     map[string]string // their models' kinds
}

// ID identifies an upstream: its configured name, its normalised base URL and, where a name stands
// for several addresses, the address. It is a label for logs and metrics and a key of maps; nothing
// parses it.
type ID string

// ID returns the upstream's identity: name, normalised URL and, with `resolve`, the address.
func (u *Upstream) ID() ID { return u.id }

// Name returns the configured name. Upstreams that differ only in their resolved address share it.
func (u *Upstream) Name() string { return u.name }

// Label returns the name of this upstream in metrics and logs, which no other upstream has.
func (u *Upstream) Label() string { return u.label }

// APIKey returns the credential that the engine gets with each request, so that it can be kept out of
// what the engine says.
func (u *Upstream) APIKey() string { return u.settings.Load().spec.APIKey.Value() }

// URL returns the base URL that is dialled, without a credential.
func (u *Upstream) URL() string { return u.url }

// Engine returns the profile in force. With `engine: auto` that is the generic one until the first
// detection. Never nil.
func (u *Upstream) Engine() *engine.Profile { return u.engine.Load() }

// Native reports whether the operator lets a dialect ("messages", "responses") through to this
// engine untranslated.
func (u *Upstream) Native(dialect string) bool {
	return slices.Contains(u.settings.Load().spec.Native, dialect)
}

// State returns where in its life the upstream is.
func (u *Upstream) State() State {
	if u.retiring.Load() {
		return StateRetiring
	}
	return State(u.state.Load())
}

// Breaker returns the breaker's position now.
func (u *Upstream) Breaker(now time.Time) Breaker {
	switch until := u.openUntil.Load(); {
	case until == breakerClosed:
		return BreakerClosed
	case ticks(now) < until:
		return BreakerOpen
	}
	return BreakerHalfOpen
}

// Eligible reports whether a call may be sent here now: up, not retiring, and the breaker closed or
// free for a trial.
func (u *Upstream) Eligible(now time.Time) bool { return u.EligibleIn(StateUp, At(now)) }

// EligibleIn is Eligible for an upstream in a given state: up, or pending, which means that it has
// not been probed yet. A route falls back on pending ones when none of its upstreams is up, so that
// the first requests after a start are served.
func (u *Upstream) EligibleIn(s State, now Moment) bool {
	return State(u.state.Load()) == s && !u.retiring.Load() && u.passes(now)
}

// EligibleFor is EligibleIn for a call of the key with that id, which may not be a half-open
// breaker's trial if its failures opened it.
func (u *Upstream) EligibleFor(key string, s State, now Moment) bool {
	return u.EligibleIn(s, now) && !u.Bars(key)
}

// Bars reports whether the calls of a key may not be the trial of the breaker, which is open or
// half-open.
func (u *Upstream) Bars(key string) bool {
	if u.openUntil.Load() == breakerClosed {
		return false
	}
	barred := u.barred.Load()
	return barred != nil && slices.Contains(*barred, key)
}

// Doubted reports whether calls have failed here since the last success. The hash of a call's body
// is worth keeping then, as evidence in case that it fails, too.
func (u *Upstream) Doubted() bool { return u.doubted.Load() }

// NextChance returns how long it will be, as far as can be foreseen, until a call for the served
// name may go here: 0 when one may now. It is an hour where nothing is in sight.
func (u *Upstream) NextChance(served string, now time.Time) time.Duration {
	until := ticks(now)
	switch s := u.State(); {
	case s == StateRetiring, u.Mode() != ModeReady:
		return time.Hour
	case s == StateDown:
		until = u.nextProbe.Load() + int64(u.settings.Load().probe.rise-1)*int64(returnPause)
	case s == StatePending, !u.Serves(served):
		until = u.nextProbe.Load()
	}
	if breaker := u.openUntil.Load(); breaker != breakerClosed {
		until = max(until, breaker)
	}
	return max(0, time.Duration(until-ticks(now)))
}

// passes reports whether the operator lets calls in, and the breaker.
func (u *Upstream) passes(now Moment) bool {
	if u.Mode() != ModeReady {
		return false
	}
	until := u.openUntil.Load()
	return until == breakerClosed || int64(now) >= until && !u.trial.Load()
}

// breakerClosed is the openUntil of a closed breaker.
const breakerClosed = math.MinInt64

// Moment is a time as a pick compares it: nanoseconds on the monotonic clock since the program
// began, so that a step of the wall clock holds no breaker open.
type Moment int64

var epoch = time.Now()

// At returns the moment of a time.
func At(t time.Time) Moment { return Moment(t.Sub(epoch)) }

func ticks(t time.Time) int64 { return int64(At(t)) }

// observe books a finished lease: breaker, passive health, penalty, metrics. It reports whether a
// generation probe is to confirm that the engine fails.
func (u *Upstream) observe(o Outcome, by FailureSource, trial bool, now time.Time) (generate bool) {
	u.attempts[o].Inc()
	if o.failed() || o == OutcomeRefused {
		u.charge(At(now))
	}
	look, generate := u.judge(o, by, trial, now)
	if look != nil {
		look.kick()
	}
	return generate
}

// judge feeds an outcome to the health machine. It returns the prober when that is to look, and
// whether a generation probe is to be sent.
func (u *Upstream) judge(o Outcome, by FailureSource, trial bool, now time.Time) (look *prober, generate bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if trial {
		defer u.trial.Store(false)
	}
	if o == OutcomeClientGone || o == OutcomeTimeout {
		u.ghosts.abandon()
	}
	if o.failed() {
		u.generator.served, u.generator.limit = by.Served, by.Limit
	}
	before := u.health.state
	advice := u.health.outcome(o, by, trial, now)
	u.publish(before, "calls fail", now)
	if advice.look {
		look = u.prober
	}
	if !advice.generate {
		u.probeDoubtLater()
	}
	return look, advice.generate
}

// publish copies the health machine's verdict to the atomics and logs a change. The caller holds
// mu.
func (u *Upstream) publish(before State, cause string, now time.Time) {
	h := &u.health
	if doubted := h.failures > 0; doubted != u.doubted.Load() {
		u.doubted.Store(doubted)
	}
	if h.state != before {
		if h.state == StateUp && before == StateDown {
			u.penalty.Store(nil)
			u.returned.Store(ticks(now))
		}
		u.stateChanged = now
		u.state.Store(uint32(h.state))
		u.log.Info("upstream changed state", zap.String("upstream", u.label), zap.Stringer("from", before), zap.Stringer("to", h.state), zap.String("cause", cause))
		u.set.o.OnRoom(u)
	}
	until, was := int64(breakerClosed), u.openUntil.Load()
	if h.open {
		until = ticks(h.openUntil)
	}
	if h.open || was != breakerClosed {
		barred := h.barred // a copy: the machine replaces its own
		u.barred.Store(&barred)
	}
	if until == was {
		return
	}
	u.openUntil.Store(until)
	if u.trialTimer != nil {
		u.trialTimer.Stop()
	}
	if h.open {
		u.trialTimer = time.AfterFunc(h.openUntil.Sub(now), u.retrial)
	}
	u.set.o.OnRoom(u)
	if (until == breakerClosed) != (was == breakerClosed) {
		u.log.Info("upstream breaker", zap.String("upstream", u.label), zap.Bool("open", h.open), zap.String("cause", cause))
	}
}

// retrial wakes waiting calls: one of them may now be the breaker's trial.
func (u *Upstream) retrial() {
	defer u.set.o.Guard.Catch(guardRoom, nil)
	defer u.probeTrialLater()
	u.set.o.Guard.Point(guardRoom)
	u.set.o.OnRoom(u)
}

// LastFailure is the newest thing that went wrong, for the state page.
type LastFailure struct {
	At     time.Time `json:"at"`
	During string    `json:"during"` // probe, call
	Reason string    `json:"reason"` // a failure's reason or an outcome, never text of a client's or an engine's
	Status int       `json:"status,omitempty"`
}

// Note records what a call failed of, for the state page: a Failure's reason or an outcome's name,
// and the status that the engine answered with, 0 when it did not.
func (u *Upstream) Note(reason string, status int, now time.Time) {
	u.mu.Lock()
	u.failure = &LastFailure{At: now, During: "call", Reason: reason, Status: status}
	u.mu.Unlock()
}

// BytesPerToken returns how many bytes of prompt text make a token here, learned from the usage
// that the engine reports; 0 when it has reported none yet.
func (u *Upstream) BytesPerToken() float64 { return u.perToken.value(0) }

// usualBytesPerToken is where learning starts: English text in the tokens of most models.
const usualBytesPerToken = 4

// LearnTokens feeds BytesPerToken with one call's prompt: its bytes of text and the tokens that the
// engine counted.
func (u *Upstream) LearnTokens(bytes, tokens int) {
	if bytes > 0 && tokens > 0 {
		u.perToken.learn(min(32, max(0.25, float64(bytes)/float64(tokens))), usualBytesPerToken, 0.05)
	}
}

// TTFT returns the moving average of the time to first token, 0 before the first.
func (u *Upstream) TTFT() time.Duration { return time.Duration(u.ttft.value(0) * float64(time.Second)) }

// average is an exponentially weighted moving average that any goroutine may feed. The zero value
// knows nothing yet.
type average struct{ bits atomic.Uint64 }

func (a *average) value(unknown float64) float64 {
	if b := a.bits.Load(); b != 0 {
		return math.Float64frombits(b)
	}
	return unknown
}

// learn moves the average toward v by weight, starting from start (from v itself when start is 0).
func (a *average) learn(v, start, weight float64) {
	for {
		old := a.bits.Load()
		from := math.Float64frombits(old)
		if old == 0 {
			if from = start; start == 0 {
				from = v
			}
		}
		if a.bits.CompareAndSwap(old, math.Float64bits(from+(v-from)*weight)) {
			return
		}
	}
}
