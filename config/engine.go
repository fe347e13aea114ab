package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Engine is an engine profile. It is data that describes how the edge detects, probes and calls one
// kind of inference server. The bundled profiles are in upstreams/engine/profiles/*.yaml. A
// configuration may add profiles in `engines`, or replace a bundled profile by using its name.
//
// A profile inherits missing members from the profile that `like` names, which is "openai" by
// default. A list replaces the whole inherited list, even if it is empty.
//
// A *field* is the path of a value in a JSON page. It consists of member names and array positions
// joined by dots, where `*` matches all elements of an array or object, as in "data.*.owned_by".
// The empty field is the whole page.
type Engine struct {
	// An upstream's `engine` setting selects the profile by this name.
	Name string `yaml:"name"`
	// This is the engine's display name.
	Title string `yaml:"title"`
	// Missing members are inherited from this profile. A list replaces the inherited list. The
	// default is openai.
	Like string `yaml:"like"`

	// The edge detects the engine if one of these signs matches.
	Detect []EngineSign `yaml:"detect"`
	// The engine usually listens on these ports. Discovery on loopback scans them.
	Ports []int `yaml:"ports"`
	// This page and field contain the engine's version.
	Version EngineValueLocation `yaml:"version"`
	// This is how the edge checks the engine's health.
	Health EngineHealth `yaml:"health"`
	// The first of these pages lists the engine's models. The other pages add details.
	Models []EngineModelsPage `yaml:"models"`
	// This defines how reliable the engine's model list is. listed: the engine serves exactly the
	// models that it lists. ignored: the engine accepts any model name. open: the list may be
	// incomplete, so a name counts as missing only if an earlier list contained it.
	Names string `yaml:"names"`
	// The edge appends this suffix, such as :latest, to names without a colon before it looks them
	// up.
	ImplicitTag string `yaml:"implicit_tag"`
	// These pages report the engine's load. The edge reads the first one that it can fetch.
	Load []EngineLoad `yaml:"load"`
	// These pages report how many requests the engine runs concurrently. The edge uses the first
	// page that has a match, and adds up all matches on it.
	Capacity []EngineCapacity `yaml:"capacity"`
	// The engine runs this many calls concurrently if neither the configuration nor the engine sets
	// a number.
	Concurrency int `yaml:"concurrency"`
	// This page and field contain the number of models that the engine keeps in memory.
	Residents EngineValueLocation `yaml:"residents"`
	// This page and field show whether the engine is asleep.
	Asleep EngineValueLocation `yaml:"asleep"`

	// These are the paths of operations that differ from the usual ones. An empty path means that
	// the engine lacks the operation. There are no usual paths for counting tokens, scoring,
	// classifying, pooling, tokenizing and realtime sessions. An engine supports these only if
	// their paths are set here.
	Paths map[string]string `yaml:"paths"`
	// The edge closes connections to the engine that have been idle for this long. It should be
	// shorter than the engine's idle timeout.
	KeepAlive Duration `yaml:"keep_alive"`
	// The engine reads its token limit from this request member: max_tokens or
	// max_completion_tokens. With as_sent, the edge keeps the member that the client sent.
	TokenLimit string `yaml:"token_limit"`
	// This is how the edge sends a reasoning effort to the engine.
	Reasoning EngineReasoning `yaml:"reasoning"`
	// The engine reads these forms of tool_choice. as_sent: all forms. words: only auto, none and
	// required. If a tool is named, the edge sends only that tool and the word required. ignored:
	// the engine ignores tool_choice. For none, the edge sends no tools.
	ToolChoice string `yaml:"tool_choice"`
	// The engine reads these forms of response_format. as_sent: all forms. schemas: all forms
	// except json_object. The edge replaces json_object with a schema for any object. value: only
	// schemas, which the edge sends in the member value.
	ResponseFormat string `yaml:"response_format"`
	// This is how the edge sends a message without content. as_sent: unchanged. empty: with the
	// content "". empty_without_calls: with the content "" if the message has no tool calls.
	NullContent string `yaml:"null_content"`
	// This is how the edge sends adjacent messages of the same role. as_sent: unchanged, unless the
	// engine refuses them. joined: as one message.
	AdjacentTurns string `yaml:"adjacent_turns"`
	// The edge adds these members to a request whose last message begins the answer.
	Prefill map[string]any `yaml:"prefill"`
	// This request member separates cached prompts: prompts with different values share no cache.
	CacheSalt string `yaml:"cache_salt"`
	// The engine orders its queue by the priority member of requests. lower_first: it serves lower
	// numbers first. higher_first: it serves higher numbers first.
	Priority string `yaml:"priority"`
	// The edge refuses requests with these members, because they control the engine. A trailing *
	// matches any suffix, and outer.inner is a member of the object outer.
	Refused []string `yaml:"refused"`
	// These answers have a 5xx status even though the client caused the error. The edge does not
	// retry them or count them against the engine.
	ClientFaults []EngineError `yaml:"client_faults"`
	// These answers mean that the engine is full.
	Overloads []EngineError `yaml:"overloads"`
	// After one of these answers, the same request may succeed a moment later. The edge therefore
	// sends the call once more. If the second answer's status is below 500, it is final. Otherwise
	// the engine counts as full.
	NotNow []EngineError `yaml:"not_now"`
	// The engine has these quirks.
	Quirks []string `yaml:"quirks"`
	// The engine needs these flags for tool calls, reasoning and priorities.
	Flags EngineFlags `yaml:"flags"`
}

