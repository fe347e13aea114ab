package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"penstock/config"
)

// These are the operations for which a profile has a path, in addition to config's key operations.
const (
	OpCompletions = "completions"
	OpCountTokens = "count_tokens"
	OpImageEdits  = "image_edits"
	OpDetokenize  = "detokenize"
)

// defaultPaths are the usual paths of operations. Other operations have a path only if the
// engine's profile names one.
var defaultPaths = map[string]string{
	config.OpChat:           "/v1/chat/completions",
	OpCompletions:           "/v1/completions",
	config.OpMessages:       "/v1/messages",
	config.OpResponses:      "/v1/responses",
	config.OpTranscriptions: "/v1/audio/transcriptions",
	config.OpSpeech:         "/v1/audio/speech",
	config.OpEmbeddings:     "/v1/embeddings",
	config.OpRerank:         "/v1/rerank",
	config.OpImages:         "/v1/images/generations",
	OpImageEdits:            "/v1/images/edits",
	config.OpModerations:    "/v1/moderations",
}

// Profile is a compiled engine profile. A Profile is immutable, and all upstreams with this engine
// share it. Slices and maps that its methods return are shared and must not be modified.
type Profile struct {
	spec    config.Engine
	paths   map[string]string
	on, off []Member
	prefill []Member
}

// Member is one member to add to a request: its name and its value as JSON.
type Member struct {
	Name  string
	Value []byte
}

// HealthPage is the page that shows whether the engine is alive.
type HealthPage struct {
	Path      string
	Timeout   time.Duration // 0: not set by the profile
	AnyStatus bool          // every answer below 500 is good
}

// Good reports whether a status shows a live engine.
func (h HealthPage) Good(status int) bool {
	return status/100 == 2 || h.AnyStatus && status >= 200 && status < 500
}

func newProfile(e *config.Engine) (*Profile, error) {
	if problems := e.Problems(); len(problems) > 0 {
		return nil, fmt.Errorf("engine profile %q: %s", e.Name, strings.Join(problems, "; "))
	}
	p := &Profile{spec: *e, paths: maps.Clone(defaultPaths)}
	maps.Copy(p.paths, e.Paths)
	var err error
	if p.off, err = members(e.Reasoning.Off); err == nil {
		p.on, err = members(e.Reasoning.On)
	}
	if err != nil {
		return nil, fmt.Errorf("engine profile %q: reasoning: %w", e.Name, err)
	}
	if p.prefill, err = members(e.Prefill); err != nil {
		return nil, fmt.Errorf("engine profile %q: prefill: %w", e.Name, err)
	}
	return p, nil
}

