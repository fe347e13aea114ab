package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests check speech: formats, engines that abort an answer or send something other than
// speech, old clients, and clients that disconnect.

func TestSpeech(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	for format, want := range map[string]string{"": "audio/wav", "wav": "audio/wav", "mp3": "audio/mpeg", "pcm": "audio/pcm"} {
		member := ""
		if format != "" {
			member = `,"response_format":"` + format + `"`
		}
		r := p.Post(speech, `{"model":"voice","input":"`+rig.Canary+` one two","voice":"x","instructions":"slowly"`+member+`}`).WantStatus(200)
		if ct := r.Header.Get("Content-Type"); ct != want || r.Err != nil || len(r.Body) < 100 {
			t.Errorf("format %q: Content-Type = %q with %d bytes, %v; want %q", format, ct, len(r.Body), r.Err, want)
		}
		sent := string(p.Engines[0].Stats().LastRequest.Body)
		if format == "" {
			format, member = "wav", `,"response_format":"wav"`
		}
		if want := `{"model":"sim","input":"` + rig.Canary + ` one two","voice":"x","instructions":"slowly"` + member + `}`; sent != want {
			t.Errorf("%q: the engine got %s", format, sent)
		}
	}
	if l := p.LastAccessLine(); l.Dialect != "speech" || l.Pool != "audio" || l.Outcome != "ok" {
		t.Errorf("last call = %+v, want speech in the pool audio, ok", l)
	}
	for _, bad := range []string{
		`{"model":"voice"}`, `{"model":"voice","input":""}`, `{"model":"voice","input":["x"]}`, `{"model":"voice","input":"x","speed":5}`, `{"model":"voice","input":"x","speed":"1"}`,
		`{"model":"voice","input":"x","response_format":"aac"}`, `{"model":"voice","input":"x","voice":3}`, `{"input":"x"}`, `{"model":"voice","input":"x","input":"y"}`, `[]`, ``,
		`{"model":"voice","input":"x","stream_format":"event"}`, `{"model":"talk","input":"x"}`,
	} {
		if r := p.Post(speech, bad, "Content-Type: application/json"); r.Status != 400 {
			t.Errorf("%s: answer = %d %s, want 400", bad, r.Status, r.Body)
		}
	}
}

// spokenEvents requests events with OpenAI's SDK and joins the audio in the deltas.
func spokenEvents(p *penstock, format string) (sound []byte, last speechEvent, err error) {
	client := p.sdk()
	res, err := client.Audio.Speech.New(context.Background(), openai.AudioSpeechNewParams{
		Model: "voice", Input: rig.Canary + strings.Repeat(" word", 30), Voice: openai.AudioSpeechNewParamsVoiceUnion{OfString: openai.String("af_sky")},
		ResponseFormat: openai.AudioSpeechNewParamsResponseFormat(format), StreamFormat: openai.AudioSpeechNewParamsStreamFormatSSE,
	})
	if err != nil {
		return nil, last, err
	}
	events := ssestream.NewStream[speechEvent](ssestream.NewDecoder(res), nil)
	defer events.Close()
	for events.Next() {
		last = events.Current()
		piece, err := base64.StdEncoding.DecodeString(last.Audio)
		if err != nil || (last.Type == "speech.audio.delta") != (len(piece) > 0) {
			return nil, last, fmt.Errorf("%q with %d bytes: %w", last.Type, len(piece), err)
		}
		sound = append(sound, piece...)
	}
	return sound, last, events.Err()
}

type speechEvent struct {
	Type, Audio string
	Usage       *struct {
		Total int `json:"total_tokens"`
	}
}