// EngineFlags are the flags that an engine needs for more than plain text. `penstock doctor --try`
// shows the operator which of them are missing.
type EngineFlags struct {
	// The engine needs this flag to call tools.
	Tools string `yaml:"tools"`
	// The engine needs this flag to separate reasoning from text.
	Reasoning string `yaml:"reasoning"`
	// The engine needs this flag to order its queue by priority.
	Priorities string `yaml:"priorities"`
}

// EngineSign is a sign of an engine on one of its pages. All conditions that are set must hold.
type EngineSign struct {
	// The edge requests this page.
	Path string `yaml:"path"`
	// The page must have this status. The default is 200.
	Status int `yaml:"status"`
	// The JSON page must have this field.
	Field string `yaml:"field"`
	// At least one match of the field must have this value.
	Equals string `yaml:"equals"`
	// The page must contain all of these texts.
	Contains []string `yaml:"contains"`
}

// EngineValueLocation describes where a JSON page contains a value.
type EngineValueLocation struct {
	// The value is on this page of the engine.
	Path string `yaml:"path"`
	// The value is in this field of the JSON page.
	Field string `yaml:"field"`
}

// EngineCapacity describes where a JSON page contains the number of slots.
type EngineCapacity struct {
	// The number is on this page of the engine.
	Path string `yaml:"path"`
	// The number is in this field of the JSON page.
	Field string `yaml:"field"`
	// This field contains the context length of one slot, in tokens. The total context of all slots
	// is the size of the engine's prompt cache, unless the load page reports a size.
	SlotTokens string `yaml:"slot_tokens"`
}

// EngineHealth describes an engine's health page.
type EngineHealth struct {
	// A healthy engine answers this page with 200.
	Path string `yaml:"path"`
	// A probe waits this long for the page.
	Timeout Duration `yaml:"timeout"`
	// These statuses are healthy. ok: only 2xx. any: every status below 500, for servers without a
	// health page.
	Alive string `yaml:"alive"`
}

// EngineModelsPage describes how to read one page about models.
type EngineModelsPage struct {
	// This page lists models or describes one model.
	Path string `yaml:"path"`
	// This field of the page contains the array of models. If `list` is empty, the page describes
	// one model.
	List string `yaml:"list"`
	// This field of an element contains the model's name.
	ID string `yaml:"id"`
	// This field contains the array of alternative names.
	Aliases string `yaml:"aliases"`
	// These fields contain the context length in tokens. The edge uses the first one that is
	// present.
	Context []string `yaml:"context"`
	// This field shows that the model reads images. It is true, or it is a string or array that
	// contains image, vision or vlm.
	Vision string `yaml:"vision"`
	// This field contains the model's purpose: the name of a Hugging Face task, or embeddings. If
	// the field is an object with one member, the member's name is the purpose.
	Kind string `yaml:"kind"`
	// This field contains the base model of an adapter.
	Parent string `yaml:"parent"`
	// This field shows whether the model is loaded: it is then true or "loaded". If a page lists
	// only loaded models, use the field that contains the id.
	Loaded string `yaml:"loaded"`
}

