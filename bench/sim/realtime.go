package sim

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/url"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/generate"
	"penstock/bench/sim/wire"
)

// realtimePath is the path for realtime sessions, which transcribe speech over WebSocket. The
// events are vLLM's or, for speaches, those of OpenAI's beta API.
const realtimePath = "/v1/realtime"

// converse runs a realtime session on the goroutine of the connection.
func (c *conn) converse() {
	x := &c.x
	from, to := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(to, io.MultiReader(bytes.NewReader(c.buf[c.r:c.w]), c.nc)) // an empty Write would wait for a reader
		close(c.gone)
		_ = to.Close()
	}()
	defer func() {
		c.close()
		_ = from.Close()
		<-ended
	}()
	x.work = true
	c.e.counters.requests.Add(1)
	c.e.record.add(&x.req)
	if x.misbehave() || !x.mayConverse() {
		x.out.flush()
		return
	}
	model := *c.e.models.Load()
	a := newAnswer(x, &generate.Request{Model: model[0], Stream: true})
	defer a.release()
	if !a.enter() {
		x.out.flush()
		return
	}
	if _, err := io.WriteString(c.nc, handshakeAnswer(x.req.get("Sec-WebSocket-Key"))); err != nil {
		return
	}
	t := &talk{x: x, a: a, ws: &webSocket{in: bufio.NewReader(from), out: c.nc}}
	take := t.speaches
	if x.p.Family != "speaches" {
		take = t.vllm
	}
	if !t.say(`{"type":"session.created","id":"sess-sim","created":%d,"session":{"id":"sess_sim","model":"gpt-4o-realtime-preview","instructions":"internal"}}`, now()) {
		return
	}
	for {
		message, err := t.ws.read()
		if err != nil {
			c.e.counters.completed.Add(1)
			return
		}
		v, err := fastjson.ParseBytes(message)
		switch {
		case err != nil:
			if !t.say(`{"type":"error","error":"Invalid JSON","code":"invalid_json"}`) {
				return
			}
		case !take(v):
			return
		}
	}
}

// mayConverse checks the preconditions of a session. If a precondition is not met, it answers with
// an error.
func (x *exchange) mayConverse() bool {
	switch {
	case x.p.Family != "vllm" && x.p.Family != "speaches" && x.p.Family != "openai":
		x.send(x.e.pages.NotFound(x.req.method, x.req.path))
	case !authorized(x):
		x.send(x.e.pages.Unauthorized())
	default:
		model, _ := url.QueryUnescape(x.req.queried("model"))
		if _, known := x.e.served(model); x.p.Family == "speaches" && !known {
			x.fail(x.p.UnknownModelError(model))
			return false
		}
		return true
	}
	return false
}

type talk struct {
	x      *exchange
	a      *answer
	ws     *webSocket
	events int // number of events sent

	valid, runs bool   // valid: the model was named (vLLM); runs: a transcription is running (vLLM)
	audio       int    // bytes of audio in the current item
	text        string // text of the current item
	words       int
	items       int
}

// say sends an event, or injects a fault instead. It returns false if the session has ended.
func (t *talk) say(format string, args ...any) bool {
	for i := range t.x.t.Incidents {
		if in := &t.x.t.Incidents[i]; in.At == t.events && !t.suffer(in) {
			return false
		}
	}
	t.events++
	return t.ws.write(opText, fmt.Appendf(nil, format, args...)) == nil
}

// suffer injects an incident. It returns false if the session has ended.
func (t *talk) suffer(in *fault.Incident) bool {
	for _, s := range in.Steps {
		switch s.Op {
		case fault.OpReset:
			t.x.c.reset()
		case fault.OpClose:
			t.x.c.close()
		case fault.OpHang: // continue to read, but send nothing more
			for {
				if _, err := t.ws.read(); err != nil {
					return false
				}
			}
		case fault.OpWait:
			t.x.client.pause(s.For)
		case fault.OpEvent, fault.OpSend:
			_ = t.ws.write(opText, []byte(s.Text))
		case fault.OpStreamEnd:
			_ = t.ws.write(opText, []byte(`{"type":"error","error":"EngineCore encountered an issue","code":"processing_error"}`))
			return true
		case fault.OpFinish:
			_ = t.ws.write(opClose, []byte{0x03, 0xe8})
		}
	}
	return in.GoOn
}

// wordAt is the number of audio bytes per word: 100 ms at 16 kHz.
const wordAt = 3200