// TestSpeech_Events checks that a client that requests events receives them from every engine, in
// the requested format.
func TestSpeech_Events(t *testing.T) {
	t.Parallel()
	// True if the engine can send events for the format.
	for profile, formats := range map[string]map[string]bool{
		"openai": {"wav": false, "pcm": false, "mp3": false},
		"kokoro": {"wav": false, "mp3": false},
		"vllm":   {"": false, "wav": false, "pcm": true, "mp3": false},
	} {
		p := start(t, rig.Setup{Engines: []sim.Options{{Record: true, Profile: profile, Models: []string{"kokoro"}}}, Config: strings.NewReplacer("engine: sim,", "engine: "+profile+",", "served: sim", "served: kokoro").Replace(audioConfig)})
		for format, own := range formats {
			asked := format
			if format == "" {
				asked = "wav" // the default format
			}
			raw := p.Post(speech, `{"model":"voice","input":"`+rig.Canary+strings.Repeat(" word", 30)+`","voice":"af_sky","response_format":"`+asked+`"}`).WantStatus(200)
			sound, last, err := spokenEvents(p, format)
			want := raw.Body
			if asked == "wav" && !strings.HasPrefix(string(sound), "RIFF") {
				t.Errorf("%s, %q: the sound has no header and cannot be played", profile, format)
			}
			if err != nil || string(sound) != want || last.Type != "speech.audio.done" || last.Usage == nil || (last.Usage.Total > 0) != own {
				t.Errorf("%s, %s: %d bytes of %d, the end %+v, %v", profile, format, len(sound), len(want), last, err)
			}
			if sent := string(p.Engines[0].Stats().LastRequest.Body); strings.Contains(sent, `"stream_format":"sse"`) != own {
				t.Errorf("%s, %s: the engine got %s", profile, format, sent)
			}
			if l := p.LastAccessLine(); l.Outcome != "ok" || !l.Stream {
				t.Errorf("%s, %s: last call = %+v, want a stream, ok", profile, format, l)
			}
		}
	}
}

// TestSpeech_EventsBroken checks that a failure before the first audio byte causes an error status,
// and that a later failure causes an error event.
func TestSpeech_EventsBroken(t *testing.T) {
	t.Parallel()
	for fault, status := range map[string]int{
		"cut-after=20": 200, "reset-after=20": 200, "bad-chunk=20": 200,
		"reset-before": 502, "html-200": 502, "empty-body": 502, "status=500": 502, "status=503": 503,
	} {
		// an engine that supports events and an engine that does not
		for _, engine := range []string{"sim", "openai"} {
			p := start(t, rig.Setup{Engines: []sim.Options{{}}, Config: strings.ReplaceAll(audioConfig, "engine: sim,", "engine: "+engine+",")})
			p.Engines[0].SetFault(sim.Fault{Spec: fault})
			r := p.Post(speech, `{"model":"voice","input":"`+strings.Repeat("word ", 50)+`","response_format":"pcm","stream_format":"sse"}`)
			inBand := strings.Count(r.Body, `data: {"error":`)
			if r.Err != nil || r.Status != status || status == 200 && (inBand != 1 || strings.Contains(r.Body, "speech.audio.done")) {
				t.Errorf("%s, %s: status %d, %v, %d errors in %d bytes", fault, engine, r.Status, r.Err, inBand, len(r.Body))
			}
			if l := p.LastAccessLine(); status == 200 && l.Outcome != "stream_broken" {
				t.Errorf("%s, %s: last call = %+v, want stream_broken", fault, engine, l)
			}
		}
	}
}

// TestSpeech_OldClientEvents checks that even HTTP/1.0 clients can recognize a complete answer,
// because the events have an end mark. If the engine aborts the audio, such a client must receive a
// 502.
func TestSpeech_OldClientEvents(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	ask := func(body string) *rig.Reply {
		c := p.Dial()
		_ = c.Send(strings.Replace(p.RequestBytes(speech, body), "HTTP/1.1", "HTTP/1.0", 1))
		return c.ReadReply("POST")
	}
	const events, sound = `{"model":"voice","input":"one two three","stream_format":"sse"}`, `{"model":"voice","input":"one two three"}`
	r := ask(events).WantStatus(200)
	if r.Err != nil || !strings.Contains(r.Body, `"type":"speech.audio.delta"`) || !strings.Contains(r.Body, `"type":"speech.audio.done"`) || strings.Contains(r.Body, "\r\n") {
		t.Errorf("answer = %.300q, %v; want sound in deltas and the end", r.Body, r.Err)
	}
	p.Engines[0].SetFault(sim.Fault{Spec: "cut-after=2"})
	r = ask(events).WantStatus(200)
	if r.Err != nil || !strings.Contains(r.Body, `data: {"error":`) || strings.Contains(r.Body, "speech.audio.done") {
		t.Errorf("answer = %.300q, %v; want an error and no end", r.Body, r.Err)
	}
	ask(sound).WantError(502, "api_error", "upstream_bad_response")
}

