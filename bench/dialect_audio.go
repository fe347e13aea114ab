package bench

import (
	"bytes"
	"encoding/binary"

	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// boundary of multipart bodies; no audio that we make holds it.
const boundary = "penstock-bench-7d2f1c9ab4e35806"

func transcriptionBody(dst []byte, q *request) []byte {
	field := func(name, value string) {
		dst = append(dst, "--"+boundary+"\r\nContent-Disposition: form-data; name=\""+name+"\"\r\n\r\n"+value+"\r\n"...)
	}
	field("model", q.model)
	field("response_format", "json")
	if q.stream {
		field("stream", "true")
	}
	for _, f := range q.form {
		field(f.name, f.value)
	}
	dst = append(dst, "--"+boundary+"\r\nContent-Disposition: form-data; name=\"file\"; filename=\"speech.wav\"\r\nContent-Type: audio/wav\r\n\r\n"...)
	dst = append(dst, q.audio...)
	return append(dst, "\r\n--"+boundary+"--\r\n"...)
}

// transcriptionEvent takes OpenAI's events (transcript.text.delta and .done), and the chunks of chat that vLLM sends instead.
func transcriptionEvent(p *reply, ev sse.Event) pieces {
	root, ok := p.parseOrDone(ev.Data)
	if !ok {
		return 0
	}
	if root.Get("choices").IsArray() {
		return p.chunk(ev, func(choice jsonx.Value) pieces { return p.delta(choice.Get("delta")) })
	}
	if p.ended {
		p.faults.add(FaultAfterEnd)
	}
	kind := root.Get("type")
	switch {
	case root.Get("error").IsObject():
		p.fail(root.Get("error"))
	case kind.EqualText("transcript.text.delta"):
		return p.say(root.Get("delta"))
	case kind.EqualText("transcript.text.done"):
		p.ended, p.done, p.finish = true, true, "stop"
		p.usage(root.Get("usage"), &responsesUsage)
		if p.size == 0 { // no deltas: all of it comes at once
			return p.say(root.Get("text"))
		}
	}
	return 0
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

// soundHead finds where the sound of an answer begins: of a WAV file behind its head, which says nothing and is often sent before
// there is any sound; of everything else at its first byte. Its zero value is ready.
type soundHead struct {
	head []byte // what has come so far
}

// maxSoundHead is how much of an answer may be head; a WAV file with more before its samples counts from there.
const maxSoundHead = 64 << 10

// take takes the next piece and reports whether sound has come.
func (h *soundHead) take(piece []byte) bool {
	h.head = append(h.head, piece...)
	riff := []byte("RIFF")
	if n := min(len(h.head), len(riff)); !bytes.Equal(h.head[:n], riff[:n]) {
		return true
	}
	have := uint64(len(h.head))
	for at := uint64(12); at+8 <= have; { // behind RIFF, the size and WAVE
		size := uint64(binary.LittleEndian.Uint32(h.head[at+4:]))
		if string(h.head[at:at+4]) == "data" {
			return have > at+8
		}
		at += 8 + size + size&1
	}
	return have > maxSoundHead
}
