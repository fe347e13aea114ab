package chat

import "penstock/translate/jsonx"

// PartialAnswer is the partial answer that another engine continues. The texts are contents of JSON
// strings and end at character boundaries.
type PartialAnswer struct {
	Text, Reasoning []byte
	Tokens          int // tokens already generated, which count against the token limit
}

// unresumableMembers lists the members that rule out a continuation. There are three kinds:
//
//   - Some impose a structure on the whole answer, which an engine cannot resume halfway.
//   - Some report the answer's tokens one by one.
//   - Others let the client control how the engine reads the last message.
var unresumableMembers = [...]string{
	"grammar", "json_schema", "ebnf", "regex", "structural_tag", "structured_outputs", "response_schema",
	"guided_json", "guided_regex", "guided_choice", "guided_grammar", "echo", "prompt_logprobs", "return_token_ids",
	"continue_final_message", "add_generation_prompt",
}

// IsResumable reports whether a second engine could continue the first engine's answer. The answer
// must have one choice and consist only of text. It must have neither structured output nor log
// probabilities, and the request must contain none of unresumableMembers.
func IsResumable(r *Request) bool {
	logprobs := r.members[memberLogprobsIndex].Kind() == jsonx.True || IsGiven(r.members[memberTopLogprobsIndex])
	if r.N != 1 || r.StructuredOutput || logprobs {
		return false
	}
	root := r.doc.Root()
	for _, name := range unresumableMembers {
		if v := root.Get(name); IsGiven(v) && v.Kind() != jsonx.False {
			return false
		}
	}
	last := lastMessage(r)
	return !last.Get("role").EqualText("assistant") || r.Prefilled && last.Get("content").IsString()
}

func lastMessage(r *Request) jsonx.Value {
	messages := r.Messages()
	return messages.Index(messages.Len() - 1)
}

// AttachTo makes the next engine of r continue b. The caller must not change b until the request to
// that engine is written.
func (b *PartialAnswer) AttachTo(r *Request) { r.partial, r.Tokens.generated = b, b.Tokens }

// patchMessages adds b to the engine's messages. If the client's last message is the start of the
// answer, patchMessages extends that message. Otherwise it adds a message. reasoning is the member
// from which the engine reads the reasoning in a message.
func (b *PartialAnswer) patchMessages(p *requestPatch, r *Request, reasoning string) {
	n := len(p.newText)
	if r.Prefilled {
		p.newText = append(p.newText, b.Text...)
		p.edits.Insert(lastMessage(r).Get("content").End()-1, p.newTextFrom(n))
		return
	}
	p.newText = append(p.newText, `{"role":"assistant",`...)
	if len(b.Reasoning) > 0 && reasoning != "" {
		p.newText = append(append(append(p.newText, '"'), reasoning...), `":"`...)
		p.newText = append(append(p.newText, b.Reasoning...), `",`...)
	}
	p.newText = append(append(append(p.newText, `"content":"`...), b.Text...), `"}`...)
	p.edits.Add(r.Messages(), p.newTextFrom(n))
}
