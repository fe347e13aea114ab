package answer

import (
	"slices"
	"strings"

	"penstock/translate"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
)

// Finish is how a choice ended.
type Finish = translate.Finish

// The ways a choice ends.
const (
	FinishNone          = translate.FinishNone
	FinishStop          = translate.FinishStop
	FinishLength        = translate.FinishLength
	FinishToolCalls     = translate.FinishToolCalls
	FinishContentFilter = translate.FinishContentFilter
)

// chatWord knows the values of finish_reason that clients of chat know. SDKs with types refuse
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

// otherWords are the words of engines and hosts for these, in lower case. What is neither here nor
// a failure is FinishStop: TGI's eos_token and stop_sequence, Together's eos, Cohere's COMPLETE.
var otherWords = map[string]Finish{
	"max_tokens": FinishLength, "model_length": FinishLength, "max_length": FinishLength,
	"max_output_tokens": FinishLength, "model_context_window_exceeded": FinishLength,
	"tool_call": FinishToolCalls, "tool_use": FinishToolCalls,
	"refusal": FinishContentFilter, "safety": FinishContentFilter, "recitation": FinishContentFilter,
	"blocklist": FinishContentFilter, "prohibited_content": FinishContentFilter, "spii": FinishContentFilter,
	"error_toxic": FinishContentFilter,
}

// failureStems are what the words for a choice that the engine gave up have in common: abort (SGLang,
// vLLM), error (vLLM, Mistral, OpenRouter), timeout and cancelled (TensorRT-LLM),
// insufficient_system_resource (DeepSeek). An answer that ends so is not whole.
var failureStems = [...]string{
	"abort", "error", "fail", "insufficient", "timeout", "timed_out", "cancel", "overload", "unavailable", "exhausted",
	"interrupt", "killed", "crash", "unload", "not_finished",
}

// finishOf returns what a finish_reason means, and whether it is a word for a failure.
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

// wordOf is chatWord of the text of v, as it is.
func wordOf(v jsonx.Value) (f Finish, known bool) {
	text, plain := v.Text()
	if !plain {
		return FinishNone, false
	}
	return chatWord(text)
}

// endWord returns the JSON string that stands in the place of a finish_reason; nil: it stays.
// called: the choice has tool calls, which agents run for that word alone.
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

// ClosedFinish returns the JSON string that stands in the place of the finish_reason v of a legacy
// completion; nil: it stays. failed: it is a word for a choice that the engine gave up.
func ClosedFinish(v jsonx.Value) (word []byte, failed bool) {
	if !v.HasText() {
		return nil, false
	}
	if _, failed = finishOf(v); failed {
		return nil, true
	}
	return endWord(v, false), false
}

// Aborted is the error of a choice that the engine gave up: another engine may do better.
func Aborted() *engineerror.Error {
	return &engineerror.Error{Status: 502, Type: "generation_aborted"}
}
