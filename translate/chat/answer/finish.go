package answer

import (
	"slices"
	"strings"

	"penstock/translate"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
)

// Finish says how a choice ended.
type Finish = translate.Finish

// The values of Finish.
const (
	FinishNone          = translate.FinishNone
	FinishStop          = translate.FinishStop
	FinishLength        = translate.FinishLength
	FinishToolCalls     = translate.FinishToolCalls
	FinishContentFilter = translate.FinishContentFilter
)

// chatWord recognizes only the finish_reasons of the chat dialect, because typed SDKs reject any
// others.
func chatWord(word []byte) (f Finish, known bool) {
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

// otherWords lists other finish_reasons that engines and hosts send, in lower case. A finish_reason
// that is neither listed nor a failure means FinishStop. Examples are TGI's eos_token and
// stop_sequence, Together's eos, and Cohere's COMPLETE.
var otherWords = map[string]Finish{
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

func finishOf(v jsonx.Value) (f Finish, failed bool) {
	if f, known := wordOf(v); known {
		return f, false
	}
	word := strings.ToLower(string(v.AppendText(nil)))
	if f, known := chatWord([]byte(word)); known {
		return f, false
	}
	if f, known := otherWords[word]; known {
		return f, false
	}
	isIn := func(stem string) bool { return strings.Contains(word, stem) }
	return FinishStop, slices.ContainsFunc(failureStems[:], isIn)
}

func wordOf(v jsonx.Value) (f Finish, known bool) {
	text, plain := v.Text()
	if !plain {
		return FinishNone, false
	}
	return chatWord(text)
}

// endWord returns the JSON string that replaces a finish_reason, or nil if the finish_reason is
// kept. called is true if the choice has tool calls. Agents run tool calls only if the
// finish_reason is tool_calls.
func endWord(v jsonx.Value, called bool) []byte {
	f, _ := finishOf(v)
	if f == FinishStop && called {
		return toolCallsWord
	}
	if _, known := wordOf(v); known {
		return nil
	}
	return quotedWords[f]
}

var (
	toolCallsWord = []byte(`"tool_calls"`)
	quotedWords   = [...][]byte{
		FinishStop: []byte(`"stop"`), FinishLength: []byte(`"length"`), FinishToolCalls: toolCallsWord,
		FinishContentFilter: []byte(`"content_filter"`),
	}
)

// ClosedFinish returns the replacement for the finish_reason v of a legacy completion, or nil.
// failed is true if the engine aborted the choice.
func ClosedFinish(v jsonx.Value) (word []byte, failed bool) {
	if !v.HasText() {
		return nil, false
	}
	if _, failed = finishOf(v); failed {
		return nil, true
	}
	return endWord(v, false), false
}

// Aborted returns the error for a choice that the engine aborted.
func Aborted() *engineerror.Error {
	return &engineerror.Error{Status: 502, Type: "generation_aborted"}
}
