package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests check transcriptions: requests, answers and refusals.

func TestTranscriptions(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	for format, want := range map[string]string{
		"": "application/json", "json": "application/json", "verbose_json": "application/json", "text": "text/plain", "srt": "text/srt", "vtt": "text/vtt",
	} {
		for name, parts := range map[string][]formPart{
			"model first": {text("model", "ears"), text("response_format", format), wav(rig.Canary), text("language", "de"), text("beam_size", "3")},
			"file first":  {wav(rig.Canary), text("language", "de"), text("beam_size", "3"), text("response_format", format), text("model", "whisper-1")},
		} {
			r := p.upload(transcriptions, parts...).WantStatus(200)
			if got := r.Header.Get("Content-Type"); got != want {
				t.Errorf("%q: Content-Type %q, want %q", format, got, want)
			}
			if isJSON := strings.HasPrefix(r.Body, "{"); isJSON != strings.HasSuffix(want, "json") {
				t.Errorf("format %q: answer = %.60q, want JSON: %v", format, r.Body, strings.HasSuffix(want, "json"))
			}
			seen := p.Engines[0].Recorded()
			got := receivedForm(t, &seen[len(seen)-1])
			if format == "" {
				format = "json"
			}
			if g := fmt.Sprint(got["model"], got["response_format"], got["language"], got["beam_size"], got["filename"]); g != "[sim] ["+format+"] [de] [3] [speech.wav application/octet-stream]" {
				t.Errorf("%s: the engine got %s", name, g)
			}
			if fmt.Sprint(got["file"]) != "["+rig.Canary+"]" {
				t.Errorf("%s: the engine got another file", name)
			}
		}
	}
	l := p.LastAccessLine()
	if l.Dialect != "transcription" || l.Model != "ears" || l.Pool != "audio" || l.Outcome != "ok" {
		t.Errorf("last call = %+v, want a transcription of ears in the pool audio, ok", l)
	}
}

