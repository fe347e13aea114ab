package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Engine is an engine profile: it describes, as data, how the edge recognises, watches and calls
// one kind of inference server. The bundled ones are upstreams/engine/profiles/*.yaml; a file's
// `engines:` may add more in the same form, or replace one by its name.
//
// A profile inherits missing members from the profile that `like` names, by default "openai". A
// list in the profile, even an empty one, replaces the whole inherited list.
//
// A *field* below is the path to a value in a JSON page: member names and array positions joined by
// dots, and `*` for every element of an array or object: "data.*.owned_by". The empty field is the
// page itself.
type Engine struct {
	// The name by which an upstream's `engine` selects the profile.
	Name string `yaml:"name"`
	// The engine's display name.
	Title string `yaml:"title"`
	// The profile that supplies missing members. If omitted: openai.
	Like string `yaml:"like"`

	// Signs by which the engine is detected. One is enough.
	Detect []EngineSign `yaml:"detect"`
	// The ports on which it usually listens, for discovery on loopback.
	Ports []int `yaml:"ports"`
	// Where it reports its version.
	Version EngineValue `yaml:"version"`
	// How its health is checked.
	Health EngineHealth `yaml:"health"`
	// The pages about its models: the first lists them, the others add details.
	Models []EngineModel `yaml:"models"`
	// How reliable the engine's list of models is. listed: the engine serves what it lists and
	// nothing else. ignored: it answers to any name. open: the list may be incomplete, so a name
	// counts as missing only if an earlier list had it.
	Names string `yaml:"names"`
	// A suffix, such as :latest, that is added to names without a colon before they are looked up.
	ImplicitTag string `yaml:"implicit_tag"`
	// The pages that report its load. The first that answers is read.
	Load []EngineLoad `yaml:"load"`
	// Where it reports how many requests it runs at once. All matches on the first page that has
	// any are added up.
	Capacity []EngineCapacity `yaml:"capacity"`
	// How many calls it runs at once if neither the file nor the engine gives a number.
	Concurrency int `yaml:"concurrency"`
	// Where it reports how many models it keeps in memory.
	Residents EngineValue `yaml:"residents"`
	// Where it reports that it sleeps. A sleeping engine answers only such pages.
	Asleep EngineValue `yaml:"asleep"`

	// The paths of operations, where they differ from the usual ones; an empty path means that the
	// engine lacks the operation. Counting, scoring, classifying, pooling, tokenizing and realtime
	// sessions have no usual path: an engine has them only if their paths are given here.
	Paths map[string]string `yaml:"paths"`
	// The idle time after which connections to it are closed. It should be shorter than the
	// engine's own.
	KeepAlive Duration `yaml:"keep_alive"`
	// The request member that limits the answer's tokens: max_tokens, max_completion_tokens, or
	// whichever of them the client sent (as_sent).
	TokenLimit string `yaml:"token_limit"`
	// How a reasoning effort is sent to the engine.
	Reasoning EngineReasoning `yaml:"reasoning"`
	// Which forms of tool_choice it reads. as_sent: all. words: only auto, none and required, so a
	// named tool is sent as the only tool, with required. ignored: the engine reads no form, so for
	// tool_choice none the edge sends no tools.
	ToolChoice string `yaml:"tool_choice"`
	// Which forms of response_format it reads. as_sent: all. schemas: all but json_object, which is
	// sent as the schema of an object. value: only schemas, in the member value, and not text.
	ResponseFormat string `yaml:"response_format"`
	// How a message without content is sent: as_sent, empty (with the content ""), or
	// empty_without_calls (with the content "" if it has no tool calls).
	NullContent string `yaml:"null_content"`
	// How adjacent turns of one role are sent: as_sent, until the engine refuses them, or joined
	// into one.
	AdjacentTurns string `yaml:"adjacent_turns"`
	// Members to add when the last message is the beginning of the answer.
	Prefill map[string]any `yaml:"prefill"`
	// The request member whose value separates cached prompts.
	CacheSalt string `yaml:"cache_salt"`
	// The order of an engine that sorts its queue by the request member priority: lower_first or
	// higher_first.
	Priority string `yaml:"priority"`
	// Request members that steer the engine and are refused. A trailing * matches any rest;
	// outer.inner is a member of a member.
	Refused []string `yaml:"refused"`
	// Answers with a 5xx status that the client has caused. They are never retried and never count
	// against the engine.
	ClientFaults []EngineError `yaml:"client_faults"`
	// Answers that mean that the engine is full, not broken.
	Overloads []EngineError `yaml:"overloads"`
	// Answers that may change a moment later. The call is sent once more. If the second answer is
	// below 500, it is final; otherwise the engine counts as full.
	NotNow []EngineError `yaml:"not_now"`
	// Known peculiarities of the engine.
	Quirks []string `yaml:"quirks"`
	// Flags that the engine needs at its start for tool calls, reasoning and priorities.
	Flags EngineFlags `yaml:"flags"`
}