// EngineLoad describes how to read one page about the engine's work. Use metric names for a page in
// Prometheus text format, and fields for a JSON page.
type EngineLoad struct {
	// This page reports the load, as JSON or in Prometheus text format.
	Path string `yaml:"path"`
	// These metrics or fields contain the number of running requests. The edge uses the first one
	// that is present. It adds up all series or matches, and counts true as 1.
	Running []string `yaml:"running"`
	// These metrics or fields contain the number of waiting requests. The edge reads them like
	// `running`.
	Waiting []string `yaml:"waiting"`
	// These metrics or fields contain the fraction of the cache in use, from 0 to 1. The edge uses
	// the mean of all matches.
	KVUsage []string `yaml:"kv_usage"`
	// These counters increase while the engine works. The edge adds up all that are present.
	Progress []string `yaml:"progress"`
	// The labels of this metric's newest series show which adapters are in use
	// (running_lora_adapters, waiting_lora_adapters) and how many fit (max_lora).
	Adapters string `yaml:"adapters"`
	// These metrics or fields contain the number of prompt tokens that fit in the engine's cache.
	// If a metric has the labels num_gpu_blocks and block_size, the number is their product.
	Cache []string `yaml:"cache"`
}

// EngineReasoning describes how a reasoning effort is sent to the engine, in reasoning_effort.
type EngineReasoning struct {
	// The edge adds these members if the effort is none.
	Off map[string]any `yaml:"off"`
	// The edge adds these members for every other effort.
	On map[string]any `yaml:"on"`
	// The engine accepts these efforts, which may be none, minimal, low, medium, high, xhigh and
	// max. The edge sends the nearest one. If the list does not contain none, the edge sends only
	// the members of `off` for that effort. The default is none, low, medium, high and xhigh.
	Words []string `yaml:"words"`
	// The engine reads the reasoning of earlier turns from this member of an assistant message:
	// reasoning_content or reasoning. With none, it does not read that reasoning.
	History string `yaml:"history"`
}

// EngineError matches an answer by its status and, optionally, by the error's type or a text in its
// message. It can also require that the error has neither type nor message.
type EngineError struct {
	// The answer has this HTTP status.
	Status int `yaml:"status"`
	// The error has this type. If omitted, any type matches.
	Type string `yaml:"type"`
	// The error's message contains one of these texts. If omitted, any message matches.
	Messages []string `yaml:"messages"`
	// If true, the error has neither a type nor a message.
	Silent bool `yaml:"silent"`
}

// Values of EngineHealth.Alive.
const (
	AliveOK  = "ok"
	AliveAny = "any"
)

// Values of Engine.Names.
const (
	ModelNamesListed  = "listed"
	ModelNamesIgnored = "ignored"
	ModelNamesOpen    = "open"
)

// Values of Engine.TokenLimit.
const (
	TokenLimitMaxTokens           = "max_tokens"
	TokenLimitMaxCompletionTokens = "max_completion_tokens"
	TokenLimitAsSent              = "as_sent"
)

// Values of Engine.ToolChoice.
const (
	ToolChoiceAsSent  = "as_sent"
	ToolChoiceWords   = "words"
	ToolChoiceIgnored = "ignored"
)

// Values of Engine.ResponseFormat.
const (
	ResponseFormatAsSent  = "as_sent"
	ResponseFormatSchemas = "schemas"
	ResponseFormatValue   = "value"
)

// Values of Engine.NullContent.
const (
	NullContentAsSent            = "as_sent"
	NullContentEmpty             = "empty"
	NullContentEmptyWithoutCalls = "empty_without_calls"
)

// EngineEfforts are the valid values in EngineReasoning.Words, from lowest to highest.
var EngineEfforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// Values of Engine.Priority.
const (
	PriorityLowerFirst  = "lower_first"
	PriorityHigherFirst = "higher_first"
)

// Values of EngineReasoning.History.
const (
	HistoryReasoningContent = "reasoning_content"
	HistoryReasoning        = "reasoning"
	HistoryUnread           = "none"
)

