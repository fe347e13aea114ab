package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Engine is an engine profile: how one kind of inference server is recognised, watched and spoken
// to, as data. The bundled ones are upstreams/engine/profiles/*.yaml; a file's `engines:` may add
// more in the same form, or replace one by its name.
//
// A member that is left out is taken from the profile named by `like`, and without one from
// "openai". A list that is given, even an empty one, replaces the whole list below it.
//
// A *field* below is the way to a value in a JSON page: member names and array positions joined by
// dots, and `*` for every element of an array or object: "data.*.owned_by". The empty field is the
// page itself.
type Engine struct {
	Name  string `yaml:"name"`  // what an upstream's `engine` says
	Title string `yaml:"title"` // for people
	Like  string `yaml:"like"`  // profile to start from; default openai

	Detect  []EngineSign  `yaml:"detect"`  // any one of these is enough to know the engine
	Ports   []int         `yaml:"ports"`   // where it usually listens, for discovery on loopback
	Version EngineValue   `yaml:"version"` // where it tells its version
	Health  EngineHealth  `yaml:"health"`
	Models  []EngineModel `yaml:"models"` // the first page lists the models, further pages add details to listed names
	// Names says what the list of models is worth: "listed", the engine serves what it lists and
	// nothing else; "ignored", it answers whatever name it is given; "open", the list may be
	// incomplete, so a name is missing only when an earlier list had it.
	Names       string       `yaml:"names"`
	ImplicitTag string       `yaml:"implicit_tag"` // appended to a name without a colon before it is looked up: ":latest"
	Load        []EngineLoad `yaml:"load"`         // the first page that answers is read
	// how many requests run at once; the sum of all matches, the first page that has it
	Capacity    []EngineValue `yaml:"capacity"`
	Concurrency int           `yaml:"concurrency"` // when neither the file nor the engine says
	Residents   EngineValue   `yaml:"residents"`   // where it tells how many models it keeps in memory
	Asleep      EngineValue   `yaml:"asleep"`      // where it tells that it sleeps, and answers nothing but pages

	// operation to path, for those that differ, "" for those it has not
	Paths map[string]string `yaml:"paths"`
	// idle connections are dropped after this, before the engine does
	KeepAlive  Duration        `yaml:"keep_alive"`
	TokenLimit string          `yaml:"token_limit"` // max_tokens | max_completion_tokens | as_sent
	Reasoning  EngineReasoning `yaml:"reasoning"`   // how an effort is told
	// ToolChoice is what it reads of tool_choice: as_sent, every form; words, auto, none and required
	// alone, so that a named tool is sent as the only one, required; ignored, nothing, so that none
	// is sent as no tools.
	ToolChoice string `yaml:"tool_choice"`
	// ResponseFormat is what it reads of response_format: as_sent, every form; schemas, no
	// json_object, which is sent as the schema of an object; value, schemas in the member value, and
	// no text.
	ResponseFormat string `yaml:"response_format"`
	// NullContent is what a message without content is sent as: as_sent; empty, with the content "";
	// empty_without_calls, so only where it has no tool calls.
	NullContent string `yaml:"null_content"`
	// AdjacentTurns is what turns of one role in a row are sent as: as_sent, or joined into one. As
	// they were sent, they are joined once the engine has refused them.
	AdjacentTurns string `yaml:"adjacent_turns"`
	// members to add when the last message is the beginning of the answer
	Prefill        map[string]any `yaml:"prefill"`
	SystemMessages string         `yaml:"system_messages"` // fold | in_place
	// request member whose value keeps cached prompts apart, where the engine has one
	CacheSalt string `yaml:"cache_salt"`
	// which of the numbers in a request's member priority it serves first, where it orders its queue
	// by them: lower_first | higher_first
	Priority string   `yaml:"priority"`
	Native   []string `yaml:"native"` // dialects it speaks well itself: messages, responses
	// request members that steer the engine and are refused; a trailing * matches, outer.inner is a
	// member of a member
	Refused []string `yaml:"refused"`
	// 5xx answers that are the client's mistake: never retried, never counted
	ClientFaults []EngineError `yaml:"client_faults"`
	Overloads    []EngineError `yaml:"overloads"` // answers that mean "full", not "broken"
	// answers that another try a moment later may change: sent once more; one below 500 is final then,
	// the others mean "full"
	NotNow []EngineError `yaml:"not_now"`
	Quirks []string      `yaml:"quirks"` // what is odd about it
	Flags  EngineFlags   `yaml:"flags"`
}