// EngineFlags names the flags that an engine must be started with to return more than text. The
// texts are for the operator: `penstock doctor --try` shows those of missing flags.
type EngineFlags struct {
	// The flag without which the engine calls no tools.
	Tools string `yaml:"tools"`
	// The flag that the engine needs to separate reasoning from text.
	Reasoning string `yaml:"reasoning"`
	// The flag without which the engine does not order its queue by priority.
	Priorities string `yaml:"priorities"`
}

// EngineSign is one way to recognise an engine by a page: all conditions that are given must hold.
type EngineSign struct {
	// The page to request.
	Path string `yaml:"path"`
	// The status that it must have. If omitted: 200.
	Status int `yaml:"status"`
	// The field that the JSON page must have.
	Field string `yaml:"field"`
	// The value that one match of that field must have.
	Equals string `yaml:"equals"`
	// Texts that the page must contain, all of them.
	Contains []string `yaml:"contains"`
}

// EngineValue locates one number or text in a JSON page.
type EngineValue struct {
	// The engine's page that holds the value.
	Path string `yaml:"path"`
	// The field of that JSON page.
	Field string `yaml:"field"`
}

// EngineCapacity describes a JSON page that holds the number of slots.
type EngineCapacity struct {
	// The engine's page that holds the value.
	Path string `yaml:"path"`
	// The field of that JSON page.
	Field string `yaml:"field"`
	// The field with the context of one slot, in tokens. The context of all slots together is the
	// size of the engine's prompt cache, unless its load page reports a size.
	SlotTokens string `yaml:"slot_tokens"`
}

// EngineHealth describes the page that shows whether the engine can work.
type EngineHealth struct {
	// The page that a healthy engine answers with 200.
	Path string `yaml:"path"`
	// How long a probe waits for the page.
	Timeout Duration `yaml:"timeout"`
	// Which statuses are healthy: ok, only a 2xx; any, every status below 500, for servers without
	// a health page.
	Alive string `yaml:"alive"`
}

// EngineModel describes how to read one page about models.
type EngineModel struct {
	// The page that lists models or describes one.
	Path string `yaml:"path"`
	// The field that holds the array. Empty: the page is about one model.
	List string `yaml:"list"`
	// The field of an element that holds the model's name.
	ID string `yaml:"id"`
	// The field with the array of further names.
	Aliases string `yaml:"aliases"`
	// Fields with the context length in tokens. The first that is present counts.
	Context []string `yaml:"context"`
	// The field that shows that the model reads images: true, or a text or array with image, vision
	// or vlm.
	Vision string `yaml:"vision"`
	// The field with the model's purpose: the name of a Hugging Face task, or embeddings. An object
	// with one member counts as that member's name.
	Kind string `yaml:"kind"`
	// The field with an adapter's base model.
	Parent string `yaml:"parent"`
	// The field that shows whether the model is loaded: true or "loaded". On a page that lists only
	// loaded models it is the id.
	Loaded string `yaml:"loaded"`
}

// EngineLoad describes how to read one page about the engine's work. Metrics are for a page in
// Prometheus' text format, and fields for a JSON page.
type EngineLoad struct {
	// The page that reports the load, as JSON or in Prometheus' text format.
	Path string `yaml:"path"`
	// Metrics or fields with the number of running requests. The first that is present counts; its
	// series or matches are added up, and true counts as 1.
	Running []string `yaml:"running"`
	// Metrics or fields with the number of waiting requests, read as for `running`.
	Waiting []string `yaml:"waiting"`
	// Metrics or fields with the share of the cache in use, 0 to 1. The mean of all matches is
	// used.
	KVUsage []string `yaml:"kv_usage"`
	// Counters that rise as long as the engine works. All that are present are added up.
	Progress []string `yaml:"progress"`
	// The metric whose newest series has the labels max_lora, running_lora_adapters and
	// waiting_lora_adapters: which adapters are in use, and how many fit.
	Adapters string `yaml:"adapters"`
	// Metrics or fields with the number of prompt tokens that fit into the engine's cache. For a
	// metric with the labels num_gpu_blocks and block_size it is their product.
	Cache []string `yaml:"cache"`
}

// EngineReasoning describes how a reasoning effort is sent to the engine, in reasoning_effort.
type EngineReasoning struct {
	// Members to add when the effort is none.
	Off map[string]any `yaml:"off"`
	// Members to add for any other effort.
	On map[string]any `yaml:"on"`
	// The efforts that it accepts, out of none, minimal, low, medium, high, xhigh and max; the
	// nearest one is sent. If `none` is not in the list, only the members of `off` are sent for it.
	// If omitted: none, low, medium, high and xhigh.
	Words []string `yaml:"words"`
	// The member of an assistant's message in which it reads the reasoning of earlier turns:
	// reasoning_content, reasoning or none.
	History string `yaml:"history"`
}