// TestTranscriptions_Whisper checks whisper.cpp, which has a different path, text type and error
// format.
func TestTranscriptions_Whisper(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{Record: true, Profile: "whisper"}}, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}", engine: whisper }]
models: [{ id: ears, kind: audio-transcription, deployments: [{ upstream: up-0 }] }]
`})
	r := p.upload(transcriptions, text("model", "ears"), text("response_format", "text"), wav("RIFF")).WantStatus(200)
	if ct := r.Header.Get("Content-Type"); ct != "text/plain" {
		t.Errorf("Content-Type %q", ct)
	}
	if got := p.Engines[0].Recorded()[0].Target; got != "/inference" {
		t.Errorf("path = %s, want /inference", got)
	}
	e := p.upload(transcriptions, text("model", "ears"), wav("x"), text("stream", "true")).WantError(400, "invalid_request_error", "unsupported_parameter")
	if e.Param == nil || *e.Param != "stream" {
		t.Errorf("param = %v, want stream", e.Param)
	}
	p.upload(transcriptions, text("model", "ears"), wav("no sound")).WantStatus(400)
	if s := p.Get("/v1/models").Body; !strings.Contains(s, `"total_concurrency":1,`) {
		t.Errorf("whisper is not one at a time: %s", s)
	}
}

func TestTranscriptions_Refused(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	m, f := text("model", "ears"), wav("x")
	for _, c := range []struct {
		parts       []formPart
		code, param string
		status      int
	}{
		{[]formPart{f}, "missing_parameter", "model", 400},
		{[]formPart{m}, "missing_parameter", "file", 400},
		{[]formPart{}, "missing_parameter", "model", 400},
		{[]formPart{m, m, f}, "duplicate_member", "model", 400},
		{[]formPart{m, f, m}, "duplicate_member", "model", 400},
		{[]formPart{m, f, f}, "duplicate_member", "file", 400},
		{[]formPart{text("model", ""), f}, "invalid_value", "model", 400},
		{[]formPart{m, text("file", "x")}, "invalid_type", "file", 400},
		{[]formPart{m, wav("")}, "invalid_value", "file", 400},
		{[]formPart{text("model", "none"), f}, "model_not_found", "model", 404},
		{[]formPart{text("model", "talk"), f}, "unsupported_parameter", "model", 400},
		{[]formPart{m, f, text("response_format", "xml")}, "invalid_value", "response_format", 400},
		{[]formPart{m, f, text("temperature", "warm")}, "invalid_type", "temperature", 400},
		{[]formPart{m, f, text("timestamp_granularities[]", "word")}, "invalid_value", "timestamp_granularities", 400},
		{[]formPart{m, f, text("stream", "true")}, "unsupported_parameter", "stream", 400},
		{[]formPart{m, f, text("kv_transfer_params", "{}")}, "unsupported_parameter", "kv_transfer_params", 400},
	} {
		kind := "invalid_request_error"
		if c.status == 404 {
			kind = "not_found_error"
		}
		e := p.upload(transcriptions, c.parts...).WantError(c.status, kind, c.code)
		if e.Param == nil || *e.Param != c.param {
			t.Errorf("%+v: param = %v, want %s", c.parts, e.Param, c.param)
		}
	}
	head := "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n"
	for name, c := range map[string]struct {
		contentType, body string
		status            int
	}{
		"no boundary":       {"multipart/form-data", "--B--", 400},
		"bad boundary":      {"multipart/form-data; boundary=\"", "--B--", 400},
		"another boundary":  {"multipart/form-data; boundary=B", "--C--", 400},
		"nothing":           {"multipart/form-data; boundary=B", "", 400},
		"cut short":         {"multipart/form-data; boundary=B", head + "\r\nx\r\n", 400},
		"100,000 parts":     {"multipart/form-data; boundary=B", strings.Repeat(head+"\r\nx\r\n", 100_000) + "--B--", 400},
		"huge head":         {"multipart/form-data; boundary=B", head + "X: " + strings.Repeat("x", 1<<20) + "\r\n\r\nx\r\n--B--", 400},
		"large text field":  {"multipart/form-data; boundary=B", head + "\r\n" + strings.Repeat("x", 65<<10) + "\r\n--B--", 400},
		"JSON":              {"application/json", `{"model":"ears"}`, 415},
		"another multipart": {"multipart/mixed; boundary=B", "--B--", 415},
	} {
		r := p.Post(transcriptions, c.body, "Content-Type: "+c.contentType)
		if r.Status != c.status || !strings.HasPrefix(r.Body, `{"error":{"message":"`) || r.Took > 2*time.Second+rig.TimingTolerance {
			t.Errorf("%s: answer = %d after %v, want %d: %.200s", name, r.Status, r.Took, c.status, r.Body)
		}
	}
	if n := p.Engines[0].Stats().Requests; n != 0 {
		t.Errorf("%d requests reached the engine", n)
	}
}

// TestTranscriptions_Streamed checks that an upload larger than the window is streamed. The engine
// must receive every byte of the file, in a form that the edge writes. Fields that follow the file
// must still take effect.
func TestTranscriptions_Streamed(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	file := strings.Repeat("0123456789abcde\n", 1<<17) // the file has 2 MiB
	for name, chunked := range map[string]bool{"sized": false, "chunked": true} {
		body, contentType := form(text("model", "ears"), wav(file), text("response_format", "srt"), text("language", "de"))
		req, _ := http.NewRequest("POST", p.URL+transcriptions, strings.NewReader(body))
		if chunked {
			req.ContentLength = -1
		}
		req.Header.Set("Authorization", "Bearer "+p.Key)
		req.Header.Set("Content-Type", strings.TrimPrefix(contentType, "Content-Type: "))
		res, err := p.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/srt" {
			t.Fatalf("%s: answer = %d %s, want 200 text/srt", name, res.StatusCode, b)
		}
		got := receivedForm(t, p.Engines[0].Stats().LastRequest)
		if len(got["file"]) != 1 || got["file"][0] != file || got["language"][0] != "de" {
			t.Errorf("%s: the engine got another form", name)
		}
		if l := p.LastAccessLine(); l.BytesIn != int64(len(body)) {
			t.Errorf("%s: %d bytes in, sent %d", name, l.BytesIn, len(body))
		}
	}
	// An error after the file must still count as the client's mistake rather than as an engine
	// failure.
	for _, last := range []formPart{text("model", "ears"), text("response_format", "xml"), text("stream", "true")} {
		p.upload(transcriptions, text("model", "ears"), wav(file), last).WantStatus(400)
	}
	if n := p.Metric("penstock_upstream_breaker_open"); n != 0 {
		t.Error("a client's mistake opened the breaker")
	}
}