// Quirks of an engine.
const (
	// QuirkCancelOnlyStreams: closing the connection stops generation for a stream, but not for an
	// unstreamed request.
	QuirkCancelOnlyStreams = "cancel_only_streams"
	// QuirkContinuousUsage: if stream_options.continuous_usage_stats is set, every chunk of a
	// stream contains the usage.
	QuirkContinuousUsage = "continuous_usage"
	// QuirkOwnHost: the engine checks the Host header. If `resolve` is set, the edge therefore
	// sends the dialled address instead of the name.
	QuirkOwnHost = "own_host"
	// QuirkLoadsOnDemand: the first request for a listed model loads the model.
	QuirkLoadsOnDemand = "loads_on_demand"
	// QuirkStreamsTranscriptions: if stream=true, the engine streams its response to a
	// transcription request.
	QuirkStreamsTranscriptions = "streams_transcriptions"
	// QuirkStreamsSpeech: if stream_format=sse, the engine streams its response to a speech request
	// for pcm.
	QuirkStreamsSpeech = "streams_speech"
	// QuirkDeveloperAsSystem: the engine's chat templates do not know the role developer, so the
	// edge sends messages of this role as system messages.
	QuirkDeveloperAsSystem = "developer_as_system"
	// QuirkTokenTimings: if timings_per_token is set, every chunk contains timings and the token
	// counts so far.
	QuirkTokenTimings = "token_timings"
	// QuirkContinuesAnswers: the engine continues a final assistant message without a special
	// request member.
	QuirkContinuesAnswers = "continues_answers"
	// QuirkBuffersCalls: the engine sends a tool call only when the call is complete, which may
	// take minutes.
	QuirkBuffersCalls = "buffers_calls"
	// QuirkRanksTexts: rerank requests to the engine contain texts and return_text instead of
	// documents and return_documents.
	QuirkRanksTexts = "ranks_texts"
	// QuirkTranscriptionEvents: realtime sessions use vLLM's events (transcription.delta,
	// transcription.done) and 16 kHz audio, which both differ from OpenAI's API.
	QuirkTranscriptionEvents = "transcription_events"
)

// EngineQuirks are the valid values in Engine.Quirks.
var EngineQuirks = []string{
	QuirkCancelOnlyStreams, QuirkContinuousUsage, QuirkOwnHost, QuirkLoadsOnDemand,
	QuirkStreamsTranscriptions, QuirkDeveloperAsSystem, QuirkContinuesAnswers,
	QuirkTokenTimings, QuirkBuffersCalls, QuirkStreamsSpeech, QuirkRanksTexts,
	QuirkTranscriptionEvents,
}

// EngineOperations are the valid keys of Engine.Paths.
var EngineOperations = []string{
	OpChat, "completions", OpMessages, "count_tokens", OpResponses, OpTranscriptions, OpSpeech,
	OpEmbeddings, OpRerank, OpImages, "image_edits", OpScore, OpClassify, OpPooling, OpTokenize, "detokenize", OpModerations, OpRealtime,
}

// EngineEndpoint describes an endpoint that only some engines support.
type EngineEndpoint struct {
	Path      string // public path
	Operation string // name in a key's operations (Op…)
	AtEngine  string // name in Engine.Paths
}

// EngineSpecificEndpoints lists the endpoints that an engine supports only if its Paths contain
// them.
var EngineSpecificEndpoints = []EngineEndpoint{
	{"/v1/score", OpScore, OpScore},
	{"/v1/classify", OpClassify, OpClassify},
	{"/v1/pooling", OpPooling, OpPooling},
	{"/tokenize", OpTokenize, OpTokenize},
	{"/detokenize", OpTokenize, "detokenize"},
	{"/v1/moderations", OpModerations, OpModerations},
	{"/v1/realtime", OpRealtime, OpRealtime},
}

// InheritFrom returns e, with missing members taken from base. Paths are merged individually. A
// list is missing only if it is nil, so an empty list replaces an inherited list.
func (e *Engine) InheritFrom(base *Engine) Engine {
	out := *e
	if len(base.Paths) > 0 {
		out.Paths = maps.Clone(base.Paths)
		maps.Copy(out.Paths, e.Paths)
	}
	fillZeroFields(reflect.ValueOf(&out).Elem(), reflect.ValueOf(base).Elem())
	return out
}

// fillZeroFields copies fields of src to the zero fields of dst, recursively for structs.
func fillZeroFields(dst, src reflect.Value) {
	for i := range dst.NumField() {
		d, s := dst.Field(i), src.Field(i)
		switch {
		case d.Kind() == reflect.Struct:
			fillZeroFields(d, s)
		case d.IsZero():
			d.Set(s)
		}
	}
}

