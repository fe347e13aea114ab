package sim

import (
	"encoding/base64"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/audio"
	"penstock/bench/sim/generate"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/textgen"
)

type speechRequest struct {
	input, format, ctype string
	speed                float64
	voice                uint64
	whole                bool // whether to send the response as one piece
	sse                  bool
}

// decodeSpeechRequest decodes a speech request. If ok is false, decodeSpeechRequest has already
// answered with an error.
func decodeSpeechRequest(e *Engine, x *exchange, p *fastjson.Parser) (s speechRequest, q *generate.Request, ok bool) {
	v, q, ok := decodeSmallRequest(x, p)
	if !ok {
		return s, q, false
	}
	s = speechRequest{
		input: string(v.GetStringBytes("input")), format: string(v.GetStringBytes("response_format")),
		speed: 1, voice: textgen.Hash(1, v.GetStringBytes("voice")),
		whole: e.p.Family == "kokoro" && v.Get("stream") != nil && !v.GetBool("stream"),
		sse:   e.p.Family != "kokoro" && string(v.GetStringBytes("stream_format")) == "sse",
	}
	if s.input == "" {
		x.replyError(*profile.InvalidParam("input", "Field required: input"))
		return s, q, false
	}
	if err := e.p.CheckVoice(string(v.GetStringBytes("voice"))); err != nil {
		x.replyError(*err)
		return s, q, false
	}
	if speed := v.Get("speed"); speed != nil {
		if s.speed = speed.GetFloat64(); s.speed < 0.25 || s.speed > 4 {
			x.replyError(*profile.InvalidParam("speed", "speed must be in [0.25, 4.0]"))
			return s, q, false
		}
	}
	if s.format == "" {
		s.format = "wav"
		if e.p.MatchesAny("kokoro speaches") {
			s.format = "mp3"
		}
	}
	s.ctype = map[string]string{"wav": "audio/wav", "pcm": "audio/pcm", "mp3": "audio/mpeg"}[s.format]
	// real engines support more formats, but the simulator can generate only these
	if s.ctype == "" {
		x.replyError(*profile.InvalidParam("response_format", "Unsupported response_format: %s", s.format))
		return s, q, false
	}
	return s, q, true
}

// newAudioGenerator returns a function that returns the audio for the next word.
func (s *speechRequest) newAudioGenerator() func() []byte {
	samples := int(audio.WordTime.Seconds() * audio.SampleRate / s.speed)
	t := audio.Tone{Step: 2 * math.Pi * float64(180+s.voice%240) / audio.SampleRate}
	return func() []byte {
		if s.format == "mp3" {
			return audio.SilentFrames(max(1, samples/1152))
		}
		return t.NextSamples(samples)
	}
}

// serveSpeech answers POST /v1/audio/speech with a sine tone, sent as one piece per word. The pitch
// depends on the voice.
func serveSpeech(x *exchange) {
	e := x.e
	p := parserPool.Get()
	defer parserPool.Put(p)
	s, q, ok := decodeSpeechRequest(e, x, p)
	if !ok {
		return
	}
	if e.p.Family == "kokoro" {
		x.t.Lines += "content-disposition: attachment; filename=speech." + s.format + "\r\ncache-control: no-cache\r\n"
		if !s.whole {
			x.t.Lines += "x-accel-buffering: no\r\n"
		}
	}
	q.Prompt.AddString(s.input)
	x.releaseBody()

	a := newAnswer(x, q)
	q.Stream = true // if the client leaves, the response is cancelled, as for a stream
	defer a.releaseSlot()
	if !a.acquireSlot() || !a.waitPrefill() {
		return
	}
	words, piece := len(strings.Fields(s.input)), s.newAudioGenerator()
	var opening []byte
	if s.format == "wav" && !s.sse {
		opening = audio.WAVHeader()
	}
	switch {
	case s.whole:
		if gap := a.tokenGap(); gap > 0 && !x.client.pause(time.Duration(words)*gap) {
			return
		}
		for range words {
			opening = append(opening, piece()...)
		}
		a.addTokens(words)
		a.releaseSlot()
		x.reply(200, s.ctype, opening)
		return
	case s.sse:
		x.beginEventStream()
	default:
		x.buildHead(200, s.ctype, -1)
	}
	x.out.appendBody(opening)
	if !s.sendAudio(a, words, piece) {
		return
	}
	if s.sse && !x.sendEvent("", fmt.Appendf(nil,
		`{"type":"speech.audio.done","usage":{"input_tokens":%d,"output_tokens":%d,"total_tokens":%d}}`, a.state.Prompt, a.state.Spoken, a.state.Prompt+a.state.Spoken)) {
		return
	}
	if !x.injectIncidents() {
		return
	}
	a.releaseSlot()
	x.finishBody()
}

// sendAudio sends the audio for the words at the engine's speed. It reports whether all words were
// sent.
func (s *speechRequest) sendAudio(a *answer, words int, piece func() []byte) bool {
	x, due := a.x, time.Now()
	for i := range words {
		sound := piece()
		if i > 0 {
			gap := a.tokenGap()
			due = due.Add(gap)
			if gap > 0 && (!x.out.flush() || !x.client.pauseUntil(due)) || !a.waitStallOrPreemption(&due) {
				return false
			}
		}
		a.addTokens(1)
		if s.sse {
			if !x.sendEvent("", []byte(`{"type":"speech.audio.delta","audio":"`+base64.StdEncoding.EncodeToString(sound)+`"}`)) {
				return false
			}
			continue
		}
		if !x.injectIncidents() {
			return false
		}
		x.stream.events++
		x.out.appendBody(sound)
		if len(x.out.out) > 32<<10 && !x.out.flush() {
			return false
		}
	}
	return true
}