// vllm handles a message as vllm/entrypoints/openai/realtime/connection.py does.
func (t *talk) vllm(v *fastjson.Value) bool {
	switch kind := string(v.GetStringBytes("type")); kind {
	case "session.update":
		t.valid = true
	case "input_audio_buffer.append":
		audio, err := base64.StdEncoding.DecodeString(string(v.GetStringBytes("audio")))
		if err != nil || len(audio) == 0 || len(audio)%2 != 0 {
			return t.say(`{"type":"error","error":"Invalid audio data","code":"invalid_audio"}`)
		}
		t.audio += len(audio)
		return !t.runs || t.speak()
	case "input_audio_buffer.commit":
		switch {
		case !t.valid:
			return t.say(`{"type":"error","error":"Model not validated.","code":"model_not_validated"}`)
		case !v.GetBool("final"):
			t.runs = true
			return t.speak()
		case t.runs:
			t.runs = false
			text, words, audio := t.text, t.words, t.audio
			t.text, t.words, t.audio = "", 0, 0
			return t.say(`{"type":"transcription.done","text":%s,"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}}`,
				*new(wire.Members).Quote(text), audio/wordAt, audio/wordAt+words, words)
		}
	default:
		return t.say(`{"type":"error","error":"Unknown event type: %s","code":"unknown_event"}`, kind)
	}
	return true
}

// speak sends the words for the audio that was received so far.
func (t *talk) speak() bool {
	for t.words < t.audio/wordAt {
		t.words++
		word := fmt.Sprintf(" w%d", t.words)
		t.text += word
		t.a.say(1)
		if !t.say(`{"type":"transcription.delta","delta":"%s"}`, word) {
			return false
		}
	}
	return true
}

// spokenFor is the number of audio bytes that complete an item: 1 s at 24 kHz.
const spokenFor = 48000

// speaches handles a message as src/speaches/realtime does.
func (t *talk) speaches(v *fastjson.Value) bool {
	switch kind := string(v.GetStringBytes("type")); kind {
	case "session.update":
		if v.Exists("session", "turn_detection") && v.Get("session", "turn_detection").Type() == fastjson.TypeNull {
			return t.say(`{"type":"error","event_id":"event_sim","error":{"type":"invalid_request_error","message":"validation error for session.turn_detection"}}`)
		}
		if v.Exists("session", "turn_detection", "prefix_padding_ms") &&
			!t.say(`{"type":"error","event_id":"event_sim","error":{"type":"invalid_request_error","message":"Specifying session.turn_detection.prefix_padding_ms is not supported."}}`) {
			return false
		}
		return t.say(`{"type":"session.updated","event_id":"event_sim","session":{"model":"internal"}}`)
	case "input_audio_buffer.append":
		audio, err := base64.StdEncoding.DecodeString(string(v.GetStringBytes("audio")))
		if err != nil {
			return false
		}
		if t.audio == 0 && len(audio) > 0 {
			t.items++
			if !t.say(`{"type":"input_audio_buffer.speech_started","event_id":"event_sim","item_id":"item_%d","audio_start_ms":0}`, t.items) {
				return false
			}
		}
		if t.audio += len(audio); t.audio < spokenFor {
			return true
		}
		return t.say(`{"type":"input_audio_buffer.speech_stopped","event_id":"event_sim","item_id":"item_%d","audio_end_ms":1000}`, t.items) && t.item()
	case "input_audio_buffer.commit":
		if t.audio < spokenFor/10 {
			return t.say(`{"type":"error","event_id":"event_sim","error":{"type":"invalid_request_error","message":"Error committing input audio buffer: buffer too small."}}`)
		}
		return t.item()
	case "input_audio_buffer.clear":
		t.audio = 0
		return t.say(`{"type":"input_audio_buffer.cleared","event_id":"event_sim"}`)
	default:
		return t.say(`{"type":"error","event_id":"event_sim","error":{"type":"invalid_request_error","message":"unknown type"}}`)
	}
}

// item commits the audio and transcribes it.
func (t *talk) item() bool {
	seconds := float64(t.audio) / spokenFor
	t.audio = 0
	t.a.say(1)
	return t.say(`{"type":"input_audio_buffer.committed","event_id":"event_sim","previous_item_id":null,"item_id":"item_%d"}`, t.items) &&
		t.say(`{"type":"conversation.item.created","event_id":"event_sim","previous_item_id":null,"item":{"id":"item_%d","object":"realtime.item","type":"message","status":"completed","role":"user","content":[{"type":"input_audio","transcript":null}]}}`, t.items) &&
		t.say(`{"type":"conversation.item.input_audio_transcription.completed","event_id":"event_sim","item_id":"item_%d","content_index":0,"transcript":"item %d","usage":{"type":"duration","seconds":%.2f}}`, t.items, t.items, seconds)
}
