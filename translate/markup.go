package translate

import (
	"bytes"

	"penstock/translate/jsonx"
)

// Offered is what a request offers a model beside text, and what an engine should therefore tell
// apart in its answer.
type Offered struct{ Tools bool }

// Markup is a word of a model's own markup that an answer's text begins with, 0 for none. Engines
// take such words out when they read tool calls and reasoning out of what a model has written; one
// that shows them has no parser for the model, or the wrong one.
type Markup uint8

// leaks are the words, by their number. An answer that begins with one of a tool call is suspect
// where tools were offered. One of reasoning always is: a model thinks unasked, and one that the file
// says nothing of may be one that does.
var leaks = [...]struct {
	text      string
	of        Offered
	reasoning bool
}{
	{},
	{"<tool_call>", Offered{Tools: true}, false},          // Hermes, Qwen
	{"<tool_calls>", Offered{Tools: true}, false},         // MiniMax M1, Jamba
	{"<function=", Offered{Tools: true}, false},           // Qwen3-Coder, Llama 3.1
	{"<function_call>", Offered{Tools: true}, false},      // Gemma, Granite
	{"<|tool_call", Offered{Tools: true}, false},          // Phi-4, Granite, Kimi
	{"<|python_tag|>", Offered{Tools: true}, false},       // Llama 3
	{"[TOOL_CALLS]", Offered{Tools: true}, false},         // Mistral
	{"<minimax:tool_call>", Offered{Tools: true}, false},  // MiniMax M2
	{"<｜tool▁calls▁begin｜>", Offered{Tools: true}, false}, // DeepSeek
	{"<think>", Offered{}, true},                          // DeepSeek, Qwen
	{"</think>", Offered{}, true},                         // the same, whose template has opened it
	{"<|channel|>", Offered{Tools: true}, true},           // gpt-oss
}

// String returns the word.
func (m Markup) String() string { return leaks[m].text }

// Suspect reports whether the engine should have taken the word out.
func (m Markup) Suspect(o Offered) bool {
	of := leaks[m].of
	return of.Tools && o.Tools || leaks[m].reasoning
}

// Opening looks for markup at the beginning of an answer's text, in whatever pieces it comes.
// Nearly always it is done with the first.
type Opening struct {
	text   [32]byte // longer than any of the words
	n      uint8
	Done   bool
	Markup Markup
}

// Add takes the next piece.
func (o *Opening) Add(v jsonx.Value) {
	if !v.HasText() {
		return
	}
	text, plain := v.Text()
	if !plain {
		text = v.AppendText(nil)
	}
	if o.n == 0 {
		text = bytes.TrimLeft(text, " \t\r\n")
	}
	if len(text) == 0 {
		return
	}
	if o.n == 0 && text[0] != '<' && text[0] != '[' { // as every of the words begins
		o.Done = true
		return
	}
	o.n += uint8(copy(o.text[o.n:], text))
	begun := o.text[:o.n]
	o.Done = true
	for i := 1; i < len(leaks); i++ {
		switch word := leaks[i].text; {
		case bytes.HasPrefix(begun, []byte(word)):
			o.Markup = Markup(i)
			return
		case len(begun) < len(word) && word[:len(begun)] == string(begun):
			o.Done = false // it may become one
		}
	}
}
