package answer

import (
	"slices"
	"strings"

	"penstock/translate"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
)

// Finish says how a choice ended.
type Finish = translate.FinishReason

// The values of Finish.
const (
	FinishNone          = translate.FinishNone
	FinishStop          = translate.FinishStop
	FinishLength        = translate.FinishLength
	FinishToolCalls     = translate.FinishToolCalls
	FinishContentFilter = translate.FinishContentFilter
)

// parseChatFinish recognizes only the finish_reasons of the chat dialect, because typed SDKs reject
// any others.
func parseChatFinish(word []byte) (f Finish, known bool) {
	switch string(word) {
	case "stop":
		return FinishStop, true
	case "length":
		return FinishLength, true
	case "tool_calls", "function_call":
		return FinishToolCalls, true
	case "content_filter":
		return FinishContentFilter, true
	}
	return FinishNone, false
}

// vendorFinishes lists other finish_reasons that engines and hosts send, in lower case. A
// finish_reason that is neither listed nor a failure means FinishStop. Examples are TGI's eos_token
// and stop_sequence, Together's eos, and Cohere's COMPLETE.
var vendorFinishes = map[string]Finish{
	"max_tokens": FinishLength, "model_length": FinishLength, "max_length": FinishLength,
	"max_output_tokens": FinishLength, "model_context_window_exceeded": FinishLength,
	"tool_call": FinishToolCalls, "tool_use": FinishToolCalls,
	"refusal": FinishContentFilter, "safety": FinishContentFilter, "recitation": FinishContentFilter,
	"blocklist": FinishContentFilter, "prohibited_content": FinishContentFilter, "spii": FinishContentFilter,
	"error_toxic": FinishContentFilter,
}

// failureStems lists the stems of finish_reasons for an aborted choice: abort (SGLang, vLLM), error
// (vLLM, Mistral, OpenRouter), timeout and cancelled (TensorRT-LLM), insufficient_system_resource
// (DeepSeek).
var failureStems = [...]string{
	"abort", "error", "fail", "insufficient", "timeout", "timed_out", "cancel", "overload", "unavailable", "exhausted",
	"interrupt", "killed", "crash", "unload", "not_finished",
}

func parseFinish(v jsonx.Value) (f Finish, failed bool) {
	if f, known := parseChatFinishValue(v); known {
		return f, false
	}
	word := strings.ToLower(string(v.AppendText(nil)))
	if f, known := parseChatFinish([]byte(word)); known {
		return f, false
	}
	if f, known := vendorFinishes[word]; known {
		return f, false
	}
	isIn := func(stem string) bool { return strings.Contains(word, stem) }
	return FinishStop, slices.ContainsFunc(failureStems[:], isIn)
}

func parseChatFinishValue(v jsonx.Value) (f Finish, known bool) {
	text, plain := v.Text()
	if !plain {
		return FinishNone, false
	}
	return parseChatFinish(text)
}

// replacementFinish returns the JSON string that replaces a finish_reason, or nil if the
// finish_reason is kept. called is true if the choice has tool calls. Agents run tool calls only if
// the finish_reason is tool_calls.
func replacementFinish(v jsonx.Value, called bool) []byte {
	f, _ := parseFinish(v)
	if f == FinishStop && called {
		return quotedToolCalls
	}
	if _, known := parseChatFinishValue(v); known {
		return nil
	}
	return quotedFinishes[f]
}

var (
	quotedToolCalls = []byte(`"tool_calls"`)
	quotedFinishes  = [...][]byte{
		FinishStop: []byte(`"stop"`), FinishLength: []byte(`"length"`), FinishToolCalls: quotedToolCalls,
		FinishContentFilter: []byte(`"content_filter"`),
	}
)

// ReplaceLegacyFinish returns the replacement for the finish_reason v of a legacy completion, or
// nil. failed is true if the engine aborted the choice.
func ReplaceLegacyFinish(v jsonx.Value) (word []byte, failed bool) {
	if !v.HasText() {
		return nil, false
	}
	if _, failed = parseFinish(v); failed {
		return nil, true
	}
	return replacementFinish(v, false), false
}

// AbortedError returns the error for a choice that the engine aborted.
func AbortedError() *engineerror.Error {
	return &engineerror.Error{Status: 502, Type: "generation_aborted"}
}