// wantTranscript checks that an answer is a stream of deltas that ends with the complete text.
func wantTranscript(t *testing.T, r *rig.Reply, name string) {
	t.Helper()
	if ct := r.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("%s: Content-Type %q", name, ct)
	}
	said, all := "", ""
	for _, e := range r.Events() {
		var ev struct{ Type, Delta, Text string }
		if err := json.Unmarshal([]byte(e.Data), &ev); err != nil || all != "" {
			t.Fatalf("%s: %v, want events up to the end: %s", name, err, r.Body)
		}
		switch ev.Type {
		case "transcript.text.delta":
			said += ev.Delta
		case "transcript.text.done":
			all = ev.Text
		default:
			t.Errorf("%s: event = %s, want a delta or the end", name, e.Data)
		}
	}
	if all == "" || said != all {
		t.Errorf("%s: deltas %q, at the end %q", name, said, all)
	}
}

// longSound returns a WAV file with forty seconds of silence, 8 bits at 100 Hz.
func longSound() []byte {
	head := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x64\x00\x00\x00\x64\x00\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00")
	return append(head, make([]byte, 4000)...)
}

// TestTranscriptions_Whole checks that the edge creates the stream if the engine does not stream
// even though its profile says so. If the edge cannot create the stream, this must not count as an
// engine failure.
func TestTranscriptions_Whole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, format, contentType, body string
		told                            bool
	}{
		{"json", "json", "application/json", `{"text":"hello there","usage":{"type":"duration","seconds":2}}`, true},
		{"verbose", "verbose_json", "application/json", `{"task":"transcribe","text":"hello there","segments":[{"id":0}]}`, true},
		{"text", "text", "text/plain; charset=utf-8", "hello there\n", true},
		{"srt", "srt", "text/plain", "1\n00:00:00,000 --> 00:00:01,000\nhello\n\n", true},
		{"vtt", "vtt", "text/vtt", "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nhello\n\n", true},
		{"text for JSON", "json", "text/plain", "hello there", false},
		{"nonsense", "json", "application/json", `{"id":1}`, false},
		{"web page", "json", "text/html", "<html>", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case transcriptions:
					_, _ = io.Copy(io.Discard, r.Body)
					w.Header().Set("Content-Type", c.contentType)
					_, _ = io.WriteString(w, c.body)
				case "/v1/chat/completions":
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)
				default:
					_, _ = io.WriteString(w, `{"data":[]}`)
				}
			}))
			t.Cleanup(engine.Close)
			p := start(t, rig.Setup{Cold: true, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: one, url: "` + engine.URL + `", engine: speaches }]
models:
  - { id: ears, kind: audio-transcription, deployments: [{ upstream: one }] }
  - { id: chat, deployments: [{ upstream: one }] }