// Problems returns the mistakes in a profile. Each starts with the path of the faulty member
// ("health.path: ..."). Problems does not check Like, because only the caller knows the other
// profiles.
func (e *Engine) Problems() []string {
	c := engineCheck{}
	c.require(e.Name != "" && e.Name != "auto", "name: give the profile a name other than auto")
	for i, s := range e.Detect {
		at := entryPath("detect", i)
		c.checkPath(at+".path", s.Path, true)
		c.require(s.Field != "" || len(s.Contains) > 0, at+": say what the page must have: field or contains")
		c.require(s.Equals == "" || s.Field != "", at+".equals: needs a field to compare")
	}
	for i, p := range e.Ports {
		c.require(p > 0 && p < 65536, fmt.Sprintf("ports[%d]: %d is not a port", i, p))
	}
	c.checkValueLocation("version", e.Version)
	c.checkPath("health.path", e.Health.Path, false)
	c.checkOneOf("health.alive", e.Health.Alive, AliveOK, AliveAny)
	for i, m := range e.Models {
		at := entryPath("models", i)
		c.checkPath(at+".path", m.Path, true)
		c.require(m.ID != "", at+".id: name the field that holds the model's id")
	}
	c.checkOneOf("names", e.Names, ModelNamesListed, ModelNamesIgnored, ModelNamesOpen)
	for i, l := range e.Load {
		at := entryPath("load", i)
		c.checkPath(at+".path", l.Path, true)
		c.require(len(l.Running)+len(l.Waiting)+len(l.Progress) > 0,
			at+": name the fields that report running or waiting requests, or progress")
	}
	for i, v := range e.Capacity {
		c.checkValueLocation(entryPath("capacity", i), EngineValueLocation{v.Path, v.Field})
		c.require(v.Path != "", entryPath("capacity", i)+".path: missing")
	}
	c.require(e.Concurrency >= 0, "concurrency: must not be negative")
	c.checkValueLocation("residents", e.Residents)
	c.checkValueLocation("asleep", e.Asleep)
	for _, op := range slices.Sorted(maps.Keys(e.Paths)) {
		c.require(slices.Contains(EngineOperations, op), fmt.Sprintf("paths.%s: not an operation; use one of %s", op,
			strings.Join(EngineOperations, ", ")))
		c.checkPath("paths."+op, e.Paths[op], false)
	}
	c.checkOneOf("token_limit", e.TokenLimit, TokenLimitMaxTokens, TokenLimitMaxCompletionTokens, TokenLimitAsSent)
	c.checkOneOf("reasoning.history", e.Reasoning.History, HistoryReasoningContent, HistoryReasoning, HistoryUnread)
	for i, word := range e.Reasoning.Words {
		c.checkOneOf(entryPath("reasoning.words", i), word, EngineEfforts...)
	}
	c.checkOneOf("tool_choice", e.ToolChoice, ToolChoiceAsSent, ToolChoiceWords, ToolChoiceIgnored)
	c.checkOneOf("response_format", e.ResponseFormat, ResponseFormatAsSent, ResponseFormatSchemas, ResponseFormatValue)
	c.checkOneOf("null_content", e.NullContent, NullContentAsSent, NullContentEmpty, NullContentEmptyWithoutCalls)
	c.checkOneOf("adjacent_turns", e.AdjacentTurns, AdjacentTurnsAsSent, AdjacentTurnsJoined)
	c.require(!strings.ContainsAny(e.CacheSalt, `.*"\ `), "cache_salt: give the name of one member of the request")
	c.checkOneOf("priority", e.Priority, PriorityLowerFirst, PriorityHigherFirst)
	c.checkStatuses("client_faults", e.ClientFaults)
	c.checkStatuses("overloads", e.Overloads)
	c.checkStatuses("not_now", e.NotNow)
	for i, q := range e.Quirks {
		c.checkOneOf(entryPath("quirks", i), q, EngineQuirks...)
	}
	return c.found
}

type engineCheck struct{ found []string }

func (c *engineCheck) require(ok bool, problem string) {
	if !ok {
		c.found = append(c.found, problem)
	}
}

func (c *engineCheck) checkPath(at, path string, required bool) {
	if path == "" {
		c.require(!required, at+": missing")
		return
	}
	c.require(path[0] == '/' && !strings.ContainsAny(path, " #\r\n\t"),
		fmt.Sprintf("%s: %q is not a path; it begins with / and holds no blanks", at, path))
}

func (c *engineCheck) checkStatuses(list string, errors []EngineError) {
	for i, f := range errors {
		c.require(f.Status >= 400 && f.Status < 600, entryPath(list, i)+".status: must be 400 to 599")
	}
}

func (c *engineCheck) checkValueLocation(at string, v EngineValueLocation) {
	c.checkPath(at+".path", v.Path, v.Field != "")
}

// checkOneOf checks that a value belongs to a closed set. An empty value is valid, because it means
// that the value is inherited.
func (c *engineCheck) checkOneOf(at, word string, words ...string) {
	c.require(word == "" || slices.Contains(words, word),
		fmt.Sprintf("%s: %q is not one of %s", at, word, strings.Join(words, ", ")))
}
