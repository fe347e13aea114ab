package client

import (
	"penstock/bench/result"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

func appendChatBody(dst []byte, q *Request) []byte {
	dst = append(q.appendModelMember(dst), `,"messages":[`...)
	for i := range q.Messages {
		dst = appendChatMessage(dst, &q.Messages[i])
	}
	return q.appendCommonMembers(append(dst, ']'), "max_tokens", true)
}

func appendChatMessage(dst []byte, m *Message) []byte {
	for _, r := range m.Results { // each result becomes a separate message
		dst = appendListElement(dst, `{"role":"tool","tool_call_id":%s,"content":%s}`, r.ID, r.Text)
	}
	if len(m.Results) > 0 {
		return dst
	}
	dst = appendListElement(dst, `{"role":"%r","content":`, []byte(m.Role))
	switch {
	case len(m.Images) > 0:
		dst = appendFormat(dst, `[{"type":"text","text":%s}`, m.Text)
		for _, url := range m.Images {
			dst = appendListElement(dst, `{"type":"image_url","image_url":{"url":"%r"}}`, url)
		}
		dst = append(dst, ']')
	case len(m.Text) == 0 && len(m.Calls) > 0:
		dst = append(dst, "null"...)
	default:
		dst = jsonx.AppendString(dst, m.Text)
	}
	if len(m.Calls) > 0 {
		dst = append(dst, `,"tool_calls":[`...)
		for _, c := range m.Calls {
			dst = appendListElement(dst, `{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, c.ID, c.Name, c.Args)
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// Members that the client reads.
var (
	chunkMemberNames = jsonx.NewNameIndex("choices", "usage", "error")
	deltaMemberNames = jsonx.NewNameIndex("content", "reasoning", "reasoning_content", "tool_calls")
)

func readChatEvent(p *Reply, ev sse.Event) contentKinds {
	return p.readChunk(ev, func(choice jsonx.Value) contentKinds { return p.readDelta(choice.Get("delta")) })
}

// readChunk reads an event of chat or completions. take reads a choice, because its format differs
// between these dialects.
func (p *Reply) readChunk(ev sse.Event, take func(choice jsonx.Value) contentKinds) contentKinds {
	root, ok := p.parseUnlessDone(ev.Data)
	if !ok {
		return 0
	}
	var members [3]jsonx.Value
	if chunkMemberNames.Fields(root, members[:]) != nil {
		p.faults.Add(result.FaultUnparsed)
		return 0
	}
	if members[2].IsObject() {
		p.readError(members[2])
		return 0
	}
	var got contentKinds
	for it := members[0].Iter(); it.Next(); {
		choice := it.Value()
		got |= take(choice)
		if f := choice.Get("finish_reason"); f.IsString() {
			p.ended, p.finish = true, identifierFromJSON(f)
		}
	}
	p.readUsage(members[1], &chatUsage)
	if got != 0 && p.done {
		p.faults.Add(result.FaultAfterEnd)
	}
	return got
}

// readDelta reads the delta of a choice, or the message of a response that was not streamed.
func (p *Reply) readDelta(v jsonx.Value) contentKinds {
	var members [4]jsonx.Value
	if deltaMemberNames.Fields(v, members[:]) != nil {
		p.faults.Add(result.FaultUnparsed)
		return 0
	}
	got := p.addText(members[0]) | p.reasoningKind(members[1]) | p.reasoningKind(members[2])
	for it := members[3].Iter(); it.Next(); {
		at := it.Index()
		storeInt(it.Value().Get("index"), &at)
		c := p.getOrAddCall(at)
		if c == nil {
			break
		}
		f := it.Value().Get("function")
		c.ID = it.Value().Get("id").AppendText(c.ID)
		c.Name = f.Get("name").AppendText(c.Name)
		c.Args = f.Get("arguments").AppendText(c.Args)
		got |= contentToolCall
	}
	return got
}

// readFirstChoice reads a response of chat or completions that was not streamed. take reads the
// choice and reports whether it is valid.
func (p *Reply) readFirstChoice(body []byte, take func(choice jsonx.Value) bool) bool {
	if p.doc.Parse(body, jsonx.Options{}) != nil {
		return false
	}
	choice := p.doc.Root().Get("choices").Index(0)
	if !take(choice) {
		return false
	}
	p.finish = identifierFromJSON(choice.Get("finish_reason"))
	p.readUsage(p.doc.Root().Get("usage"), &chatUsage)
	p.ended = true
	checkToolArguments(p)
	return true
}

func readChatResponse(p *Reply, body []byte) bool {
	return p.readFirstChoice(body, func(choice jsonx.Value) bool {
		m := choice.Get("message")
		if m.IsObject() {
			p.readDelta(m)
		}
		return m.IsObject()
	})
}

func endChatReply(p *Reply) {
	if p.ended && !p.done {
		p.faults.Add(result.FaultNoDone)
	}
	checkToolArguments(p)
}

func appendCompletionsBody(dst []byte, q *Request) []byte {
	dst = append(q.appendModelMember(dst), `,"prompt":"`...)
	for i := range q.Messages {
		if i > 0 {
			dst = append(dst, `\n`...)
		}
		dst = jsonx.AppendEscaped(dst, q.Messages[i].Text)
	}
	return q.appendCommonMembers(append(dst, '"'), "max_tokens", true)
}

func readCompletionsEvent(p *Reply, ev sse.Event) contentKinds {
	return p.readChunk(ev, func(choice jsonx.Value) contentKinds { return p.addText(choice.Get("text")) })
}

func readCompletionsResponse(p *Reply, body []byte) bool {
	return p.readFirstChoice(body, func(choice jsonx.Value) bool {
		p.addText(choice.Get("text"))
		return choice.Get("text").IsString()
	})
}
