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

// Operations for which a profile may have a path, in addition to those of package config.
const (
	OpCompletions = "completions"
	OpCountTokens = "count_tokens"
	OpImageEdits  = "image_edits"
	OpDetokenize  = "detokenize"
)

// defaultPaths contains the usual paths of operations. Other operations have a path only if the
// profile sets it.
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

// Profile is a compiled engine profile. It is immutable and shared by all upstreams with this
// engine. Callers must not modify the slices and maps that its methods return.
type Profile struct {
	spec                      config.Engine
	paths                     map[string]string
	reasoningOn, reasoningOff []RequestMember
	prefill                   []RequestMember
}

// RequestMember is a member to add to a request, with its value as JSON.
type RequestMember struct {
	Name  string
	Value []byte
}

// HealthPage describes an engine's health page.
type HealthPage struct {
	Path      string
	Timeout   time.Duration // 0 if the profile sets no timeout
	AnyStatus bool          // every status below 500 is healthy
}

// IsHealthy reports whether a status is healthy.
func (h HealthPage) IsHealthy(status int) bool {
	return status/100 == 2 || h.AnyStatus && status >= 200 && status < 500
}

func newProfile(e *config.Engine) (*Profile, error) {
	if problems := e.Problems(); len(problems) > 0 {
		return nil, fmt.Errorf("engine profile %q: %s", e.Name, strings.Join(problems, "; "))
	}
	p := &Profile{spec: *e, paths: maps.Clone(defaultPaths)}
	maps.Copy(p.paths, e.Paths)
	var err error
	if p.reasoningOff, err = sortedMembers(e.Reasoning.Off); err == nil {
		p.reasoningOn, err = sortedMembers(e.Reasoning.On)
	}
	if err != nil {
		return nil, fmt.Errorf("engine profile %q: reasoning: %w", e.Name, err)
	}
	if p.prefill, err = sortedMembers(e.Prefill); err != nil {
		return nil, fmt.Errorf("engine profile %q: prefill: %w", e.Name, err)
	}
	return p, nil
}

