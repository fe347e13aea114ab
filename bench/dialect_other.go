package bench

import (
	"bytes"

	"penstock/translate/jsonx"
)

// boundary of multipart bodies; no audio that we make holds it.
const boundary = "penstock-bench-7d2f1c9ab4e35806"

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

func transcriptionBody(dst []byte, q *request) []byte {
	field := func(name, value string) {
		dst = append(dst, "--"+boundary+"\r\nContent-Disposition: form-data; name=\""+name+"\"\r\n\r\n"+value+"\r\n"...)
	}
	field("model", q.model)
	field("response_format", "json")
	dst = append(dst, "--"+boundary+"\r\nContent-Disposition: form-data; name=\"file\"; filename=\"speech.wav\"\r\nContent-Type: audio/wav\r\n\r\n"...)
	dst = append(dst, q.audio...)
	return append(dst, "\r\n--"+boundary+"--\r\n"...)
}

func transcriptionWhole(p *reply, body []byte) bool {
	if p.doc.Parse(body, jsonx.Options{}) != nil || !p.doc.Root().Get("text").IsString() {
		return false
	}
	p.say(p.doc.Root().Get("text"))
	p.usage(p.doc.Root().Get("usage"), &responsesUsage)
	p.ended = true
	return true
}

func speechBody(dst []byte, q *request) []byte {
	dst = append(q.appendModel(dst), `,"voice":`...)
	dst = jsonx.AppendStringS(dst, q.voice)
	dst = append(dst, `,"input":`...)
	dst = jsonx.AppendString(dst, q.prompt())
	return append(append(dst, q.extra...), '}')
}

// speechWhole takes anything that is not an error: the sound is not looked at but for being there.
func speechWhole(p *reply, body []byte) bool {
	p.ended = len(body) > 0 && !bytes.HasPrefix(body, []byte(`{"error"`))
	return p.ended
}