// EngineFlags are what the engine has to be started with to read more than text out of what a model
// writes, in words for the operator; `penstock doctor --try` names them where they are missing.
type EngineFlags struct {
	Tools     string `yaml:"tools"`     // Flag of the engine without which it calls no tools.
	Reasoning string `yaml:"reasoning"` // Flag of the engine without which it keeps no reasoning apart.
	// Flag of the engine without which it does not order its queue by priorities.
	Priorities string `yaml:"priorities"`
}

// EngineSign is one way to recognise an engine by a page: everything that is given must hold.
type EngineSign struct {
	Path     string   `yaml:"path"`     // Page that is asked for.
	Status   int      `yaml:"status"`   // default 200
	Field    string   `yaml:"field"`    // present in the JSON page
	Equals   string   `yaml:"equals"`   // and one of its values is this
	Contains []string `yaml:"contains"` // the page holds all of these texts
}

// EngineValue is one number or text of a JSON page.
type EngineValue struct {
	Path  string `yaml:"path"`  // Page of the engine on which it stands.
	Field string `yaml:"field"` // Where it stands in the JSON page.
}

// EngineHealth is the page that answers 200 when the engine can work.
type EngineHealth struct {
	Path    string   `yaml:"path"`    // Page that a healthy engine answers with 200.
	Timeout Duration `yaml:"timeout"` // How long a probe waits for it.
	// Alive is "ok", only a 2xx is good, or "any": every answer below 500 is, for servers that have no
	// page for it.
	Alive string `yaml:"alive"`
}

// EngineModel says how to read one page about models.
type EngineModel struct {
	Path    string   `yaml:"path"`    // Page that lists models or tells of one.
	List    string   `yaml:"list"`    // field of the array; empty: the page is one model
	ID      string   `yaml:"id"`      // field within an element
	Aliases string   `yaml:"aliases"` // array of further names
	Context []string `yaml:"context"` // fields of the greatest context in tokens; the first that is there counts
	Vision  string   `yaml:"vision"`  // true, or a text or array that says image, vision or vlm
	// what the model is for: a task's name at Hugging Face, or embeddings; an object with one member
	// counts as that member's name
	Kind   string `yaml:"kind"`
	Parent string `yaml:"parent"` // of an adapter: the model that it changes
	// true or "loaded" means loaded; on a page that lists only loaded models, its id field
	Loaded string `yaml:"loaded"`
}

// EngineLoad says how to read one page about the engine's work.
type EngineLoad struct {
	Path   string `yaml:"path"`   // Page on which the engine tells its load.
	Format string `yaml:"format"` // metrics (Prometheus text) | json
	// names or fields, the first that is there counts; series and matches are added up, true counts 1
	Running []string `yaml:"running"`
	Waiting []string `yaml:"waiting"`  // as running, of requests that wait
	KVUsage []string `yaml:"kv_usage"` // 0 to 1; the mean of all matches
	// counters that rise as long as the engine works; all that are there are added up
	Progress []string `yaml:"progress"`
	// metric whose newest series has the labels max_lora, running_lora_adapters and
	// waiting_lora_adapters: which adapters are in use, and how many fit
	Adapters string `yaml:"adapters"`
	// names of fields or metrics that say how many tokens of prompts the engine's cache has room for; a
	// metric with the labels num_gpu_blocks and block_size says it by those
	Cache []string `yaml:"cache"`
}

// EngineReasoning says how a reasoning effort is told to the engine.
type EngineReasoning struct {
	Effort string         `yaml:"effort"` // request member that takes the effort word; default reasoning_effort
	Off    map[string]any `yaml:"off"`    // members to add when the effort is "none"
	On     map[string]any `yaml:"on"`     // members to add for any other effort
	// effort words it takes, of none, minimal, low, medium, high, xhigh and max; the nearest is sent.
	// Without none among them no word is sent for it, only the members of off. Empty: none, low,
	// medium, high and xhigh.
	Words []string `yaml:"words"`
	// member of an assistant's message that it reads the reasoning of earlier turns from:
	// reasoning_content | reasoning | none
	History string `yaml:"history"`
}

