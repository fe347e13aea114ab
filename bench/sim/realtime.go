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
// events are those of vLLM or, for speaches, those of OpenAI's beta API.
const realtimePath = "/v1/realtime"

// serveRealtime runs a realtime session on the goroutine of the connection.
func (c *conn) serveRealtime() {
	x := &c.x
	from, to := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// io.MultiReader skips an empty buffer. An empty Write to the pipe would wait for a reader.
		_, _ = io.Copy(to, io.MultiReader(bytes.NewReader(c.buf[c.r:c.w]), c.nc))
		close(c.clientGone)
		_ = to.Close()
	}()
	defer func() {
		c.close()
		_ = from.Close()
		<-ended
	}()
	x.isInference = true
	c.e.counters.requests.Add(1)
	c.e.record.add(&x.req)
	if x.injectResponseFault() || !x.checkRealtime() {
		x.out.flush()
		return
	}
	model := *c.e.models.Load()
	a := newAnswer(x, &generate.Request{Model: model[0], Stream: true})
	defer a.releaseSlot()
	if !a.acquireSlot() {
		x.out.flush()
		return
	}
	if _, err := io.WriteString(c.nc, handshakeAnswer(x.req.headerValue("Sec-WebSocket-Key"))); err != nil {
		return
	}
	t := &realtimeSession{x: x, a: a, ws: &webSocket{in: bufio.NewReader(from), out: c.nc}}
	take := t.handleSpeaches
	if x.p.Family != "speaches" {
		take = t.handleVLLM
	}
	if !t.sendEvent(`{"type":"session.created","id":"sess-sim","created":%d,"session":{"id":"sess_sim","model":"gpt-4o-realtime-preview","instructions":"internal"}}`, unixNow()) {
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
			if !t.sendEvent(`{"type":"error","error":"Invalid JSON","code":"invalid_json"}`) {
				return
			}
		case !take(v):
			return
		}
	}
}

// checkRealtime checks the preconditions of a session. If a precondition is not met, it answers
// with an error.
func (x *exchange) checkRealtime() bool {
	switch {
	case x.p.Family != "vllm" && x.p.Family != "speaches" && x.p.Family != "openai":
		x.sendReply(x.e.pages.NotFound(x.req.method, x.req.path))
	case !authorized(x):
		x.sendReply(x.e.pages.Unauthorized())
	default:
		model, _ := url.QueryUnescape(x.req.queryParam("model"))
		if _, known := x.e.resolveModel(model); x.p.Family == "speaches" && !known {
			x.replyError(x.p.UnknownModelError(model))
			return false
		}
		return true
	}
	return false
}

type realtimeSession struct {
	x      *exchange
	a      *answer
	ws     *webSocket
	events int // number of events sent

	// vLLM only: the client has named the model; a transcription is running
	modelNamed, transcribing bool
	audio                    int    // bytes of audio in the current item
	text                     string // text of the current item
	words                    int
	items                    int
}

// sendEvent sends an event, or injects a fault instead. It returns false if the session has ended.
func (t *realtimeSession) sendEvent(format string, args ...any) bool {
	for i := range t.x.t.Incidents {
		if in := &t.x.t.Incidents[i]; in.At == t.events && !t.injectIncident(in) {
			return false
		}
	}
	t.events++
	return t.ws.write(opcodeText, fmt.Appendf(nil, format, args...)) == nil
}

// injectIncident injects an incident. It returns false if the session has ended.
func (t *realtimeSession) injectIncident(in *fault.Incident) bool {
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
		case fault.OpEvent, fault.OpSendRawAndEnd:
			_ = t.ws.write(opcodeText, []byte(s.Text))
		case fault.OpStreamEnd:
			_ = t.ws.write(opcodeText, []byte(`{"type":"error","error":"EngineCore encountered an issue","code":"processing_error"}`))
			return true
		case fault.OpFinish:
			_ = t.ws.write(opcodeClose, []byte{0x03, 0xe8})
		}
	}
	return in.GoOn
}

// audioBytesPerWord is the number of audio bytes per word: 100 ms at 16 kHz.
const audioBytesPerWord = 3200

