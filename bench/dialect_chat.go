package bench

import (
	"strconv"

	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

func chatBody(dst []byte, q *request) []byte {
	dst = append(dst, `{"model":`...)
	dst = jsonx.AppendStringS(dst, q.model)
	dst = append(dst, `,"messages":[`...)
	for i := range q.messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendChatMessage(dst, &q.messages[i])
	}
	dst = append(dst, `],"max_tokens":`...)
	dst = strconv.AppendInt(dst, int64(q.outWanted), 10)
	return q.appendRest(dst, true)
}

func appendChatMessage(dst []byte, m *message) []byte {
	if len(m.results) > 0 { // each in a message of its own
		for i, r := range m.results {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, `{"role":"tool","tool_call_id":`...)
			dst = jsonx.AppendString(dst, r.id)
			dst = append(dst, `,"content":`...)
			dst = jsonx.AppendString(dst, r.text)
			dst = append(dst, '}')
		}
		return dst
	}
	dst = append(dst, `{"role":"`...)
	dst = append(dst, m.role...)
	dst = append(dst, `","content":`...)
	switch {
	case len(m.images) > 0:
		dst = append(dst, `[{"type":"text","text":`...)
		dst = jsonx.AppendString(dst, m.text)
		dst = append(dst, '}')
		for _, url := range m.images {
			dst = append(dst, `,{"type":"image_url","image_url":{"url":"`...)
			dst = append(dst, url...)
			dst = append(dst, `"}}`...)
		}
		dst = append(dst, ']')
	case len(m.text) == 0 && len(m.calls) > 0:
		dst = append(dst, "null"...)
	default:
		dst = jsonx.AppendString(dst, m.text)
	}
	for i, c := range m.calls {
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"id":`...)
		dst = jsonx.AppendString(dst, c.id)
		dst = append(dst, `,"type":"function","function":{"name":`...)
		dst = jsonx.AppendString(dst, c.name)
		dst = append(dst, `,"arguments":`...)
		dst = jsonx.AppendString(dst, c.args)
		dst = append(dst, `}}`...)
	}
	if len(m.calls) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// The members of a chunk that matter.
var (
	chunkNames = jsonx.NewNames("choices", "usage", "error")
	deltaNames = jsonx.NewNames("content", "reasoning", "reasoning_content", "tool_calls")
)

func chatEvent(p *reply, ev sse.Event) pieces {
	if string(ev.Data) == "[DONE]" {
		p.done = true
		return 0
	}
	root, ok := p.parse(ev.Data)
	if !ok {
		return 0
	}
	var members [3]jsonx.Value
	if chunkNames.Fields(root, members[:]) != nil {
		p.faults.add(FaultUnparsed)
		return 0
	}
	if members[2].IsObject() {
		p.fail(members[2])
		return 0
	}
	var got pieces
	for it := members[0].Iter(); it.Next(); {
		choice := it.Value()
		got |= p.delta(choice.Get("delta"))
		if f := choice.Get("finish_reason"); f.IsString() {
			p.ended, p.finish = true, textWord(f)
		}
	}
	p.chatUsage(members[1])
	if got != 0 && p.done {
		p.faults.add(FaultAfterEnd)
	}
	return got
}

// delta takes the delta of a choice; of an answer that was not streamed, its message.
func (p *reply) delta(v jsonx.Value) pieces {
	var members [4]jsonx.Value
	if deltaNames.Fields(v, members[:]) != nil {
		p.faults.add(FaultUnparsed)
		return 0
	}
	got := p.say(members[0]) | p.think(members[1]) | p.think(members[2])
	for it := members[3].Iter(); it.Next(); {
		at := it.Index()
		setInt(it.Value().Get("index"), &at)
		c := p.call(at)
		if c == nil {
			break
		}
		f := it.Value().Get("function")
		c.id = it.Value().Get("id").AppendText(c.id)
		c.name = f.Get("name").AppendText(c.name)
		c.args = f.Get("arguments").AppendText(c.args)
		got |= pieceTool
	}
	return got
}

func (p *reply) chatUsage(v jsonx.Value) {
	if !v.IsObject() {
		return
	}
	setInt(v.Get("prompt_tokens"), &p.in)
	setInt(v.Get("completion_tokens"), &p.out)
	setInt(v.Get("prompt_tokens_details").Get("cached_tokens"), &p.cached)
}

func chatWhole(p *reply, body []byte) bool {
	if p.doc.Parse(body, jsonx.Options{}) != nil {
		return false
	}
	choice := p.doc.Root().Get("choices").Index(0)
	m := choice.Get("message")
	if !m.IsObject() {
		return false
	}
	p.delta(m)
	p.finish = textWord(choice.Get("finish_reason"))
	p.chatUsage(p.doc.Root().Get("usage"))
	p.ended = true
	toolEnd(p)
	return true
}

func chatEnd(p *reply) {
	if p.ended && !p.done {
		p.faults.add(FaultNoDone)
	}
	toolEnd(p)
}

func completionsBody(dst []byte, q *request) []byte {
	dst = append(dst, `{"model":`...)
	dst = jsonx.AppendStringS(dst, q.model)
	dst = append(dst, `,"prompt":"`...)
	for i := range q.messages {
		if i > 0 {
			dst = append(dst, `\n`...)
		}
		dst = jsonx.AppendEscaped(dst, q.messages[i].text)
	}
	dst = append(dst, `","max_tokens":`...)
	dst = strconv.AppendInt(dst, int64(q.outWanted), 10)
	return q.appendRest(dst, true)
}

func completionsEvent(p *reply, ev sse.Event) pieces {
	if string(ev.Data) == "[DONE]" {
		p.done = true
		return 0
	}
	root, ok := p.parse(ev.Data)
	if !ok {
		return 0
	}
	if e := root.Get("error"); e.IsObject() {
		p.fail(e)
		return 0
	}
	var got pieces
	for it := root.Get("choices").Iter(); it.Next(); {
		got |= p.say(it.Value().Get("text"))
		if f := it.Value().Get("finish_reason"); f.IsString() {
			p.ended, p.finish = true, textWord(f)
		}
	}
	p.chatUsage(root.Get("usage"))
	if got != 0 && p.done {
		p.faults.add(FaultAfterEnd)
	}
	return got
}

func completionsWhole(p *reply, body []byte) bool {
	if p.doc.Parse(body, jsonx.Options{}) != nil {
		return false
	}
	choice := p.doc.Root().Get("choices").Index(0)
	if !choice.Get("text").IsString() {
		return false
	}
	p.say(choice.Get("text"))
	p.finish = textWord(choice.Get("finish_reason"))
	p.chatUsage(p.doc.Root().Get("usage"))
	p.ended = true
	return true
}
