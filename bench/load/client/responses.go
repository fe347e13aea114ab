package client

import (
	"strings"

	"penstock/translate/jsonx"
	"penstock/translate/sse"

	"penstock/bench/result"
)

func responsesBody(dst []byte, q *Request) []byte {
	dst, list := q.appendSystem(q.appendModel(dst), "instructions")
	dst = append(dst, `,"input":[`...)
	start := len(dst)
	for i := range list {
		dst = appendResponsesItems(dst, &list[i], len(dst) == start)
	}
	return q.appendRest(append(dst, `],"store":false`...), "max_output_tokens", false)
}

func appendResponsesItems(dst []byte, m *Message, first bool) []byte {
	next := func() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
	}
	for _, r := range m.Results {
		next()
		dst = append(dst, `{"type":"function_call_output","call_id":`...)
		dst = jsonx.AppendString(dst, r.Id)
		dst = append(dst, `,"output":`...)
		dst = jsonx.AppendString(dst, r.Text)
		dst = append(dst, '}')
	}
	if len(m.Text) > 0 || len(m.Images) > 0 {
		next()
		dst = append(dst, `{"type":"message","role":"`...)
		dst = append(dst, m.Role...)
		dst = append(dst, `","content":[{"type":"`...)
		if m.Role == "assistant" {
			dst = append(dst, `output_text","text":`...)
		} else {
			dst = append(dst, `input_text","text":`...)
		}
		dst = jsonx.AppendString(dst, m.Text)
		for _, url := range m.Images {
			dst = append(dst, `},{"type":"input_image","image_url":"`...)
			dst = append(append(dst, url...), '"')
		}
		dst = append(dst, "}]}"...)
	}
	for _, c := range m.Calls {
		next()
		dst = append(dst, `{"type":"function_call","call_id":`...)
		dst = jsonx.AppendString(dst, c.Id)
		dst = append(dst, `,"name":`...)
		dst = jsonx.AppendString(dst, c.Name)
		dst = append(dst, `,"arguments":`...)
		dst = jsonx.AppendString(dst, c.Args)
		dst = append(dst, '}')
	}
	return dst
}

func responsesEvent(p *Reply, ev sse.Event) pieces {
	root, ok := p.parseOrDone(ev.Data)
	if !ok {
		return 0
	}
	raw, _ := root.Get("type").Text()
	kind := string(raw)
	if n, ok := root.Get("sequence_number").Int(); ok {
		if n <= p.seq {
			p.faults.Add(result.FaultOrder)
		}
		p.seq = n
	}
	if p.ended {
		p.faults.Add(result.FaultAfterEnd)
	}
	if !p.begun && kind != "response.created" && kind != "error" && strings.HasPrefix(kind, "response.") {
		p.faults.Add(result.FaultOrder)
	}
	var got pieces
	switch kind {
	case "response.created":
		p.begun = true
	case "response.output_item.added":
		if item := root.Get("item"); item.Get("type").EqualText("function_call") {
			got = p.begin(item.Get("call_id"), item.Get("name"))
		}
	case "response.output_text.delta", "response.refusal.delta":
		got = p.say(root.Get("delta"))
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		got = p.think(root.Get("delta"))
	case "response.function_call_arguments.delta":
		got = p.argue(root.Get("delta"))
	case "response.completed", "response.incomplete":
		r := root.Get("response")
		p.ended = true
		p.finish = textWord(r.Get("status"))
		p.usage(r.Get("usage"), &responsesUsage)
	case "response.failed":
		p.fail(root.Get("response").Get("error"))
	case "error":
		e := root
		if root.Get("error").IsObject() {
			e = root.Get("error")
		}
		p.fail(e)
	}
	return got
}

func responsesWhole(p *Reply, body []byte) bool {
	if p.doc.Parse(body, jsonx.Options{}) != nil {
		return false
	}
	root := p.doc.Root()
	if !root.Get("output").IsArray() {
		return false
	}
	if root.Get("status").EqualText("failed") {
		p.fail(root.Get("error"))
		return true
	}
	for it := root.Get("output").Iter(); it.Next(); {
		item := it.Value()
		if item.Get("type").EqualText("function_call") {
			if p.begin(item.Get("call_id"), item.Get("name")) != 0 {
				p.argue(item.Get("arguments"))
			}
			continue
		}
		if !item.Get("type").EqualText("message") {
			continue
		}
		for parts := item.Get("content").Iter(); parts.Next(); {
			p.say(parts.Value().Get("text"))
		}
	}
	p.finish = textWord(root.Get("status"))
	p.usage(root.Get("usage"), &responsesUsage)
	p.ended = true
	toolEnd(p)
	return true
}