// handleVLLM handles a message as vllm/entrypoints/openai/realtime/connection.py does.
func (t *realtimeSession) handleVLLM(v *fastjson.Value) bool {
	switch kind := string(v.GetStringBytes("type")); kind {
	case "session.update":
		t.modelNamed = true
	case "input_audio_buffer.append":
		audio, err := base64.StdEncoding.DecodeString(string(v.GetStringBytes("audio")))
		if err != nil || len(audio) == 0 || len(audio)%2 != 0 {
			return t.sendEvent(`{"type":"error","error":"Invalid audio data","code":"invalid_audio"}`)
		}
		t.audio += len(audio)
		return !t.transcribing || t.sendWords()
	case "input_audio_buffer.commit":
		switch {
		case !t.modelNamed:
			return t.sendEvent(`{"type":"error","error":"Model not validated.","code":"model_not_validated"}`)
		case !v.GetBool("final"):
			t.transcribing = true
			return t.sendWords()
		case t.transcribing:
			t.transcribing = false
			text, words, audio := t.text, t.words, t.audio
			t.text, t.words, t.audio = "", 0, 0
			return t.sendEvent(`{"type":"transcription.done","text":%s,"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}}`,
				*new(wire.JSONBuilder).Quote(text), audio/audioBytesPerWord, audio/audioBytesPerWord+words, words)
		}
	default:
		return t.sendEvent(`{"type":"error","error":"Unknown event type: %s","code":"unknown_event"}`, kind)
	}
	return true
}

// sendWords sends the words for the audio received so far.
func (t *realtimeSession) sendWords() bool {
	for t.words < t.audio/audioBytesPerWord {
		t.words++
		word := fmt.Sprintf(" w%d", t.words)
		t.text += word
		t.a.addTokens(1)
		if !t.sendEvent(`{"type":"transcription.delta","delta":"%s"}`, word) {
			return false
		}
	}
	return true
}

// realtimeItemBytes is the number of audio bytes that complete an item: 1 s at 24 kHz.
const realtimeItemBytes = 48000

// handleSpeaches handles a message as src/speaches/realtime does.
func (t *realtimeSession) handleSpeaches(v *fastjson.Value) bool {
	switch kind := string(v.GetStringBytes("type")); kind {
	case "session.update":
		if v.Exists("session", "turn_detection") && v.Get("session", "turn_detection").Type() == fastjson.TypeNull {
			return t.sendEvent(`{"type":"error","event_id":"event_sim","error":{"type":"invalid_request_error","message":"validation error for session.turn_detection"}}`)
		}
		if v.Exists("session", "turn_detection", "prefix_padding_ms") &&
			!t.sendEvent(`{"type":"error","event_id":"event_sim","error":{"type":"invalid_request_error","message":"Specifying session.turn_detection.prefix_padding_ms is not supported."}}`) {
			return false
		}
		return t.sendEvent(`{"type":"session.updated","event_id":"event_sim","session":{"model":"internal"}}`)
	case "input_audio_buffer.append":
		audio, err := base64.StdEncoding.DecodeString(string(v.GetStringBytes("audio")))
		if err != nil {
			return false
		}
		if t.audio == 0 && len(audio) > 0 {
			t.items++
			if !t.sendEvent(`{"type":"input_audio_buffer.speech_started","event_id":"event_sim","item_id":"item_%d","audio_start_ms":0}`, t.items) {
				return false
			}
		}
		if t.audio += len(audio); t.audio < realtimeItemBytes {
			return true
		}
		return t.sendEvent(`{"type":"input_audio_buffer.speech_stopped","event_id":"event_sim","item_id":"item_%d","audio_end_ms":1000}`, t.items) && t.commitItem()
	case "input_audio_buffer.commit":
		if t.audio < realtimeItemBytes/10 {
			return t.sendEvent(`{"type":"error","event_id":"event_sim","error":{"type":"invalid_request_error","message":"Error committing input audio buffer: buffer too small."}}`)
		}
		return t.commitItem()
	case "input_audio_buffer.clear":
		t.audio = 0
		return t.sendEvent(`{"type":"input_audio_buffer.cleared","event_id":"event_sim"}`)
	default:
		return t.sendEvent(`{"type":"error","event_id":"event_sim","error":{"type":"invalid_request_error","message":"unknown type"}}`)
	}
}

// commitItem commits the audio and transcribes it.
func (t *realtimeSession) commitItem() bool {
	seconds := float64(t.audio) / realtimeItemBytes
	t.audio = 0
	t.a.addTokens(1)
	return t.sendEvent(`{"type":"input_audio_buffer.committed","event_id":"event_sim","previous_item_id":null,"item_id":"item_%d"}`, t.items) &&
		t.sendEvent(`{"type":"conversation.item.created","event_id":"event_sim","previous_item_id":null,"item":{"id":"item_%d","object":"realtime.item","type":"message","status":"completed","role":"user","content":[{"type":"input_audio","transcript":null}]}}`, t.items) &&
		t.sendEvent(`{"type":"conversation.item.input_audio_transcription.completed","event_id":"event_sim","item_id":"item_%d","content_index":0,"transcript":"item %d","usage":{"type":"duration","seconds":%.2f}}`, t.items, t.items, seconds)
}
