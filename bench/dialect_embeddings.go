package bench

import "penstock/translate/jsonx"

func embeddingsBody(dst []byte, q *request) []byte {
	dst = append(q.appendModel(dst), `,"input":`...)
	dst = jsonx.AppendString(dst, q.prompt())
	return append(append(dst, q.extra...), '}')
}

func embeddingsWhole(p *reply, body []byte) bool {
	if p.doc.Parse(body, jsonx.Options{Record: 3}) != nil {
		return false
	}
	root := p.doc.Root()
	if !root.Get("data").Index(0).Get("embedding").Exists() {
		return false
	}
	setInt(root.Get("usage").Get("prompt_tokens"), &p.in)
	p.ended = true
	return true
}
