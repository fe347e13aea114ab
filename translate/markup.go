package translate

import (
	"bytes"

	"penstock/translate/jsonx"
)

// OfferedFeatures describes the features that a request offers to the model.
type OfferedFeatures struct{ Tools bool }

// Markup identifies a word of the model's internal markup at the start of an answer's text. 0 means
// that the text does not start with a markup word. If clients can see the word, the engine has no
// parser for the model, or the wrong parser.
type Markup uint8

// A tool call word is suspect if the request offers tools. A reasoning word is always suspect,
// because models may reason without being asked to.
var markupWords = [...]struct {
	text      string
	of        OfferedFeatures
	reasoning bool
}{
	{},
	{"<tool_call>", OfferedFeatures{Tools: true}, false},          // Hermes, Qwen
	{"<tool_calls>", OfferedFeatures{Tools: true}, false},         // MiniMax M1, Jamba
	{"<function=", OfferedFeatures{Tools: true}, false},           // Qwen3-Coder, Llama 3.1
	{"<function_call>", OfferedFeatures{Tools: true}, false},      // Gemma, Granite
	{"<|tool_call", OfferedFeatures{Tools: true}, false},          // Phi-4, Granite, Kimi
	{"<|python_tag|>", OfferedFeatures{Tools: true}, false},       // Llama 3
	{"[TOOL_CALLS]", OfferedFeatures{Tools: true}, false},         // Mistral
	{"<minimax:tool_call>", OfferedFeatures{Tools: true}, false},  // MiniMax M2
	{"<｜tool▁calls▁begin｜>", OfferedFeatures{Tools: true}, false}, // DeepSeek
	{"<think>", OfferedFeatures{}, true},                          // DeepSeek, Qwen
	// The same models, if the chat template already wrote <think>.
	{"</think>", OfferedFeatures{}, true},
	{"<|channel|>", OfferedFeatures{Tools: true}, true}, // gpt-oss
}

// String returns the markup word.
func (m Markup) String() string { return markupWords[m].text }

// IsSuspect reports whether the engine should have removed the word.
func (m Markup) IsSuspect(o OfferedFeatures) bool {
	of := markupWords[m].of
	return of.Tools && o.Tools || markupWords[m].reasoning
}

// MarkupDetector looks for markup at the start of an answer's text. It nearly always needs only the
// first piece.
type MarkupDetector struct {
	text   [32]byte // longer than any markup word
	n      uint8
	Done   bool
	Markup Markup
}

// AddValue reads the next piece.
func (o *MarkupDetector) AddValue(v jsonx.Value) {
	if !v.HasText() {
		return
	}
	text, plain := v.Text()
	if !plain {
		text = v.AppendText(nil)
	}
	o.AddText(text)
}

// AddText reads the next piece, which must not contain JSON escapes.
func (o *MarkupDetector) AddText(text []byte) {
	for o.n == 0 && len(text) > 0 && (text[0] == ' ' || text[0] == '\t' || text[0] == '\r' || text[0] == '\n') {
		text = text[1:]
	}
	if len(text) == 0 {
		return
	}
	if o.n == 0 && text[0] != '<' && text[0] != '[' { // every markup word starts with one of these bytes
		o.Done = true
		return
	}
	o.n += uint8(copy(o.text[o.n:], text))
	begun := o.text[:o.n]
	o.Done = true
	for i := 1; i < len(markupWords); i++ {
		switch word := markupWords[i].text; {
		case bytes.HasPrefix(begun, []byte(word)):
			o.Markup = Markup(i)
			return
		case len(begun) < len(word) && word[:len(begun)] == string(begun):
			o.Done = false // the text may still become this word
		}
	}
}