func members(m map[string]any) ([]Member, error) {
	out := make([]Member, 0, len(m))
	// sorted, so that all calls send the members in the same order
	for _, name := range slices.Sorted(maps.Keys(m)) {
		value, err := json.Marshal(m[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, Member{name, value})
	}
	return out, nil
}

// Name returns the word for a config's `engine`.
func (p *Profile) Name() string { return p.spec.Name }

// Title returns the engine's name for people.
func (p *Profile) Title() string {
	if p.spec.Title == "" {
		return p.spec.Name
	}
	return p.spec.Title
}

// Path returns the path of an operation (config.OpChat and the like, OpCompletions,
// OpCountTokens, OpImageEdits, OpDetokenize). It is empty if this engine is known to lack the
// operation.
func (p *Profile) Path(op string) string { return p.paths[op] }

// KeepAlive returns the time for which the edge may keep an idle connection. The engine itself
// closes idle connections later than that.
func (p *Profile) KeepAlive() time.Duration { return p.spec.KeepAlive.D() }

// TokenLimitMember returns the request member from which the engine reads a token limit: max_tokens
// or max_completion_tokens. It is empty if the engine reads both; the client's member then stays.
func (p *Profile) TokenLimitMember() string {
	if p.spec.TokenLimit == config.TokenLimitAsSent {
		return ""
	}
	return p.spec.TokenLimit
}

// Prefill lists the members to add to a request whose last message is the start of the answer. It
// is empty for an engine that always or never continues the answer.
func (p *Profile) Prefill() []Member { return p.prefill }

// ContinuesAnswers reports whether the engine is known to continue an answer that starts in the
// request, by itself or with the members of Prefill.
func ContinuesAnswers(p *Profile) bool {
	return len(p.prefill) > 0 || p.Has(config.QuirkContinuesAnswers)
}

// CacheSalt returns the request member that keeps cached prompts apart; empty if the engine has
// none.
func (p *Profile) CacheSalt() string { return p.spec.CacheSalt }

// PriorityOrder returns config.PriorityLowerFirst or PriorityHigherFirst, depending on which values
// of a request's priority an engine serves first. It is empty if the engine ignores priorities.
func PriorityOrder(p *Profile) string { return p.spec.Priority }

// Forms describes the forms that the engine needs for parts of a request. Other engines accept
// these parts in any form. The words are those of config.Engine.
type Forms struct{ ToolChoice, ResponseFormat, NullContent, AdjacentTurns string }

// Forms returns how the engine reads tool_choice, response_format, messages without content and
// consecutive turns of one role.
func (p *Profile) Forms() Forms {
	return Forms{p.spec.ToolChoice, p.spec.ResponseFormat, p.spec.NullContent, p.spec.AdjacentTurns}
}

// RefusedMembers lists the request members that must be refused because they control the engine
// rather than the model. A name that ends in * is a prefix, and outer.inner names a member of the
// object outer.
func (p *Profile) RefusedMembers() []string { return p.spec.Refused }

// ClientFault reports whether a 5xx answer is known to be the client's fault. The call is then
// answered with 400, never retried and never counted against the upstream. errorType and message
// come from the engine's error body. Either may be empty.
func (p *Profile) ClientFault(status int, errorType, message string) bool {
	return matches(p.spec.ClientFaults, status, errorType, message)
}

// Overload reports whether an answer means that the engine is full rather than broken. The call's
// outcome is then OutcomeRefused.
func (p *Profile) Overload(status int, errorType, message string) bool {
	return matches(p.spec.Overloads, status, errorType, message)
}

// NotNow reports whether the same request may get a different answer a moment later.
func (p *Profile) NotNow(status int, errorType, message string) bool {
	return matches(p.spec.NotNow, status, errorType, message)
}

// matches reports whether an answer is one of these errors.
func matches(all []config.EngineError, status int, errorType, message string) bool {
	return slices.ContainsFunc(all, func(e config.EngineError) bool {
		if e.Status != status || e.Type != "" && e.Type != errorType || e.Silent && (errorType != "" || message != "") {
			return false
		}
		inMessage := func(part string) bool { return strings.Contains(message, part) }
		return len(e.Messages) == 0 || slices.ContainsFunc(e.Messages, inMessage)
	})
}

// Reasoning describes how a request sets the reasoning effort, in reasoning_effort, and which member
// holds the reasoning of earlier turns.
type Reasoning struct {
	Words   []string // accepted words; empty: none, low, medium, high and xhigh
	Off, On []Member // members that switch reasoning off ("none") or on
	History string   // member of an assistant's message; empty: the engine reads no history
}

// Reasoning describes how to control the engine's reasoning.
func (p *Profile) Reasoning() Reasoning {
	r := &p.spec.Reasoning
	out := Reasoning{Words: r.Words, Off: p.off, On: p.on, History: r.History}
	if out.History == config.HistoryUnread {
		out.History = ""
	}
	return out
}

// Has reports whether the engine has a quirk (config.QuirkOwnHost and the like).
func (p *Profile) Has(quirk string) bool { return slices.Contains(p.spec.Quirks, quirk) }

// Quirks lists the profile's quirks by name, in the order of the profile.
func (p *Profile) Quirks() []string { return p.spec.Quirks }

// Health returns the page that shows whether the engine is alive.
func (p *Profile) Health() HealthPage {
	h := &p.spec.Health
	return HealthPage{Path: h.Path, Timeout: h.Timeout.D(), AnyStatus: h.Alive == config.AliveAny}
}

// ModelsPage returns the page that lists the engine's models; empty: it has none.
func (p *Profile) ModelsPage() string {
	if len(p.spec.Models) == 0 {
		return ""
	}
	return p.spec.Models[0].Path
}

// The sources of the assumed slot count.
const (
	SlotsReported  = "engine"
	SlotsOfProfile = "profile"
	SlotsDefault   = "default"
)

// defaultSlots is the assumed number of concurrent requests if neither the engine nor its profile
// has a number.
const defaultSlots = 16

// maxSlots is the highest number that an upstream can count.
const maxSlots = 1<<21 - 1

// Slots returns the number of requests that the engine is assumed to run at once, and the source of
// that number. reported is the engine's own number; 0: none.
func (p *Profile) Slots(reported int) (n int, source string) {
	switch {
	case reported > 0:
		return min(reported, maxSlots), SlotsReported
	case p.spec.Concurrency > 0 && p.Name() != genericName:
		return min(p.spec.Concurrency, maxSlots), SlotsOfProfile
	}
	return defaultSlots, SlotsDefault
}
