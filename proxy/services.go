package proxy

import (
	"net"
	"sync"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/guard"
	"penstock/proxy/limit"
	"penstock/proxy/observe"
	"penstock/proxy/snapshot"
	"penstock/translate/chat"
	"penstock/upstreams/engine"
)

// Services are what all calls share. The edge makes them once; a call gets them when it begins and
// knows nothing else of the edge.
type Services struct {
	Log     *zap.Logger
	Guard   *guard.Guard
	Current func() *snapshot.Snapshot // the running configuration

	Bodies   *limit.Memory // for request bodies
	Replies  *limit.Memory // for engines' replies
	Retries  *limit.Retries
	Calls    *observe.Calls
	Tracer   *observe.Tracer // nil: traces are off
	Counters CallCounters

	// ServeNext serves the requests that follow on the connection of a stream that had left
	// fasthttp, and closes the connection.
	ServeNext func(net.Conn) error

	poison   *poisonRequests
	formats  sync.Map // *engine.Profile → chat.EngineFormat
	unsalted sync.Map // *engine.Profile of engines that the log was told cannot keep keys' prompts apart
}

// CallCounters count events of calls that their records do not have.
type CallCounters struct{ Retried, RetriesDenied, Refits, Moved *metrics.Counter }

// NewCallCounters registers the counters in set.
func NewCallCounters(set *metrics.Set) CallCounters {
	return CallCounters{
		Retried:       set.NewCounter("penstock_retries_total"),
		RetriesDenied: set.NewCounter("penstock_retries_denied_total"),
		Moved:         set.NewCounter(`penstock_calls_moved_total{reason="vanished"}`),
		Refits:        set.NewCounter("penstock_max_tokens_refits_total"),
	}
}

// Forget drops what is remembered of engines' profiles, which are others after a reload.
func (s *Services) Forget() {
	s.formats.Clear()
	s.unsalted.Clear()
}

// engineFormat returns how an engine wants a chat request, without the served name. It is computed
// once for each profile.
func (s *Services) engineFormat(p *engine.Profile) chat.EngineFormat {
	if t, ok := s.formats.Load(p); ok {
		return *t.(*chat.EngineFormat)
	}
	effort, words, off, on := p.ReasoningForm()
	t := &chat.EngineFormat{
		TokenMember:     p.TokenLimitMember(),
		ContinuousUsage: p.Has(config.QuirkContinuousUsage),
		Reasoning:       &chat.ReasoningFormat{Effort: effort, Words: words, Off: members(off), On: members(on)},
		Prefill:         members(p.Prefill()),

		DeveloperAsSystem: p.Has(config.QuirkDeveloperAsSystem),
	}
	s.formats.Store(p, t)
	return *t
}

func members(in []engine.Member) []chat.Member {
	out := make([]chat.Member, len(in))
	for i, m := range in {
		out[i] = chat.Member(m)
	}
	return out
}