// EngineError describes an answer by its status and, if given, by the error's type, by a text in
// its message, or by the absence of both.
type EngineError struct {
	// The HTTP status of the answer.
	Status int `yaml:"status"`
	// The type of the answer's error. Empty: any.
	Type string `yaml:"type"`
	// Texts, one of which the error's message contains. Empty: any message.
	Messages []string `yaml:"messages"`
	// Whether the answer has neither a type nor a message.
	Silent bool `yaml:"silent"`
}

// Values of EngineHealth.Alive.
const (
	AliveOK  = "ok"
	AliveAny = "any"
)

// Values of Engine.Names.
const (
	NamesListed  = "listed"
	NamesIgnored = "ignored"
	NamesOpen    = "open"
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

// EngineEfforts are the valid values in EngineReasoning.Words, from least to most.
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
	// QuirkCancelOnlyStreams: closing the connection stops a stream, but an unstreamed request runs to
	// its end.
	QuirkCancelOnlyStreams = "cancel_only_streams"
	// QuirkContinuousUsage: stream_options.continuous_usage_stats puts usage on every chunk of a
	// stream.
	QuirkContinuousUsage = "continuous_usage"
	// QuirkOwnHost: the engine checks Host, so with `resolve` the edge sends the dialled address
	// instead of the name.
	QuirkOwnHost = "own_host"
	// QuirkLoadsOnDemand: the first request for a listed model loads it.
	QuirkLoadsOnDemand = "loads_on_demand"
	// QuirkStreamsTranscriptions: the engine streams the answer to a transcription with stream=true.
	QuirkStreamsTranscriptions = "streams_transcriptions"
	// QuirkStreamsSpeech: the engine streams the answer to a speech request for pcm with
	// stream_format=sse.
	QuirkStreamsSpeech = "streams_speech"
	// QuirkDeveloperAsSystem: the engine's chat templates lack the role developer, so its messages
	// are sent as system.
	QuirkDeveloperAsSystem = "developer_as_system"
	// QuirkTokenTimings: timings_per_token puts timings with the counts so far on every chunk.
	QuirkTokenTimings = "token_timings"
	// QuirkContinuesAnswers: the engine continues an assistant message at the end without being asked
	// to by a request member.
	QuirkContinuesAnswers = "continues_answers"
	// QuirkBuffersCalls: the engine sends a tool call only when the call is complete, which may
	// take minutes.
	QuirkBuffersCalls = "buffers_calls"
	// QuirkRanksTexts: rerank takes texts and return_text instead of documents and
	// return_documents.
	QuirkRanksTexts = "ranks_texts"
	// QuirkTranscriptionEvents: realtime sessions have vLLM's events (transcription.delta,
	// transcription.done) and audio at 16 kHz instead of OpenAI's.
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

// EngineEndpoint is an endpoint that only some engines have.
type EngineEndpoint struct {
	Path      string // public path
	Operation string // its name in a key's scope (Op…)
	AtEngine  string // its name in Engine.Paths
}

// SomeEngines lists the endpoints that an engine has only if its Paths name them.
var SomeEngines = []EngineEndpoint{
	{"/v1/score", OpScore, OpScore},
	{"/v1/classify", OpClassify, OpClassify},
	{"/v1/pooling", OpPooling, OpPooling},
	{"/tokenize", OpTokenize, OpTokenize},
	{"/detokenize", OpTokenize, "detokenize"},
	{"/v1/moderations", OpModerations, OpModerations},
	{"/v1/realtime", OpRealtime, OpRealtime},
}

// Over returns e with every missing member taken from base. Paths are merged one by one. Quirks and
// other lists are present if they are not nil, so an empty list removes everything inherited.
func (e *Engine) Over(base *Engine) Engine {
	out := *e
	if len(base.Paths) > 0 {
		out.Paths = maps.Clone(base.Paths)
		maps.Copy(out.Paths, e.Paths)
	}
	fill(reflect.ValueOf(&out).Elem(), reflect.ValueOf(base).Elem())
	return out
}

// fill copies the fields of src to the zero fields of dst, and merges structs field by field.
func fill(dst, src reflect.Value) {
	for i := range dst.NumField() {
		d, s := dst.Field(i), src.Field(i)
		switch {
		case d.Kind() == reflect.Struct:
			fill(d, s)
		case d.IsZero():
			d.Set(s)
		}
	}
}

// Problems lists what is wrong with a profile as written. Each problem starts with the path of its
// member ("health.path: ..."). It does not check Like, because only the caller knows the other
// profiles.
func (e *Engine) Problems() []string {
	c := engineCheck{}
	c.need(e.Name != "" && e.Name != "auto", "name: give the profile a name other than auto")
	for i, s := range e.Detect {
		at := element("detect", i)
		c.path(at+".path", s.Path, true)
		c.need(s.Field != "" || len(s.Contains) > 0, at+": say what the page must have: field or contains")
		c.need(s.Equals == "" || s.Field != "", at+".equals: needs a field to compare")
	}
	for i, p := range e.Ports {
		c.need(p > 0 && p < 65536, fmt.Sprintf("ports[%d]: %d is not a port", i, p))
	}
	c.value("version", e.Version)
	c.path("health.path", e.Health.Path, false)
	c.oneOf("health.alive", e.Health.Alive, AliveOK, AliveAny)
	for i, m := range e.Models {
		at := element("models", i)
		c.path(at+".path", m.Path, true)
		c.need(m.ID != "", at+".id: name the field that holds the model's id")
	}
	c.oneOf("names", e.Names, NamesListed, NamesIgnored, NamesOpen)
	for i, l := range e.Load {
		at := element("load", i)
		c.path(at+".path", l.Path, true)
		c.need(len(l.Running)+len(l.Waiting)+len(l.Progress) > 0,
			at+": name the fields that report running or waiting requests, or progress")
	}
	for i, v := range e.Capacity {
		c.value(element("capacity", i), EngineValue{v.Path, v.Field})
		c.need(v.Path != "", element("capacity", i)+".path: missing")
	}
	c.need(e.Concurrency >= 0, "concurrency: must not be negative")
	c.value("residents", e.Residents)
	c.value("asleep", e.Asleep)
	for _, op := range slices.Sorted(maps.Keys(e.Paths)) {
		c.need(slices.Contains(EngineOperations, op), fmt.Sprintf("paths.%s: not an operation; use one of %s", op,
			strings.Join(EngineOperations, ", ")))
		c.path("paths."+op, e.Paths[op], false)
	}
	c.oneOf("token_limit", e.TokenLimit, TokenLimitMaxTokens, TokenLimitMaxCompletionTokens, TokenLimitAsSent)
	c.oneOf("reasoning.history", e.Reasoning.History, HistoryReasoningContent, HistoryReasoning, HistoryUnread)
	for i, word := range e.Reasoning.Words {
		c.oneOf(element("reasoning.words", i), word, EngineEfforts...)
	}
	c.oneOf("tool_choice", e.ToolChoice, ToolChoiceAsSent, ToolChoiceWords, ToolChoiceIgnored)
	c.oneOf("response_format", e.ResponseFormat, ResponseFormatAsSent, ResponseFormatSchemas, ResponseFormatValue)
	c.oneOf("null_content", e.NullContent, NullContentAsSent, NullContentEmpty, NullContentEmptyWithoutCalls)
	c.oneOf("adjacent_turns", e.AdjacentTurns, TurnsAsSent, TurnsJoined)
	c.need(!strings.ContainsAny(e.CacheSalt, `.*"\ `), "cache_salt: give the name of one member of the request")
	c.oneOf("priority", e.Priority, PriorityLowerFirst, PriorityHigherFirst)
	c.statuses("client_faults", e.ClientFaults)
	c.statuses("overloads", e.Overloads)
	c.statuses("not_now", e.NotNow)
	for i, q := range e.Quirks {
		c.oneOf(element("quirks", i), q, EngineQuirks...)
	}
	return c.found
}

// engineCheck collects problems.
type engineCheck struct{ found []string }

func (c *engineCheck) need(ok bool, problem string) {
	if !ok {
		c.found = append(c.found, problem)
	}
}

func (c *engineCheck) path(at, path string, required bool) {
	if path == "" {
		c.need(!required, at+": missing")
		return
	}
	c.need(path[0] == '/' && !strings.ContainsAny(path, " #\r\n\t"),
		fmt.Sprintf("%s: %q is not a path; it begins with / and holds no blanks", at, path))
}

func (c *engineCheck) statuses(list string, errors []EngineError) {
	for i, f := range errors {
		c.need(f.Status >= 400 && f.Status < 600, element(list, i)+".status: must be 400 to 599")
	}
}

func (c *engineCheck) value(at string, v EngineValue) {
	c.path(at+".path", v.Path, v.Field != "")
}

// oneOf checks that a value belongs to a closed set. An empty value is allowed, because it is
// inherited.
func (c *engineCheck) oneOf(at, word string, words ...string) {
	c.need(word == "" || slices.Contains(words, word),
		fmt.Sprintf("%s: %q is not one of %s", at, word, strings.Join(words, ", ")))
}
