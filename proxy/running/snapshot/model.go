package snapshot

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/config/money"
	"penstock/proxy/access/auth"
	"penstock/routing"
	"penstock/routing/queue"
	"penstock/translate/chat"
)

// Model is a public model in the form used by requests.
type Model struct {
	Config       *config.Model
	Route        *routing.Route
	Clocks       config.Timeouts
	Rules        chat.ModelRules
	loweredRules chat.ModelRules // rules for dialects in which an unsupported effort is lowered
	endpoints    []string
	// If nil, calls are rejected immediately when no slot is free.
	Queue  *queue.Queue
	Price  money.Price
	Shadow *Model // model that receives copies of calls; nil if calls are not copied
	// Deprecation and Sunset are the values of the headers with these names. They are nil if no
	// date is configured.
	Deprecation, Sunset []byte
}

// HasWaitingCalls reports whether calls are waiting for the model. A new call must not overtake
// these calls.
func (m *Model) HasWaitingCalls() bool { return m.WaitingCallCount() > 0 }

// WaitingCallCount returns the number of calls in the model's queue.
func (m *Model) WaitingCallCount() int {
	if m.Queue == nil {
		return 0
	}
	return m.Queue.WaitingCallCount()
}

func newModel(s *Snapshot, m *config.Model, route *routing.Route, queues *queue.Queues) Model {
	f := s.Config
	refuse := s.Refused.BySome.WithAllowed(m.AllowMembers...)
	if routing.HasExternalUpstream(route) {
		refuse = refuse.ForHostedEngine()
	}
	limits := chat.ModelRules{
		Strict:          f.Strict,
		ContextLength:   m.ContextLength,
		MaxOutputLength: m.MaxOutputLength,
		Efforts:         m.SupportedReasoningEfforts,
		Features:        m.SupportedFeatures,
		InputModalities: m.InputModalities,
		ImageHosts:      f.Images.Hosts,
		Refuse:          refuse,

		ReasoningHistory: m.ReasoningHistory,
	}
	if v := m.Vision; v != nil {
		limits.Vision = &chat.VisionLimits{
			MaxPixels: v.MaxPixels, MaxTokens: v.MaxTokens,
			ContextLength: v.ContextLength,
		}
	}
	lowered := limits
	lowered.LowerEffort = true
	lowered.ReasoningHistory = cmp.Or(m.ReasoningHistory, config.ReasoningHistoryLoop)
	out := Model{
		Config: m, Route: route, Rules: limits, loweredRules: lowered,
		Clocks:    m.Timeouts.ApplyTo(f.Timeouts),
		Queue:     queueForModel(m, queues),
		Price:     money.ParsePrice(m.Pricing),
		endpoints: m.Endpoints(),
	}
	if at := m.Deprecated; !at.IsZero() {
		// A Date structured field, as defined in RFC 9651.
		out.Deprecation = strconv.AppendInt([]byte{'@'}, at.Unix(), 10)
	}
	if at := m.Sunset; !at.IsZero() {
		out.Sunset = fasthttp.AppendHTTPDate(nil, at)
	}
	return out
}

// ServesEndpoint reports whether the model can be used through the endpoint with the given path.
func (m *Model) ServesEndpoint(path string) bool { return slices.Contains(m.endpoints, path) }

// CacheOwner returns the owner whose cached prompts an engine may use for calls with a key. An
// empty owner means that the engine may use the prompts of all owners. A nil key means a client
// without a key.
func (m *Model) CacheOwner(key *auth.Key) string {
	if key == nil || m.Config.PromptCache != config.PromptCachePerKey {
		return ""
	}
	return key.CacheOwner
}

// ChatRules returns the model's rules for a chat request. If the file does not set the context
// length, ChatRules uses the length reported by the engines, and stores the rules in room.
func (m *Model) ChatRules(now time.Time, lowerEffort bool, room *chat.ModelRules) *chat.ModelRules {
	limits := &m.Rules
	if lowerEffort {
		limits = &m.loweredRules
	}
	if limits.ContextLength > 0 {
		return limits
	}
	*room = *limits
	room.ContextLength = m.Route.ContextLength(now)
	return room
}

// queueForModel returns the model's queue, which survives reloads. If the model has no queue, it
// returns nil.
func queueForModel(m *config.Model, queues *queue.Queues) *queue.Queue {
	if m.Queue.Depth == 0 {
		return nil
	}
	return queues.ForModel(m.ID)
}

// This declaration does not compile if there are more classes than ranks.
var _ [queue.MaxRanks - config.MaxClasses]struct{}
