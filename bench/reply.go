package bench

import "penstock/translate/jsonx"

// toolCall is a call in a reply.
type toolCall struct {
	id, name, args []byte
}

// reply is what is gathered from one answer. It is reused.
type reply struct {
	doc *jsonx.Doc

	ended  bool   // what ends a stream of the dialect came
	done   bool   // [DONE] came
	failed bool   // an error event came
	code   string // of the error
	finish string
	faults faultSet

	in, out, cached int // -1: not said

	keep  bool // keep the text, for a next turn or to count its tokens
	text  []byte
	size  int // bytes of text
	calls []toolCall

	begun bool  // messages: message_start came; responses: response.created
	block bool  // messages: a content block is open
	seq   int64 // responses: last sequence_number
}

func (p *reply) reset(keep bool) {
	*p = reply{doc: p.doc, in: -1, out: -1, cached: -1, seq: -1, keep: keep, text: p.text[:0], calls: p.calls[:0]}
}

// parseOrDone is parse for the dialects whose streams close with [DONE].
func (p *reply) parseOrDone(data []byte) (jsonx.Value, bool) {
	if string(data) == "[DONE]" {
		p.done = true
		return jsonx.Value{}, false
	}
	return p.parse(data)
}

// parse parses an event's data; a failure is a fault. Null says nothing.
func (p *reply) parse(data []byte) (jsonx.Value, bool) {
	if string(data) == "null" {
		return jsonx.Value{}, false
	}
	if err := p.doc.Parse(data, jsonx.Options{}); err != nil || !p.doc.Root().IsObject() {
		p.faults.add(FaultUnparsed)
		return jsonx.Value{}, false
	}
	return p.doc.Root(), true
}

// say takes a piece of visible text and reports it, if it is not empty.
func (p *reply) say(v jsonx.Value) pieces {
	n := len(v.Raw()) - 2
	if !v.IsString() || n <= 0 {
		return 0
	}
	if p.size += n; p.keep {
		p.text = v.AppendText(p.text)
	}
	return pieceText
}

// think takes a piece of reasoning.
func (p *reply) think(v jsonx.Value) pieces {
	if !v.IsString() || len(v.Raw()) <= 2 {
		return 0
	}
	return pieceReasoning
}

// call returns the i-th tool call, made when it is new; nil when i is out of all reason.
func (p *reply) call(i int) *toolCall {
	if i < 0 || i > 128 {
		p.faults.add(FaultOrder)
		return nil
	}
	for len(p.calls) <= i {
		if len(p.calls) < cap(p.calls) {
			p.calls = p.calls[:len(p.calls)+1]
		} else {
			p.calls = append(p.calls, toolCall{})
		}
		c := &p.calls[len(p.calls)-1]
		c.id, c.name, c.args = c.id[:0], c.name[:0], c.args[:0]
	}
	return &p.calls[i]
}

// begin begins a tool call behind those that there are.
func (p *reply) begin(id, name jsonx.Value) pieces {
	c := p.call(len(p.calls))
	if c == nil {
		return 0
	}
	c.id, c.name = id.AppendText(c.id), name.AppendText(c.name)
	return pieceTool
}

// argue takes a piece of the last call's arguments.
func (p *reply) argue(v jsonx.Value) pieces {
	if len(v.Raw()) <= 2 || len(p.calls) == 0 {
		return 0
	}
	c := &p.calls[len(p.calls)-1]
	c.args = v.AppendText(c.args)
	return pieceTool
}

// usageMembers are the names in a dialect's usage object.
type usageMembers struct{ in, out, details string }

var (
	chatUsage      = usageMembers{"prompt_tokens", "completion_tokens", "prompt_tokens_details"}
	responsesUsage = usageMembers{"input_tokens", "output_tokens", "input_tokens_details"}
)

// usage takes a usage object.
func (p *reply) usage(v jsonx.Value, names *usageMembers) {
	if !v.IsObject() {
		return
	}
	setInt(v.Get(names.in), &p.in)
	setInt(v.Get(names.out), &p.out)
	setInt(v.Get(names.details).Get("cached_tokens"), &p.cached)
}

// fail takes an error object: {"code":…,"type":…}.
func (p *reply) fail(v jsonx.Value) {
	p.failed = true
	p.code = errorCode(v)
}

// errorCode is the code of an error object, or its type.
func errorCode(v jsonx.Value) string {
	for _, name := range []string{"code", "type"} {
		if c := v.Get(name); c.IsString() {
			if w := word(c.AppendText(nil)); w != "" {
				return w
			}
		}
	}
	return ""
}

// words are the texts that answers usually hold, so that they need not be made anew.
var words = []string{"stop", "length", "tool_calls", "end_turn", "max_tokens", "tool_use", "stop_sequence", "completed", "incomplete", "max_output_tokens", "content_filter"}

// word returns b when it is an identifier of at most 64 characters, else nothing: no text of a server gets into a result.
func word(b []byte) string {
	for _, w := range words {
		if string(b) == w {
			return w
		}
	}
	if len(b) > 64 {
		return ""
	}
	for _, c := range b {
		if c != '_' && c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return ""
		}
	}
	return string(b)
}

// text returns the word in v.
func textWord(v jsonx.Value) string {
	if t, ok := v.Text(); ok {
		return word(t)
	}
	return ""
}

// setInt sets out to the integer in v, if it is one.
func setInt(v jsonx.Value, out *int) {
	if n, ok := v.Int(); ok {
		*out = int(n)
	}
}

// toolEnd checks that the arguments of every tool call are JSON, unless the answer was cut for its length.
func toolEnd(p *reply) {
	switch p.finish {
	case "length", "max_tokens", "incomplete":
		return
	}
	for i := range p.calls {
		if args := p.calls[i].args; len(args) > 0 && p.doc.Parse(args, jsonx.Options{Record: 1}) != nil {
			p.faults.add(FaultToolJSON)
		}
	}
}
