package chat

import "penstock/translate/jsonx"

// Begun is the beginning of an answer, as far as its client has it, for another engine to go on
// with. The texts are contents of JSON strings, of whole characters.
type Begun struct {
	Text, Reasoning []byte
	Tokens          int // what it counts as
}

// steered are members by which the whole of an answer has a form, of which an engine cannot be
// given a part; by which its tokens are told one by one; or by which the client itself says what
// the last message is.
var steered = [...]string{
	"grammar", "json_schema", "ebnf", "regex", "structural_tag", "structured_outputs", "response_schema",
	"guided_json", "guided_regex", "guided_choice", "guided_grammar", "echo", "prompt_logprobs", "return_token_ids",
	"continue_final_message", "add_generation_prompt",
}

// Continues reports whether an engine could go on with what another one has said: there is one
// answer, in words alone.
func Continues(r *Request) bool {
	logprobs := r.members[memberLogprobs].Kind() == jsonx.True || Given(r.members[memberTopLogprobs])
	if r.N != 1 || r.StructuredOutput || logprobs {
		return false
	}
	root := r.doc.Root()
	for _, name := range steered {
		if v := root.Get(name); Given(v) && v.Kind() != jsonx.False {
			return false
		}
	}
	last := lastMessage(r)
	return !last.Get("role").EqualText("assistant") || r.Prefilled && last.Get("content").IsString()
}

// lastMessage is the last element of messages.
func lastMessage(r *Request) jsonx.Value {
	messages := r.Messages()
	return messages.Index(messages.Len() - 1)
}

// GoOn has the next engine of r go on with b, which is borrowed until then. The limit on the
// answer's tokens is that of the rest.
func (b *Begun) GoOn(r *Request) { r.begun, r.Tokens.said = b, b.Tokens }

// GoesOn reports whether the next engine of r goes on with what another one has said.
func GoesOn(r *Request) bool { return r.begun != nil }

// patch has the conversation end with what has been said: in a message of its own, or in the one
// that the client has begun the answer with. reasoning is the member of a message that the engine
// reads it from.
func (b *Begun) patch(p *patch, r *Request, reasoning string) {
	n := len(p.text)
	if r.Prefilled {
		p.text = append(p.text, b.Text...)
		p.edits.Insert(lastMessage(r).Get("content").End()-1, p.from(n))
		return
	}
	p.text = append(p.text, `{"role":"assistant",`...)
	if len(b.Reasoning) > 0 && reasoning != "" {
		p.text = append(append(append(p.text, '"'), reasoning...), `":"`...)
		p.text = append(append(p.text, b.Reasoning...), `",`...)
	}
	p.text = append(append(append(p.text, `"content":"`...), b.Text...), `"}`...)
	p.edits.Add(r.Messages(), p.from(n))
}
