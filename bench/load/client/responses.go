package client

import (
	"strings"

	"penstock/bench/result"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

func appendResponsesBody(dst []byte, q *Request) []byte {
	dst, list := q.appendSystemMember(q.appendModelMember(dst), "instructions")
	dst = append(dst, `,"input":[`...)
	for i := range list {
		dst = appendResponsesItems(dst, &list[i])
	}
	return q.appendCommonMembers(append(dst, `],"store":false`...), "max_output_tokens", false)
}

func appendResponsesItems(dst []byte, m *Message) []byte {
	for _, r := range m.Results {
		dst = appendListElement(dst, `{"type":"function_call_output","call_id":%s,"output":%s}`, r.ID, r.Text)
	}
	if len(m.Text) > 0 || len(m.Images) > 0 {
		kind := "input_text"
		if m.Role == "assistant" {
			kind = "output_text"
		}
		dst = appendListElement(dst, `{"type":"message","role":"%r","content":[{"type":"%r","text":%s}`, []byte(m.Role), []byte(kind), m.Text)
		for _, url := range m.Images {
			dst = appendListElement(dst, `{"type":"input_image","image_url":"%r"}`, url)
		}
		dst = append(dst, "]}"...)
	}
	for _, c := range m.Calls {
		dst = appendListElement(dst, `{"type":"function_call","call_id":%s,"name":%s,"arguments":%s}`, c.ID, c.Name, c.Args)
	}
	return dst
}

func readResponsesEvent(p *Reply, ev sse.Event) contentKinds {
	root, ok := p.parseUnlessDone(ev.Data)
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
	if !p.startSeen && kind != "response.created" && kind != "error" && strings.HasPrefix(kind, "response.") {
		p.faults.Add(result.FaultOrder)
	}
	var got contentKinds
	switch kind {
	case "response.created":
		p.startSeen = true
	case "response.output_item.added":
		if item := root.Get("item"); item.Get("type").EqualText("function_call") {
			got = p.beginToolCall(item.Get("call_id"), item.Get("name"))
		}
	case "response.output_text.delta", "response.refusal.delta":
		got = p.addText(root.Get("delta"))
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		got = p.reasoningKind(root.Get("delta"))
	case "response.function_call_arguments.delta":
		got = p.addArguments(root.Get("delta"))
	case "response.completed", "response.incomplete":
		r := root.Get("response")
		p.ended = true
		p.finish = identifierFromJSON(r.Get("status"))
		p.readUsage(r.Get("usage"), &responsesUsage)
	case "response.failed":
		p.readError(root.Get("response").Get("error"))
	case "error":
		e := root
		if root.Get("error").IsObject() {
			e = root.Get("error")
		}
		p.readError(e)
	}
	return got
}

func readResponsesResponse(p *Reply, body []byte) bool {
	if p.doc.Parse(body, jsonx.Options{}) != nil {
		return false
	}
	root := p.doc.Root()
	if !root.Get("output").IsArray() {
		return false
	}
	if root.Get("status").EqualText("failed") {
		p.readError(root.Get("error"))
		return true
	}
	for it := root.Get("output").Iter(); it.Next(); {
		item := it.Value()
		if item.Get("type").EqualText("function_call") {
			if p.beginToolCall(item.Get("call_id"), item.Get("name")) != 0 {
				p.addArguments(item.Get("arguments"))
			}
			continue
		}
		if !item.Get("type").EqualText("message") {
			continue
		}
		for parts := item.Get("content").Iter(); parts.Next(); {
			p.addText(parts.Value().Get("text"))
		}
	}
	p.finish = identifierFromJSON(root.Get("status"))
	p.readUsage(root.Get("usage"), &responsesUsage)
	p.ended = true
	checkToolArguments(p)
	return true
}
