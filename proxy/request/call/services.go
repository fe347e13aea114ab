package call

import (
	"net"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/access/limit"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/request/hook"
	"penstock/proxy/request/participant"
	"penstock/proxy/request/poison"
	"penstock/proxy/request/retry"
	"penstock/proxy/request/shadow"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/observe"
	"penstock/translate/chat"
	"penstock/translate/seal"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// Services are shared by all calls. A call accesses the rest of the edge only through its Services.
type Services struct {
	Log     *zap.Logger
	Guard   *guard.Guard
	Current func() *snapshot.Snapshot

	Bodies   *limit.MemoryBudget
	Replies  *limit.MemoryBudget
	Retries  *limit.RetryBudget
	Poison   *poison.BodyTracker
	Features []participant.Feature // features that may take part in calls; see package participant
	Hooks    *hook.Client
	Calls    *observe.Calls
	Tracer   *observe.Tracer // nil if tracing is off
	Counters Counters

	// ServeNext serves the next requests on a connection whose stream left fasthttp and has ended,
	// or that was parked while it was idle. It closes the connection at the end.
	ServeNext func(net.Conn) error

	formats      endpoint.RequestFormatCache
	refusals     engineRefusals
	featureCache configFeatureCache
	saltWarned   sync.Map // engine profiles without salts for which a warning was logged
}

// Counters counts events that the call records do not cover.
type Counters struct {
	Retried, RetriesDenied, Refits            *metrics.Counter
	Resumed, ResumedPrompt                    *metrics.Counter
	movedVanished, movedStalled, movedDrained *metrics.Counter
	effortRemoved, turnsJoined                *metrics.Counter
	Seals                                     func(seal.Result)
}

// countSentElsewhere counts a step to another engine. It also counts the step if the call is still
// waiting for a slot there.
func (c *Counters) countSentElsewhere(step retry.Step, f *failure.Failure) {
	switch {
	case step == retry.StepLongerContext:
		c.Refits.Inc()
	case step != retry.StepMove:
	case f.Outcome == upstreams.OutcomeStalled:
		c.movedStalled.Inc()
	case f.Outcome == upstreams.OutcomeHandedOver:
		c.movedDrained.Inc()
	default:
		c.movedVanished.Inc()
	}
}

// NewCounters registers the counters in set.
func NewCounters(set *metrics.Set) Counters {
	var seals [seal.ResultCount]*metrics.Counter
	for r := range seal.ResultCount {
		seals[r] = set.NewCounter(`penstock_reasoning_seals_total{result="` + r.String() + `"}`)
	}
	return Counters{
		Seals:         func(r seal.Result) { seals[r].Inc() },
		Retried:       set.NewCounter("penstock_retries_total"),
		RetriesDenied: set.NewCounter("penstock_retries_denied_total"),
		movedVanished: set.NewCounter(`penstock_calls_moved_total{reason="vanished"}`),
		movedStalled:  set.NewCounter(`penstock_calls_moved_total{reason="stalled"}`),
		movedDrained:  set.NewCounter(`penstock_calls_moved_total{reason="drained"}`),
		Resumed:       set.NewCounter("penstock_streams_resumed_total"),
		ResumedPrompt: set.NewCounter("penstock_resumed_prompt_tokens_total"),
		Refits:        set.NewCounter("penstock_max_tokens_refits_total"),
		effortRemoved: set.NewCounter(`penstock_requests_changed_total{refused="effort"}`),
		turnsJoined:   set.NewCounter(`penstock_requests_changed_total{refused="adjacent_turns"}`),
	}
}

// NewShadows returns the feature that copies calls to the engines of other models. The shadows use
// the same formats and refusals as the calls.
func (s *Services) NewShadows() *shadow.Shadows {
	return shadow.New(shadow.Options{
		Guard: s.Guard, Replies: s.Replies, Calls: s.Calls, Formats: &s.formats, Changes: &s.refusals, Salt: s.promptSalt,
	})
}

// ForgetProfiles drops the cached properties of engine profiles, because a reload may change the
// profiles.
func (s *Services) ForgetProfiles() {
	s.formats.Clear()
	s.saltWarned.Clear()
}

func (s *Services) spendRetryBudget(budget config.Percent) bool {
	if !s.Retries.TakeRetry(time.Now(), budget) {
		s.Counters.RetriesDenied.Inc()
		return false
	}
	s.Counters.Retried.Inc()
	return true
}

// An engine that has processed a prompt answers the next prompt with the same prefix faster, and
// reports the reused tokens as cached_tokens. A client can therefore guess a prefix and test
// whether another client has sent that prefix. If a model's prompt_cache is per_key, each key or
// cache group has a separate cache. The edge then sends a salt to the engine, and prefix affinity
// separates the prompts of different owners.

// promptSalt returns the salt that separates an owner's prompts from those of other owners at an
// engine. If the engine does not support salts, promptSalt returns a salt without a member name and
// logs a warning once.
func (s *Services) promptSalt(owner string, m *snapshot.Model, u *upstreams.Upstream) chat.CacheSalt {
	if owner == "" {
		return chat.CacheSalt{}
	}
	profile := u.Engine()
	if profile.CacheSalt() == "" {
		s.warnUnsalted(profile, m, u)
	}
	return chat.CacheSalt{Member: profile.CacheSalt(), Owner: owner}
}

func (s *Services) warnUnsalted(profile *engine.Profile, m *snapshot.Model, u *upstreams.Upstream) {
	if _, logged := s.saltWarned.LoadOrStore(profile, nil); !logged {
		s.Log.Warn("keys share the prompt cache of an engine that cannot keep them apart",
			zap.String("model", m.Config.ID), zap.String("upstream", u.Label()), zap.String("engine", profile.Name()))
	}
}