// TestSpeech_EventsRefused checks that a strict edge rejects requests for events, because events
// are not in the contract.
func TestSpeech_EventsRefused(t *testing.T) {
	t.Parallel()
	const body = `{"model":"voice","input":"one two","stream_format":"sse"}`
	p := start(t, rig.Setup{Engines: []sim.Options{{}}, Config: "strict: true" + audioConfig})
	p.Post(speech, body).WantError(400, "invalid_request_error", "unsupported_parameter")
	p.Post(speech, strings.Replace(body, `"stream_format":"sse"`, `"response_format":"aac"`, 1)).WantError(400, "invalid_request_error", "invalid_value")
}

// TestSpeech_Broken checks that a truncated audio file does not look complete, and that no status
// is sent before the first bytes.
func TestSpeech_Broken(t *testing.T) {
	t.Parallel()
	body := `{"model":"voice","input":"` + strings.Repeat("word ", 50) + `"}`
	for fault, status := range map[string]int{
		// the engine aborts the audio after the first bytes
		"cut-after=20": 200, "reset-after=20": 200, "bad-chunk=20": 200,
		"reset-before": 502, "html-200": 502, "empty-body": 502, "status=500": 502, "status=503": 503, "invalid-json": 200,
	} {
		p := startAudio(t)
		p.Engines[0].SetFault(sim.Fault{Spec: fault})
		r := p.Post(speech, body)
		broken := strings.Contains(fault, "=20")
		if r.Status != status || broken && (r.Err == nil || len(r.Body) == 0) || !broken && r.Err != nil {
			t.Errorf("%s: status %d, %d bytes, %v", fault, r.Status, len(r.Body), r.Err)
		}
		if l := p.LastAccessLine(); broken && l.Outcome != "stream_broken" {
			t.Errorf("%s: last call = %+v, want stream_broken", fault, l)
		}
	}
}

// TestSpeech_Disguised checks an engine that sends an error with a success status, and an engine
// that does not mark the end of its audio.
func TestSpeech_Disguised(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter){
		"JSON error": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"error":{"message":"out of memory at /models/secret"}}`)
		},
		"no bytes": func(w http.ResponseWriter) { w.Header().Set("Content-Type", "audio/wav") },
	} {
		engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == speech {
				answer(w)
			} else {
				_, _ = io.WriteString(w, `{"data":[]}`)
			}
		}))
		t.Cleanup(engine.Close)
		p := start(t, rig.Setup{Cold: true, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: odd, url: "` + engine.URL + `", engine: openai }]
models: [{ id: voice, kind: audio-speech, deployments: [{ upstream: odd }] }]
`})
		rig.WaitFor(t, rig.WaitTimeout, "the upstream is up", func() bool { return p.Metric("penstock_upstream_up") == 1 })
		r := p.Post(speech, `{"model":"voice","input":"x"}`)
		r.WantError(502, "api_error", "upstream_bad_response")
		if strings.Contains(r.Body, "secret") {
			t.Errorf("%s: answer = %s, want no secret", name, r.Body)
		}
	}
}

func TestSpeech_OldClient(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	c := p.Dial()
	body := `{"model":"voice","input":"one two"}`
	_ = c.Send(strings.Replace(p.RequestHead("POST", speech, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body))), "HTTP/1.1", "HTTP/1.0", 1) + body)
	r := c.ReadReply("POST").WantStatus(200)
	if r.Header.Get("Content-Length") != fmt.Sprint(len(r.Body)) || len(r.Body) < 100 {
		t.Errorf("%d bytes, header %v", len(r.Body), r.Header)
	}
}

func TestSpeech_ClientLeaves(t *testing.T) {
	t.Parallel()
	p := startAudio(t, sim.Options{TokenRate: 20})
	for _, after := range []int{0, 100} {
		ctx, cancel := context.WithCancel(context.Background())
		res, err := p.TryOpenResponse(ctx, "POST", speech, `{"model":"voice","input":"`+strings.Repeat("word ", 500)+`"}`)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.CopyN(io.Discard, res.Body, int64(after))
		rig.WaitFor(t, rig.WaitTimeout, "the engine works", func() bool { return p.Engines[0].Stats().Running == 1 })
		cancel()
		rig.WaitFor(t, freedWithin, "the engine is free", func() bool { return p.Engines[0].Stats().Running == 0 })
		res.Body.Close()
		if l := p.LastAccessLine(); l.Outcome != "client_gone" {
			t.Errorf("last call = %+v, want client_gone", l)
		}
	}
}
