package client

import (
	"penstock/bench/result"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// multipartBoundary separates the parts of multipart bodies. The workload's audio does not contain
// it.
const multipartBoundary = "penstock-bench-7d2f1c9ab4e35806"

func appendTranscriptionBody(dst []byte, q *Request) []byte {
	field := func(name, value string) {
		dst = append(dst, "--"+multipartBoundary+"\r\nContent-Disposition: form-data; name=\""+name+"\"\r\n\r\n"+value+"\r\n"...)
	}
	field("model", q.Model)
	field("response_format", "json")
	if q.Stream {
		field("stream", "true")
	}
	dst = append(dst, "--"+multipartBoundary+"\r\nContent-Disposition: form-data; name=\"file\"; filename=\"speech.wav\"\r\nContent-Type: audio/wav\r\n\r\n"...)
	dst = append(dst, q.Audio...)
	return append(dst, "\r\n--"+multipartBoundary+"--\r\n"...)
}

// readTranscriptionEvent reads OpenAI's events (transcript.text.delta and .done), and the chat
// chunks that vLLM sends instead.
func readTranscriptionEvent(p *Reply, ev sse.Event) contentKinds {
	root, ok := p.parseUnlessDone(ev.Data)
	if !ok {
		return 0
	}
	if root.Get("choices").IsArray() && !root.Get("type").Exists() {
		return p.readChunk(ev, func(choice jsonx.Value) contentKinds { return p.readDelta(choice.Get("delta")) })
	}
	if p.ended {
		p.faults.Add(result.FaultAfterEnd)
	}
	kind := root.Get("type")
	switch {
	case root.Get("error").IsObject():
		p.readError(root.Get("error"))
	case kind.EqualText("transcript.text.delta"):
		return p.addText(root.Get("delta"))
	case kind.EqualText("transcript.text.done"):
		p.ended, p.done, p.finish = true, true, "stop"
		p.readUsage(root.Get("usage"), &responsesUsage)
		if p.Size == 0 { // the whole text arrived in one event, without deltas
			return p.addText(root.Get("text"))
		}
	}
	return 0
}

func readTranscriptionResponse(p *Reply, body []byte) bool {
	if p.doc.Parse(body, jsonx.Options{}) != nil || !p.doc.Root().Get("text").IsString() {
		return false
	}
	p.addText(p.doc.Root().Get("text"))
	p.readUsage(p.doc.Root().Get("usage"), &responsesUsage)
	p.ended = true
	return true
}

func appendSpeechBody(dst []byte, q *Request) []byte {
	return appendFormat(q.appendModelMember(dst), `,"voice":"alloy","input":%s%r}`, q.PromptText(), q.Extra)
}

func appendEmbeddingsBody(dst []byte, q *Request) []byte {
	return appendFormat(q.appendModelMember(dst), `,"input":%s%r}`, q.PromptText(), q.Extra)
}

func readEmbeddingsResponse(p *Reply, body []byte) bool {
	if p.doc.Parse(body, jsonx.Options{Record: 3}) != nil {
		return false
	}
	root := p.doc.Root()
	if !root.Get("data").Index(0).Get("embedding").Exists() {
		return false
	}
	storeInt(root.Get("usage").Get("prompt_tokens"), &p.in)
	p.ended = true
	return true
}
