package client

import (
	"penstock/bench/result"
	"penstock/translate/jsonx"
)

// ToolCall is a tool call in a response.
type ToolCall struct {
	ID, Name, Args []byte
}

// Reply collects facts about a response. It is reused for the next response.
type Reply struct {
	doc *jsonx.Doc

	ended  bool   // the dialect's end event was received
	done   bool   // [DONE] was received
	failed bool   // an error event was received
	code   string // error code in that event
	finish string
	faults faultSet

	in, out, cached int // -1 if not reported

	keepText bool // whether to store the text, which the next turn or the token count needs
	Text     []byte
	Size     int // bytes of visible text
	Calls    []ToolCall

	startSeen bool  // message_start (messages) or response.created (responses) was received
	block     bool  // a content block is open (messages)
	seq       int64 // last sequence_number (responses)
}

func (p *Reply) reset(keep bool) {
	*p = Reply{doc: p.doc, in: -1, out: -1, cached: -1, seq: -1, keepText: keep, Text: p.Text[:0], Calls: p.Calls[:0]}
}

// parseUnlessDone is like parse, for dialects whose streams end with [DONE].
func (p *Reply) parseUnlessDone(data []byte) (jsonx.Value, bool) {
	if string(data) == "[DONE]" {
		p.done = true
		return jsonx.Value{}, false
	}
	return p.parse(data)
}

// parse parses the data of an event. Invalid data is recorded as a fault, and null is ignored.
func (p *Reply) parse(data []byte) (jsonx.Value, bool) {
	if string(data) == "null" {
		return jsonx.Value{}, false
	}
	if err := p.doc.Parse(data, jsonx.Options{}); err != nil || !p.doc.Root().IsObject() {
		p.faults.Add(result.FaultUnparsed)
		return jsonx.Value{}, false
	}
	return p.doc.Root(), true
}

// addText records visible text, and returns contentText if the text is not empty.
func (p *Reply) addText(v jsonx.Value) contentKinds {
	n := len(v.Raw()) - 2
	if !v.IsString() || n <= 0 {
		return 0
	}
	if p.Size += n; p.keepText {
		p.Text = v.AppendText(p.Text)
	}
	return contentText
}

// reasoningKind returns contentReasoning if the text is not empty.
func (p *Reply) reasoningKind(v jsonx.Value) contentKinds {
	if !v.IsString() || len(v.Raw()) <= 2 {
		return 0
	}
	return contentReasoning
}

// getOrAddCall returns tool call number i, and creates it if necessary. It returns nil if i is
// implausible.
func (p *Reply) getOrAddCall(i int) *ToolCall {
	if i < 0 || i > 128 {
		p.faults.Add(result.FaultOrder)
		return nil
	}
	for len(p.Calls) <= i {
		if len(p.Calls) < cap(p.Calls) {
			p.Calls = p.Calls[:len(p.Calls)+1]
		} else {
			p.Calls = append(p.Calls, ToolCall{})
		}
		c := &p.Calls[len(p.Calls)-1]
		c.ID, c.Name, c.Args = c.ID[:0], c.Name[:0], c.Args[:0]
	}
	return &p.Calls[i]
}

func (p *Reply) beginToolCall(id, name jsonx.Value) contentKinds {
	c := p.getOrAddCall(len(p.Calls))
	if c == nil {
		return 0
	}
	c.ID, c.Name = id.AppendText(c.ID), name.AppendText(c.Name)
	return contentToolCall
}

// addArguments records a piece of the arguments of the last tool call.
func (p *Reply) addArguments(v jsonx.Value) contentKinds {
	if len(v.Raw()) <= 2 || len(p.Calls) == 0 {
		return 0
	}
	c := &p.Calls[len(p.Calls)-1]
	c.Args = v.AppendText(c.Args)
	return contentToolCall
}

// usageMembers are the member names of a dialect's usage object.
type usageMembers struct{ in, out, details string }

var (
	chatUsage      = usageMembers{"prompt_tokens", "completion_tokens", "prompt_tokens_details"}
	responsesUsage = usageMembers{"input_tokens", "output_tokens", "input_tokens_details"}
)

func (p *Reply) readUsage(v jsonx.Value, names *usageMembers) {
	if !v.IsObject() {
		return
	}
	storeInt(v.Get(names.in), &p.in)
	storeInt(v.Get(names.out), &p.out)
	storeInt(v.Get(names.details).Get("cached_tokens"), &p.cached)
}

// readError reads an error object.
func (p *Reply) readError(v jsonx.Value) {
	p.failed = true
	p.code = errorCode(v)
}

func errorCode(v jsonx.Value) string {
	for _, name := range []string{"code", "type"} {
		if c := v.Get(name); c.IsString() {
			if w := SafeIdentifier(c.AppendText(nil)); w != "" {
				return w
			}
		}
	}
	return ""
}

// commonIdentifiers contains frequent identifiers, which SafeIdentifier returns without an
// allocation.
var commonIdentifiers = []string{
	"stop", "length", "tool_calls", "end_turn", "max_tokens", "tool_use", "stop_sequence",
	"completed", "incomplete", "max_output_tokens", "content_filter",
}

// SafeIdentifier returns b if it is an identifier of at most 64 characters, and "" otherwise.
// Identifiers are the only texts from a server that a result contains.
func SafeIdentifier(b []byte) string {
	for _, w := range commonIdentifiers {
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

func identifierFromJSON(v jsonx.Value) string {
	if t, ok := v.Text(); ok {
		return SafeIdentifier(t)
	}
	return ""
}

func storeInt(v jsonx.Value, out *int) {
	if n, ok := v.Int(); ok {
		*out = int(n)
	}
}

// checkToolArguments checks that the arguments of every tool call are JSON, unless the response was
// truncated at its token limit.
func checkToolArguments(p *Reply) {
	switch p.finish {
	case "length", "max_tokens", "incomplete":
		return
	}
	for i := range p.Calls {
		if args := p.Calls[i].Args; len(args) > 0 && p.doc.Parse(args, jsonx.Options{Record: 1}) != nil {
			p.faults.Add(result.FaultToolJSON)
		}
	}
}
