package proxy

import (
	"slices"
	"time"

	"penstock/config"
	"penstock/proxy/limit"
	"penstock/routing"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// model is one public model as the request path needs it: its route, its clocks and its rules.
type model struct {
	config    *config.Model
	route     *routing.Route
	clocks    config.Timeouts
	limits    chat.ModelRules
	lowered   chat.ModelRules // limits, for the dialects that lower an effort
	endpoints []string
	queue     *limit.Queue // nil: a full pool is refused at once
}

// crowded reports whether calls wait for the model already: a new call must not overtake them.
func (m *model) crowded() bool { return m.queue != nil && m.queue.Waiting() > 0 }

func (e *Edge) newModel(s *Snapshot, m *config.Model, route *routing.Route) model {
	f := s.Config
	limits := chat.ModelRules{
		Strict:          f.Strict,
		ContextLength:   m.ContextLength,
		MaxOutputLength: m.MaxOutputLength,
		Efforts:         m.SupportedReasoningEfforts,
		Features:        m.SupportedFeatures,
		InputModalities: m.InputModalities,
		ImageHosts:      f.Images.Hosts,
		Refuse:          s.refused,
	}
	if v := m.Vision; v != nil {
		limits.Vision = &chat.VisionLimits{MaxPixels: v.MaxPixels, MaxTokens: v.MaxTokens, ContextLength: v.ContextLength}
	}
	lowered := limits
	lowered.LowerEffort = true
	return model{
		config: m, route: route, limits: limits, lowered: lowered,
		clocks:    m.Timeouts.Over(f.Timeouts),
		queue:     e.queueOf(m),
		endpoints: m.Endpoints(),
	}
}

// serves reports whether the model answers on an endpoint.
func (m *model) serves(ep *endpoint) bool {
	return slices.Contains(m.endpoints, ep.path) || ep.listedAs != "" && slices.Contains(m.endpoints, ep.listedAs)
}

// chatLimits returns the model's rules for a chat request. If the file does not set the context,
// the engines' reports do; the result is then stored in room.
func (m *model) chatLimits(now time.Time, lowerEffort bool, room *chat.ModelRules) *chat.ModelRules {
	limits := &m.limits
	if lowerEffort {
		limits = &m.lowered
	}
	if limits.ContextLength > 0 {
		return limits
	}
	*room = *limits
	room.ContextLength = m.route.ContextLength(now)
	return room
}

// fullRetryAfter is the Retry-After of a refusal for a full pool.
func (m *model) fullRetryAfter(p upstreams.Pool) time.Duration {
	if p == upstreams.PoolVision && m.config.Vision != nil && m.config.Vision.RetryAfterSeconds > 0 {
		return time.Duration(m.config.Vision.RetryAfterSeconds) * time.Second
	}
	return retrySoon
}

// queueOf returns the model's queue, which outlives reloads, or nil when the model has none.
func (e *Edge) queueOf(m *config.Model) *limit.Queue {
	if m.Queue.Depth == 0 {
		return nil
	}
	return e.queues.ForModel(m.ID)
}

// useQueues puts the queues of a snapshot into use.
func (e *Edge) useQueues(s *Snapshot) {
	uses := make([]limit.QueueConfig, 0, len(s.models))
	for i := range s.models {
		if m := &s.models[i]; m.queue != nil {
			uses = append(uses, limit.QueueConfig{Model: m.config.ID, Queue: m.queue, Depth: m.config.Queue.Depth, Route: m.route})
		}
	}
	e.queues.Apply(uses)
}