`})
			rig.WaitFor(t, rig.WaitTimeout, "upstream up", func() bool { return p.Metric("penstock_upstream_up") == 1 })
			for range 8 { // the breaker opens after five failures
				r := p.upload(transcriptions, text("model", "ears"), text("stream", "true"), text("response_format", c.format), wav("x"))
				if !c.told {
					r.WantError(502, "api_error", "upstream_bad_response")
					continue
				}
				wantTranscript(t, r.WantStatus(200), c.name)
				if l := p.LastAccessLine(); l.Outcome != "ok" || !l.Stream {
					t.Errorf("last call = %+v, want a stream, ok", l)
				}
			}
			p.Post("/v1/chat/completions", `{"model":"chat","messages":[{"role":"user","content":"hi"}]}`).WantStatus(200)
			if n := p.Metric("penstock_upstream_breaker_open"); n != 0 {
				t.Error("a client's option opened the breaker")
			}
		})
	}
}

// streamingEngine answers transcriptions with the given events.
func streamingEngine(t *testing.T, events ...string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != transcriptions {
			_, _ = io.WriteString(w, `{"data":[]}`)
			return
		}
		if err := r.ParseMultipartForm(1 << 20); err != nil || r.FormValue("stream") != "true" {
			http.Error(w, "no stream asked for", 400)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			_, _ = io.WriteString(w, "data: "+e+"\n\n")
			_ = http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestTranscriptions_Events(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		events []string
		whole  bool
	}{
		{"done event", []string{`{"type":"transcript.text.delta","delta":"hel"}`, `{"type":"transcript.text.done","text":"hello","usage":{"type":"tokens","input_tokens":7,"output_tokens":2}}`}, true},
		{"chunks", []string{`{"model":"/models/secret","choices":[{"index":0,"delta":{"content":"hello"}}]}`, `{"model":"/models/secret","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2}}`, `[DONE]`}, true},
		{"no end", []string{`{"type":"transcript.text.delta","delta":"hel"}`}, false},
	} {
		engine := streamingEngine(t, c.events...)
		p := start(t, rig.Setup{Cold: true, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams:
  - { name: streams, url: "` + engine.URL + `", engine: speaches }
  - { name: up-0, url: "{{up-0}}", engine: sim, weight: 1000, concurrency: 100 }
models: [{ id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }, { upstream: streams }] }]
`})
		rig.WaitFor(t, rig.WaitTimeout, "upstreams up", func() bool { return p.Metric("penstock_upstream_up") == 2 })
		for _, parts := range [][]formPart{
			{text("model", "ears"), text("stream", "true"), wav("x")},
			{wav("x"), text("stream", "true"), text("model", "ears")},
		} {
			for _, r := range []*rig.Reply{p.upload(transcriptions, parts...), p.uploadHTTP10(transcriptions, parts...)} {
				events := r.WantStatus(200).Events()
				if len(events) < len(c.events) || strings.Contains(r.Body, "secret") || strings.Contains(r.Body, "\r\n") {
					t.Fatalf("%s: events = %v, want %d or more without a secret", c.name, events, len(c.events))
				}
				if broken := strings.Contains(r.Body, `{"error":`); broken == c.whole {
					t.Errorf("%s: answer = %s, want it whole: %v", c.name, r.Body, c.whole)
				}
				if l := p.LastAccessLine(); c.whole && (l.PromptTokens != 7 || l.CompletionTokens != 2 || l.Outcome != "ok" || l.Upstream != "streams" || !l.Stream) {
					t.Errorf("%s: last call = %+v, want a stream, ok, with 7 and 2 tokens", c.name, l)
				}
			}
		}
	}
}

// TestTranscriptions_FileWithoutName checks that a part with an audio Content-Type is treated as
// the file, even if it has no file name. A text part instead of the file must be rejected.
func TestTranscriptions_FileWithoutName(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	body := func(kind string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nears\r\n--b\r\nContent-Disposition: form-data; name=\"file\"\r\n" + kind + "\r\nRIFF sound\r\n--b--\r\n"
	}
	for _, kind := range []string{"Content-Type: audio/wav\r\n", "Content-Type: application/octet-stream\r\n"} {
		p.Post(transcriptions, body(kind), "Content-Type: multipart/form-data; boundary=b").WantStatus(200)
	}
	p.Post(transcriptions, body(""), "Content-Type: multipart/form-data; boundary=b").WantError(400, "invalid_request_error", "invalid_type")
}
