package client

import (
	"bytes"

	"penstock/bench/result"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

func appendMessagesBody(dst []byte, q *Request) []byte {
	dst, list := q.appendSystemMember(q.appendModelMember(dst), "system")
	dst = append(dst, `,"messages":[`...)
	for i := range list {
		dst = appendMessagesMessage(dst, &list[i])
	}
	return q.appendCommonMembers(append(dst, ']'), "max_tokens", false)
}

func appendMessagesMessage(dst []byte, m *Message) []byte {
	dst = appendListElement(dst, `{"role":"%r","content":[`, []byte(m.Role))
	for _, r := range m.Results {
		dst = appendListElement(dst, `{"type":"tool_result","tool_use_id":%s,"content":%s}`, r.ID, r.Text)
	}
	for _, url := range m.Images {
		head, data, _ := bytes.Cut(bytes.TrimPrefix(url, []byte("data:")), []byte(";base64,"))
		dst = appendListElement(dst, `{"type":"image","source":{"type":"base64","media_type":"%r","data":"%r"}}`, head, data)
	}
	if len(m.Text) > 0 {
		dst = appendListElement(dst, `{"type":"text","text":%s}`, m.Text)
	}
	for _, c := range m.Calls {
		if len(c.Args) == 0 {
			c.Args = []byte("{}")
		}
		dst = appendListElement(dst, `{"type":"tool_use","id":%s,"name":%s,"input":%r}`, c.ID, c.Name, c.Args)
	}
	return append(dst, "]}"...)
}

func readMessagesEvent(p *Reply, ev sse.Event) contentKinds {
	root, ok := p.parse(ev.Data)
	if !ok {
		return 0
	}
	kind, _ := root.Get("type").Text()
	if p.ended {
		p.faults.Add(result.FaultAfterEnd)
	}
	if !p.startSeen && string(kind) != "message_start" && string(kind) != "ping" && string(kind) != "error" {
		p.faults.Add(result.FaultOrder)
	}
	var got contentKinds
	switch string(kind) {
	case "message_start":
		if p.startSeen {
			p.faults.Add(result.FaultOrder)
		}
		p.startSeen = true
		p.readMessagesUsage(root.Get("message").Get("usage"))
	case "content_block_start":
		if p.block {
			p.faults.Add(result.FaultOrder)
		}
		p.block = true
		if b := root.Get("content_block"); b.Get("type").EqualText("tool_use") {
			got = p.beginToolCall(b.Get("id"), b.Get("name"))
		}
	case "content_block_delta":
		if !p.block {
			p.faults.Add(result.FaultOrder)
		}
		d := root.Get("delta")
		got = p.addText(d.Get("text")) | p.reasoningKind(d.Get("thinking"))
		got |= p.addArguments(d.Get("partial_json"))
	case "content_block_stop":
		if !p.block {
			p.faults.Add(result.FaultOrder)
		}
		p.block = false
	case "message_delta":
		p.finish = identifierFromJSON(root.Get("delta").Get("stop_reason"))
		p.readMessagesUsage(root.Get("usage"))
	case "message_stop":
		if p.block || p.finish == "" {
			p.faults.Add(result.FaultOrder)
		}
		p.ended, p.done = true, true
	case "error":
		p.readError(root.Get("error"))
	}
	return got
}

// readMessagesUsage reads the usage object. In this dialect, input_tokens does not include cached
// tokens.
func (p *Reply) readMessagesUsage(v jsonx.Value) {
	if !v.IsObject() {
		return
	}
	storeInt(v.Get("output_tokens"), &p.out)
	in, written := -1, 0
	storeInt(v.Get("input_tokens"), &in)
	if in < 0 {
		return
	}
	storeInt(v.Get("cache_read_input_tokens"), &p.cached)
	storeInt(v.Get("cache_creation_input_tokens"), &written)
	p.in = in + max(p.cached, 0) + written
}

func readMessagesResponse(p *Reply, body []byte) bool {
	if p.doc.Parse(body, jsonx.Options{}) != nil {
		return false
	}
	root := p.doc.Root()
	if !root.Get("content").IsArray() {
		return false
	}
	for it := root.Get("content").Iter(); it.Next(); {
		b := it.Value()
		p.addText(b.Get("text"))
		if b.Get("type").EqualText("tool_use") {
			if p.beginToolCall(b.Get("id"), b.Get("name")) != 0 {
				c := &p.Calls[len(p.Calls)-1]
				c.Args = append(c.Args, b.Get("input").Raw()...)
			}
		}
	}
	p.finish = identifierFromJSON(root.Get("stop_reason"))
	p.readMessagesUsage(root.Get("usage"))
	p.ended = true
	return true
}