// EngineError is the shape of an answer: status, and if given the error's type, a part of its
// message, or that it says nothing.
type EngineError struct {
	Status   int      `yaml:"status"`   // HTTP status of the answer.
	Type     string   `yaml:"type"`     // Type that the answer's error has; empty: any.
	Messages []string `yaml:"messages"` // any one of these is in the message; empty: any message
	Silent   bool     `yaml:"silent"`   // it has neither a type nor a message
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

// EngineEfforts are the words that EngineReasoning.Words may hold, from least to most.
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

// Formats of EngineLoad.
const (
	LoadMetrics = "metrics"
	LoadJSON    = "json"
)

// Quirks of an engine.
const (
	// QuirkCancelOnlyStreams: closing the connection stops a stream, but a plain request runs to its
	// end.
	QuirkCancelOnlyStreams = "cancel_only_streams"
	// QuirkContinuousUsage: stream_options.continuous_usage_stats puts usage on every chunk of a
	// stream.
	QuirkContinuousUsage = "continuous_usage"
	// QuirkOwnHost: the engine checks Host, so with `resolve` it is sent the dialled address and not
	// the name.
	QuirkOwnHost = "own_host"
	// QuirkLoadsOnDemand: a listed model that is not loaded is loaded by the first request for it.
	QuirkLoadsOnDemand = "loads_on_demand"
	// QuirkStreamsTranscriptions: a transcription with stream=true is answered with events.
	QuirkStreamsTranscriptions = "streams_transcriptions"
	// QuirkStreamsSpeech: speech as pcm with stream_format=sse is answered with events.
	QuirkStreamsSpeech = "streams_speech"
	// QuirkDeveloperAsSystem: chat templates there know no role developer, so its messages are sent as
	// system.
	QuirkDeveloperAsSystem = "developer_as_system"
	// QuirkTokenTimings: timings_per_token puts timings, with the counts so far, on every chunk.
	QuirkTokenTimings = "token_timings"
	// QuirkContinuesAnswers: a last message that is the assistant's is gone on with, without a member
	// that asks for it.
	QuirkContinuesAnswers = "continues_answers"
	// QuirkBuffersCalls: a tool call is held back until it is whole, which may take minutes.
	QuirkBuffersCalls = "buffers_calls"
	// QuirkRanksTexts: rerank takes texts and return_text in the place of documents and
	// return_documents.
	QuirkRanksTexts = "ranks_texts"
)

// EngineQuirks are the words that Engine.Quirks may hold.
var EngineQuirks = []string{
	QuirkCancelOnlyStreams, QuirkContinuousUsage, QuirkOwnHost, QuirkLoadsOnDemand,
	QuirkStreamsTranscriptions, QuirkDeveloperAsSystem, QuirkContinuesAnswers,
	QuirkTokenTimings, QuirkBuffersCalls, QuirkStreamsSpeech, QuirkRanksTexts,
}

// EngineOperations are the keys that Engine.Paths may hold.
var EngineOperations = []string{
	OpChat, "completions", OpMessages, "count_tokens", OpResponses, OpTranscriptions, OpSpeech,
	OpEmbeddings, OpRerank, OpImages, "image_edits",
}

// Over returns e with every member that it leaves out taken from base, paths one by one. Quirks and
// other lists count as given when they are not nil, so an empty list takes everything away.
func (e *Engine) Over(base *Engine) Engine {
	out := *e
	if len(base.Paths) > 0 {
		out.Paths = maps.Clone(base.Paths)
		maps.Copy(out.Paths, e.Paths)
	}
	fill(reflect.ValueOf(&out).Elem(), reflect.ValueOf(base).Elem())
	return out
}

// fill sets the zero members of dst from src, structs member by member.
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

// Problems lists what is wrong with a profile as written, each with the member's path in it
// ("health.path: ..."). Whether Like names a profile is for the caller, who knows which there are.
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
		c.need(l.Format == LoadMetrics || l.Format == LoadJSON, at+".format: must be metrics or json")
		c.need(len(l.Running)+len(l.Waiting)+len(l.Progress) > 0,
			at+": name what tells the running or waiting requests, or the progress")
	}
	for i, v := range e.Capacity {
		c.value(element("capacity", i), v)
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
	c.oneOf("system_messages", e.SystemMessages, "fold", "in_place")
	c.need(!strings.ContainsAny(e.CacheSalt, `.*"\ `), "cache_salt: give the name of one member of the request")
	c.oneOf("priority", e.Priority, PriorityLowerFirst, PriorityHigherFirst)
	for i, n := range e.Native {
		c.oneOf(element("native", i), n, OpMessages, OpResponses)
	}
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

// oneOf accepts the empty word: it means "as the profile below".
func (c *engineCheck) oneOf(at, word string, words ...string) {
	c.need(word == "" || slices.Contains(words, word),
		fmt.Sprintf("%s: %q is not one of %s", at, word, strings.Join(words, ", ")))
}