func sortedMembers(m map[string]any) ([]RequestMember, error) {
	out := make([]RequestMember, 0, len(m))
	// Sort the names, so that all calls contain the members in the same order.
	for _, name := range slices.Sorted(maps.Keys(m)) {
		value, err := json.Marshal(m[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, RequestMember{name, value})
	}
	return out, nil
}

// Name returns the profile's name in the configuration's `engine`.
func (p *Profile) Name() string { return p.spec.Name }

// Title returns the engine's display name.
func (p *Profile) Title() string {
	if p.spec.Title == "" {
		return p.spec.Name
	}
	return p.spec.Title
}

// Path returns the path of an operation, such as config.OpChat or OpCompletions. It returns "" if
// the engine lacks the operation.
func (p *Profile) Path(op string) string { return p.paths[op] }

// KeepAlive returns how long the edge may keep an idle connection. It is shorter than the engine's
// own idle timeout.
func (p *Profile) KeepAlive() time.Duration { return p.spec.KeepAlive.D() }

// TokenLimitMember returns the request member for the token limit: max_tokens or
// max_completion_tokens. It returns "" if the engine accepts both, so that the client's member can
// stay.
func (p *Profile) TokenLimitMember() string {
	if p.spec.TokenLimit == config.TokenLimitAsSent {
		return ""
	}
	return p.spec.TokenLimit
}

// PrefillMembers returns the members to add to a request whose last message is the start of the
// response. It returns nil if the engine always continues such a message, or never does.
func (p *Profile) PrefillMembers() []RequestMember { return p.prefill }

// ContinuesAnswers reports whether the engine can continue a response whose start the request
// contains. Some engines do so by default, and others only with PrefillMembers.
func ContinuesAnswers(p *Profile) bool {
	return len(p.prefill) > 0 || p.HasQuirk(config.QuirkContinuesAnswers)
}

// CacheSalt returns the request member that separates the cached prompts of different clients, or
// "" if the engine has no such member.
func (p *Profile) CacheSalt() string { return p.spec.CacheSalt }

// PriorityOrder returns the order in which the engine serves priorities: config.PriorityLowerFirst
// or config.PriorityHigherFirst. It returns "" if the engine ignores priorities.
func PriorityOrder(p *Profile) string { return p.spec.Priority }

// RequestForms describes the forms in which the engine accepts parts of a request. The values are defined
// in config.Engine.
type RequestForms struct{ ToolChoice, ResponseFormat, NullContent, AdjacentTurns string }

// RequestForms returns the forms of tool_choice, response_format, messages without content, and
// consecutive messages of one role.
func (p *Profile) RequestForms() RequestForms {
	return RequestForms{p.spec.ToolChoice, p.spec.ResponseFormat, p.spec.NullContent, p.spec.AdjacentTurns}
}

// RefusedMembers lists the request members that must be refused because they control the engine
// rather than the model. A name that ends in * is a prefix, and outer.inner names a member of the
// object outer.
func (p *Profile) RefusedMembers() []string { return p.spec.Refused }

// IsClientFault reports whether a 5xx response is known to be the client's fault. In that case, the
// edge answers the call with 400, does not retry it and does not count it against the upstream.
// errorType and message come from the engine's error body and may be empty.
func (p *Profile) IsClientFault(status int, errorType, message string) bool {
	return matchesError(p.spec.ClientFaults, status, errorType, message)
}

// IsOverload reports whether an error response means that the engine is full. The call's outcome is
// then upstreams.OutcomeRefused.
func (p *Profile) IsOverload(status int, errorType, message string) bool {
	return matchesError(p.spec.Overloads, status, errorType, message)
}

// IsTemporary reports whether the same request may succeed a moment later.
func (p *Profile) IsTemporary(status int, errorType, message string) bool {
	return matchesError(p.spec.NotNow, status, errorType, message)
}

func matchesError(all []config.EngineError, status int, errorType, message string) bool {
	return slices.ContainsFunc(all, func(e config.EngineError) bool {
		if e.Status != status || e.Type != "" && e.Type != errorType || e.Silent && (errorType != "" || message != "") {
			return false
		}
		inMessage := func(part string) bool { return strings.Contains(message, part) }
		return len(e.Messages) == 0 || slices.ContainsFunc(e.Messages, inMessage)
	})
}

// Reasoning describes how a request sets the reasoning effort (reasoning_effort), and which member
// contains the reasoning of earlier turns.
type Reasoning struct {
	Words   []string        // accepted efforts; empty means none, low, medium, high and xhigh
	Off, On []RequestMember // members that switch reasoning off, and members that switch it on
	History string          // member of an assistant message; empty if the engine ignores earlier reasoning
}

// Reasoning describes how to control the engine's reasoning.
func (p *Profile) Reasoning() Reasoning {
	r := &p.spec.Reasoning
	out := Reasoning{Words: r.Words, Off: p.reasoningOff, On: p.reasoningOn, History: r.History}
	if out.History == config.HistoryUnread {
		out.History = ""
	}
	return out
}

// HasQuirk reports whether the engine has the given quirk, for example config.QuirkOwnHost.
func (p *Profile) HasQuirk(quirk string) bool { return slices.Contains(p.spec.Quirks, quirk) }

// Quirks returns the quirks in the profile's order.
func (p *Profile) Quirks() []string { return p.spec.Quirks }

// Health returns the engine's health page.
func (p *Profile) Health() HealthPage {
	h := &p.spec.Health
	return HealthPage{Path: h.Path, Timeout: h.Timeout.D(), AnyStatus: h.Alive == config.AliveAny}
}

// ModelsPage returns the path of the engine's model list, or "" if the engine has no model list.
func (p *Profile) ModelsPage() string {
	if len(p.spec.Models) == 0 {
		return ""
	}
	return p.spec.Models[0].Path
}

// The sources of a slot count.
const (
	SlotsReported  = "engine"
	SlotsOfProfile = "profile"
	SlotsDefault   = "default"
)

// defaultSlots is the slot count if neither the engine nor its profile specifies one.
const defaultSlots = 16

// maxSlots is the largest number that fits in the slot counters of package upstreams.
const maxSlots = 1<<21 - 1

// Slots returns how many requests the engine is assumed to run concurrently, and the source of the
// number. reported is the number that the engine reports, or 0.
func (p *Profile) Slots(reported int) (n int, source string) {
	switch {
	case reported > 0:
		return min(reported, maxSlots), SlotsReported
	case p.spec.Concurrency > 0 && p.Name() != genericName:
		return min(p.spec.Concurrency, maxSlots), SlotsOfProfile
	}
	return defaultSlots, SlotsDefault
}
