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
	"penstock/proxy/request/shadow"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/observe"
	"penstock/translate/chat"
	"penstock/translate/seal"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// Services holds what all calls share. The edge creates it once. A call has no other access to the
// edge.
type Services struct {
	Log     *zap.Logger
	Guard   *guard.Guard
	Current func() *snapshot.Snapshot // the running configuration

	Bodies   *limit.Memory // for request bodies
	Replies  *limit.Memory // for engines' replies
	Retries  *limit.Retries
	Poison   *poison.Requests
	Features []participant.Feature // what takes part in calls; see package participant
	Hooks    *hook.Client
	Calls    *observe.Calls
	Tracer   *observe.Tracer // nil: traces are off
	Counters Counters

	// ServeNext serves further requests on a connection whose stream had left fasthttp, and then
	// closes the connection.
	ServeNext func(net.Conn) error

	formats    endpoint.Formats
	refusals   refusals
	used       features
	saltWarned sync.Map // engine profiles without salts that were warned about
}

// Counters holds counters of events that are not in the records of calls.
type Counters struct {
	Retried, RetriesDenied, Refits *metrics.Counter
	Resumed, ResumedPrompt         *metrics.Counter
	vanished, stalled, drained     *metrics.Counter
	withoutEffort, withoutTurns    *metrics.Counter
	Seals                          func(seal.Result) // counts one result
}

// moved returns the counter of calls that leave an engine after a failure of f's kind.
func (c *Counters) moved(f *failure.Failure) *metrics.Counter {
	switch f.Outcome {
	case upstreams.OutcomeStalled:
		return c.stalled
	case upstreams.OutcomeHandedOver:
		return c.drained
	default:
		return c.vanished
	}
}

// NewCounters registers the counters in set.
func NewCounters(set *metrics.Set) Counters {
	var seals [seal.Results]*metrics.Counter
	for r := range seal.Results {
		seals[r] = set.NewCounter(`penstock_reasoning_seals_total{result="` + r.String() + `"}`)
	}
	return Counters{
		Seals:         func(r seal.Result) { seals[r].Inc() },
		Retried:       set.NewCounter("penstock_retries_total"),
		RetriesDenied: set.NewCounter("penstock_retries_denied_total"),
		vanished:      set.NewCounter(`penstock_calls_moved_total{reason="vanished"}`),
		stalled:       set.NewCounter(`penstock_calls_moved_total{reason="stalled"}`),
		drained:       set.NewCounter(`penstock_calls_moved_total{reason="drained"}`),
		Resumed:       set.NewCounter("penstock_streams_resumed_total"),
		ResumedPrompt: set.NewCounter("penstock_resumed_prompt_tokens_total"),
		Refits:        set.NewCounter("penstock_max_tokens_refits_total"),
		withoutEffort: set.NewCounter(`penstock_requests_changed_total{refused="effort"}`),
		withoutTurns:  set.NewCounter(`penstock_requests_changed_total{refused="adjacent_turns"}`),
	}
}

// NewShadows returns the feature that copies calls to other models' engines. It shares with the calls
// what is known about engines.
func (s *Services) NewShadows() *shadow.Shadows {
	return shadow.New(shadow.Options{
		Guard: s.Guard, Replies: s.Replies, Calls: s.Calls, Formats: &s.formats, Changes: &s.refusals, Salt: s.salt,
	})
}

// Forget drops what the services remember about engines' profiles, because a reload may change
// them.
func (s *Services) Forget() {
	s.formats.Forget()
	s.saltWarned.Clear()
}

// takeRetry takes a retry from the budget of all calls. It counts the retry, or the refusal.
func (s *Services) takeRetry(budget config.Percent) bool {
	if !s.Retries.Allow(time.Now(), budget) {
		s.Counters.RetriesDenied.Inc()
		return false
	}
	s.Counters.Retried.Inc()
	return true
}

// An engine that has read a prompt answers the next prompt with the same prefix sooner, and reports
// cached_tokens. A client that guesses a prefix can thus learn whether another client has sent it.
// If a model's prompt_cache is per_key, each key has a separate cache, or shares one with the keys
// of its group. To that end the edge sends the engine a salt, and prefix affinity keeps the prompts
// of different owners apart.

// salt returns the salt that keeps an owner's prompts apart at an engine. For an engine that does
// not support salts, it returns a salt without a member name and logs a warning once.
func (s *Services) salt(owner string, m *snapshot.Model, u *upstreams.Upstream) chat.Salt {
	if owner == "" {
		return chat.Salt{}
	}
	profile := u.Engine()
	if profile.CacheSalt() == "" {
		s.warnUnsalted(profile, m, u)
	}
	return chat.Salt{Member: profile.CacheSalt(), Owner: owner}
}

func (s *Services) warnUnsalted(profile *engine.Profile, m *snapshot.Model, u *upstreams.Upstream) {
	if _, logged := s.saltWarned.LoadOrStore(profile, nil); !logged {
		s.Log.Warn("keys share the prompt cache of an engine that cannot keep them apart",
			zap.String("model", m.Config.ID), zap.String("upstream", u.Label()), zap.String("engine", profile.Name()))
	}
}
