package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"

	"penstock/bench/sim"
)

const (
	transcriptions = "/v1/audio/transcriptions"
	speech         = "/v1/audio/speech"
)

// audioConfig serves every kind of model from the engine up-0 under another name than the engine's.
const audioConfig = `
timeouts: { linger: 0s, drain: 5s, client_body: 2s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}", engine: sim, concurrency: { text: 4, audio: 2 } }]
models:
  - { id: ears, kind: audio-transcription, aliases: [whisper-1], deployments: [{ upstream: up-0, served: sim }] }
  - { id: voice, kind: audio-speech, deployments: [{ upstream: up-0, served: sim }] }
  - { id: vectors, kind: embedding, deployments: [{ upstream: up-0, served: sim }] }
  - { id: ranks, kind: rerank, deployments: [{ upstream: up-0, served: sim }] }
  - { id: talk, deployments: [{ upstream: up-0, served: sim }] }
`

func startAudio(t *testing.T, engines ...sim.Options) *penstock {
	t.Helper()
	if len(engines) == 0 {
		engines = []sim.Options{{Record: true}}
	}
	return start(t, setup{engines: engines, config: audioConfig})
}

// twoEngines serves the model ears from two engines; the first is preferred.
func twoEngines(t *testing.T, more string) *penstock {
	t.Helper()
	return start(t, setup{engines: []sim.Options{{Record: true}, {Record: true}}, config: `
timeouts: { linger: 0s, drain: 5s }
keys: [{ id: tester, hash: "{{hash}}" }]
retry: { budget: 100% }
upstreams:
  - { name: up-0, url: "{{up-0}}", engine: sim, weight: 1000, concurrency: 100 }
  - { name: up-1, url: "{{up-1}}", engine: sim }
models: [{ id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }, { upstream: up-1, served: sim }] }]
` + more})
}

// formPart is one part of a test's form; file: with that file name.
type formPart struct{ name, file, value string }

func text(name, value string) formPart { return formPart{name: name, value: value} }

func wav(value string) formPart { return formPart{"file", "speech.wav", value} }

// form writes a form as most clients do.
func form(parts ...formPart) (body, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, p := range parts {
		if p.file != "" {
			f, _ := w.CreateFormFile(p.name, p.file)
			_, _ = io.WriteString(f, p.value)
		} else {
			_ = w.WriteField(p.name, p.value)
		}
	}
	_ = w.Close()
	return b.String(), "Content-Type: " + w.FormDataContentType()
}

func (p *penstock) upload(path string, parts ...formPart) *reply {
	p.t.Helper()
	body, contentType := form(parts...)
	return p.post(path, body, contentType)
}

// receivedForm is what an engine got, read by the standard library.
func receivedForm(t *testing.T, r *sim.Request) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, h := range r.Header {
		if !strings.EqualFold(h.Name, "Content-Type") {
			continue
		}
		_, params, err := mime.ParseMediaType(h.Value)
		if err != nil {
			t.Fatal(err)
		}
		for m := multipart.NewReader(bytes.NewReader(r.Body), params["boundary"]); ; {
			p, err := m.NextRawPart()
			if err == io.EOF {
				return out
			}
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(p)
			out[p.FormName()] = append(out[p.FormName()], string(b))
			if p.FileName() != "" {
				out["filename"] = append(out["filename"], p.FileName()+" "+p.Header.Get("Content-Type"))
			}
		}
	}
	t.Fatal("the engine got no form")
	return nil
}

func TestTranscriptions(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	for format, want := range map[string]string{
		"": "application/json", "json": "application/json", "verbose_json": "application/json", "text": "text/plain", "srt": "text/srt", "vtt": "text/vtt",
	} {
		for name, parts := range map[string][]formPart{
			"model first": {text("model", "ears"), text("response_format", format), wav(canary), text("language", "de"), text("beam_size", "3")},
			"file first":  {wav(canary), text("language", "de"), text("beam_size", "3"), text("response_format", format), text("model", "whisper-1")},
		} {
			r := p.upload(transcriptions, parts...).wantStatus(200)
			if got := r.header.Get("Content-Type"); got != want {
				t.Errorf("%q: Content-Type %q, want %q", format, got, want)
			}
			if isJSON := strings.HasPrefix(r.body, "{"); isJSON != strings.HasSuffix(want, "json") {
				t.Errorf("%q: %.60s", format, r.body)
			}
			seen := p.engines[0].Recorded()
			got := receivedForm(t, &seen[len(seen)-1])
			if format == "" {
				format = "json"
			}
			if g := fmt.Sprint(got["model"], got["response_format"], got["language"], got["beam_size"], got["filename"]); g != "[sim] ["+format+"] [de] [3] [speech.wav application/octet-stream]" {
				t.Errorf("%s: the engine got %s", name, g)
			}
			if fmt.Sprint(got["file"]) != "["+canary+"]" {
				t.Errorf("%s: the engine got another file", name)
			}
		}
	}
	l := p.lastCall()
	if l.Dialect != "transcription" || l.Model != "ears" || l.Pool != "audio" || l.Outcome != "ok" {
		t.Errorf("%+v", l)
	}
}

// whisper.cpp has a path, a text type and errors of its own.
func TestTranscriptions_Whisper(t *testing.T) {
	t.Parallel()
	p := start(t, setup{engines: []sim.Options{{Record: true, Profile: "openai"}}, config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}", engine: whisper }]
models: [{ id: ears, kind: audio-transcription, deployments: [{ upstream: up-0 }] }]
`})
	r := p.upload(transcriptions, text("model", "ears"), text("response_format", "text"), wav("x")).wantStatus(200)
	if ct := r.header.Get("Content-Type"); ct != "text/plain" {
		t.Errorf("Content-Type %q", ct)
	}
	if got := p.engines[0].Recorded()[0].Target; got != "/inference" {
		t.Errorf("path %s", got)
	}
	e := p.upload(transcriptions, text("model", "ears"), wav("x"), text("stream", "true")).wantError(400, "invalid_request_error", "unsupported_parameter")
	if e.Param == nil || *e.Param != "stream" {
		t.Errorf("param %v", e.Param)
	}
	if s := p.get("/v1/models").body; !strings.Contains(s, `"total_concurrency":1,`) {
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
		e := p.upload(transcriptions, c.parts...).wantError(c.status, kind, c.code)
		if e.Param == nil || *e.Param != c.param {
			t.Errorf("%+v: param %v", c.parts, e.Param)
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
		r := p.post(transcriptions, c.body, "Content-Type: "+c.contentType)
		if r.status != c.status || !strings.HasPrefix(r.body, `{"error":{"message":"`) || r.took > 2*time.Second {
			t.Errorf("%s: %d after %v: %.200s", name, r.status, r.took, r.body)
		}
	}
	if n := p.engines[0].Stats().Requests; n != 0 {
		t.Errorf("%d requests reached the engine", n)
	}
}

// An upload larger than the window streams: the engine gets every byte, in another request than the client's, and what comes
// behind the file still counts.
func TestTranscriptions_Streamed(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	file := strings.Repeat("0123456789abcde\n", 1<<17) // 2 MiB
	for name, chunked := range map[string]bool{"sized": false, "chunked": true} {
		body, contentType := form(text("model", "ears"), wav(file), text("response_format", "srt"), text("language", "de"))
		req, _ := http.NewRequest("POST", p.url+transcriptions, strings.NewReader(body))
		if chunked {
			req.ContentLength = -1
		}
		req.Header.Set("Authorization", "Bearer "+p.key)
		req.Header.Set("Content-Type", strings.TrimPrefix(contentType, "Content-Type: "))
		res, err := p.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/srt" {
			t.Fatalf("%s: %d %s", name, res.StatusCode, b)
		}
		got := receivedForm(t, p.engines[0].Stats().LastRequest)
		if len(got["file"]) != 1 || got["file"][0] != file || got["language"][0] != "de" {
			t.Errorf("%s: the engine got another form", name)
		}
		if l := p.lastCall(); l.BytesIn != int64(len(body)) {
			t.Errorf("%s: %d bytes in, sent %d", name, l.BytesIn, len(body))
		}
	}
	// What is wrong behind the file is still the client's mistake, and no engine's.
	for _, last := range []formPart{text("model", "ears"), text("response_format", "xml"), text("stream", "true")} {
		p.upload(transcriptions, text("model", "ears"), wav(file), last).wantStatus(400)
	}
	if n := p.metric("penstock_upstream_breaker_open"); n != 0 {
		t.Error("a client's mistake opened the breaker")
	}
}

// The slot is taken when the window is full or the body has ended, not before.
func TestTranscriptions_LeaseAfterWindow(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	c := p.dial()
	body, contentType := form(text("model", "ears"), wav(strings.Repeat("x", 400<<10)))
	_ = c.send(p.head("POST", transcriptions, contentType, fmt.Sprintf("Content-Length: %d", len(body))))
	inflight := func() float64 { return p.metric("penstock_upstream_inflight", `pool="audio"`) }
	_ = c.send(body[:200<<10])
	waitFor(t, patience, "the call is there", func() bool { return p.metric("penstock_calls_inflight") == 1 })
	time.Sleep(20 * time.Millisecond)
	if n := inflight(); n != 0 {
		t.Fatalf("%v slots are held for a client that has sent little", n)
	}
	_ = c.send(body[200<<10 : 300<<10])
	waitFor(t, patience, "the slot is taken", func() bool { return inflight() == 1 })
	_ = c.send(body[300<<10:])
	c.reply("POST").wantStatus(200)
}

func TestTranscriptions_Memory(t *testing.T) {
	t.Parallel()
	p := start(t, setup{config: strings.Replace(audioConfig, "timeouts:", "limits: { body_memory: 0.1%, upload_body: 4MiB }\ntimeouts:", 1)})
	file := strings.Repeat("x", 3<<20)
	p.upload(transcriptions, text("model", "ears"), wav(file)).wantStatus(200)
	p.upload(transcriptions, wav(file), text("model", "ears")).wantError(503, "api_error", "no_body_memory")
	p.upload(transcriptions, wav(file[:500<<10]), text("model", "ears")).wantStatus(200)
	p.upload(transcriptions, text("model", "ears"), wav(file+file)).wantError(413, "request_too_large", "request_too_large")

	body, contentType := form(text("model", "ears"), wav(file+file))
	c := p.dial()
	_ = c.send(p.head("POST", transcriptions, contentType, "Transfer-Encoding: chunked"))
	for i := 0; i < len(body); i += 1 << 20 {
		piece := body[i:min(len(body), i+1<<20)]
		_ = c.sendf("%x\r\n%s\r\n", len(piece), piece)
	}
	c.reply("POST").wantError(413, "request_too_large", "request_too_large")
}

func TestTranscriptions_SlowClient(t *testing.T) {
	t.Parallel()
	p := start(t, setup{config: strings.Replace(audioConfig, "client_body: 2s", "client_body: 200ms", 1)})
	for _, sent := range []int{100, 300 << 10} { // within the window, and streaming
		c := p.dial()
		body, contentType := form(text("model", "ears"), wav(strings.Repeat("x", 400<<10)))
		_ = c.send(p.head("POST", transcriptions, contentType, fmt.Sprintf("Content-Length: %d", len(body))) + body[:sent])
		c.reply("POST").wantError(408, "invalid_request_error", "request_timeout")
		if _, ok := c.closed(patience); !ok {
			t.Error("the connection stays open")
		}
	}
}

// An engine that fails while all that was sent is still held is replaced by another one; behind that point it is not.
func TestTranscriptions_Retry(t *testing.T) {
	t.Parallel()
	small, large := wav("x"), wav(strings.Repeat("x", 2<<20))
	for _, c := range []struct {
		fault  string
		file   formPart
		status int
	}{
		{"status=503", small, 200},
		{"reset-before", small, 200},
		{"status=500", small, 502},
		{"status=503", large, 503},
		{"reset-before", large, 502},
	} {
		p := twoEngines(t, "")
		p.engines[0].SetFault(sim.Fault{Spec: c.fault})
		r := p.upload(transcriptions, text("model", "ears"), c.file).wantStatus(c.status)
		if c.status == 200 {
			if got := receivedForm(t, p.engines[1].Stats().LastRequest); fmt.Sprint(got["model"], got["file"]) != "[sim] [x]" {
				t.Errorf("%s: the second engine got %v", c.fault, got)
			}
		}
		if l := p.lastCall(); c.status == 200 && l.Attempts != 2 || c.status != 200 && l.Attempts != 1 {
			t.Errorf("%s: %d attempts, %s", c.fault, l.Attempts, r.body)
		}
	}
}

// A connection that cannot be made has consumed nothing, however large the upload is.
func TestTranscriptions_RetryOfLarge(t *testing.T) {
	t.Parallel()
	p := start(t, setup{engines: []sim.Options{{}, {}}, config: `
timeouts: { linger: 0s, drain: 5s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams:
  - { name: up-0, url: "{{up-0}}", engine: sim, weight: 1000, concurrency: 100, probe: { interval: 1h } }
  - { name: up-1, url: "{{up-1}}", engine: sim }
models: [{ id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }, { upstream: up-1, served: sim }] }]
`})
	p.engines[0].Unlisten()
	p.upload(transcriptions, text("model", "ears"), wav(strings.Repeat("x", 2<<20))).wantStatus(200)
	if p.metric("penstock_upstream_attempts_total", `upstream="up-0"`, `result="unreachable"`) != 1 {
		t.Error("the first engine was not tried")
	}
}

// The engine may refuse before it has everything; what it says is passed on.
func TestTranscriptions_EarlyAnswer(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	p.engines[0].SetFault(sim.Fault{Spec: "early-413;linger=1"})
	p.upload(transcriptions, text("model", "ears"), wav(strings.Repeat("x", 8<<20))).wantError(413, "request_too_large", "request_too_large")
}

func TestTranscriptions_ClientLeaves(t *testing.T) {
	t.Parallel()
	for _, bye := range goodbyes {
		for _, phase := range []string{"uploading", "waiting"} {
			t.Run(bye.name+" "+phase, func(t *testing.T) {
				t.Parallel()
				p := startAudio(t, sim.Options{Latency: time.Minute})
				c := p.dial()
				body, contentType := form(text("model", "ears"), wav(strings.Repeat("x", 600<<10)))
				sent := len(body)
				if phase == "uploading" {
					sent = 400 << 10
				}
				_ = c.send(p.head("POST", transcriptions, contentType, fmt.Sprintf("Content-Length: %d", len(body))) + body[:sent])
				waitFor(t, patience, "the slot is taken", func() bool {
					return p.metric("penstock_upstream_inflight", `pool="audio"`) == 1 && (phase == "uploading" || p.engines[0].Stats().Running == 1)
				})
				bye.say(c)
				waitFor(t, prompt, "the slot is free", func() bool {
					return p.metric("penstock_upstream_inflight") == 0 && p.engines[0].Stats().Running == 0
				})
				if l := p.lastCall(); l.Outcome != "client_gone" && (phase == "waiting" || l.Outcome != "client_error") {
					t.Errorf("%+v", l)
				}
			})
		}
	}
}

// streamingEngine transcribes in events, which the simulator does not.
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
		p := start(t, setup{cold: true, config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams:
  - { name: streams, url: "` + engine.URL + `", engine: speaches }
  - { name: up-0, url: "{{up-0}}", engine: sim, weight: 1000, concurrency: 100 }
models: [{ id: ears, kind: audio-transcription, deployments: [{ upstream: up-0, served: sim }, { upstream: streams }] }]
`})
		waitFor(t, patience, "upstreams up", func() bool { return p.metric("penstock_upstream_up") == 2 })
		for _, parts := range [][]formPart{
			{text("model", "ears"), text("stream", "true"), wav("x")},
			{wav("x"), text("stream", "true"), text("model", "ears")},
		} {
			r := p.upload(transcriptions, parts...).wantStatus(200)
			events := r.events()
			if len(events) < len(c.events) || strings.Contains(r.body, "secret") {
				t.Fatalf("%s: %v", c.name, events)
			}
			if broken := strings.Contains(r.body, `{"error":`); broken == c.whole {
				t.Errorf("%s: %s", c.name, r.body)
			}
			if l := p.lastCall(); c.whole && (l.PromptTokens != 7 || l.CompletionTokens != 2 || l.Outcome != "ok" || l.Upstream != "streams" || !l.Stream) {
				t.Errorf("%s: %+v", c.name, l)
			}
		}
	}
}

func TestSpeech(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	for format, want := range map[string]string{"": "audio/wav", "wav": "audio/wav", "mp3": "audio/mpeg", "pcm": "audio/pcm"} {
		member := ""
		if format != "" {
			member = `,"response_format":"` + format + `"`
		}
		r := p.post(speech, `{"model":"voice","input":"`+canary+` one two","voice":"x","instructions":"slowly"`+member+`}`).wantStatus(200)
		if ct := r.header.Get("Content-Type"); ct != want || r.err != nil || len(r.body) < 100 {
			t.Errorf("%q: %q, %d bytes, %v", format, ct, len(r.body), r.err)
		}
		sent := string(p.engines[0].Stats().LastRequest.Body)
		if format == "" {
			format, member = "wav", `,"response_format":"wav"`
		}
		if want := `{"model":"sim","input":"` + canary + ` one two","voice":"x","instructions":"slowly"` + member + `}`; sent != want {
			t.Errorf("%q: the engine got %s", format, sent)
		}
	}
	if l := p.lastCall(); l.Dialect != "speech" || l.Pool != "audio" || l.Outcome != "ok" {
		t.Errorf("%+v", l)
	}
	for _, bad := range []string{
		`{"model":"voice"}`, `{"model":"voice","input":""}`, `{"model":"voice","input":["x"]}`, `{"model":"voice","input":"x","speed":5}`, `{"model":"voice","input":"x","speed":"1"}`,
		`{"model":"voice","input":"x","response_format":"aac"}`, `{"model":"voice","input":"x","voice":3}`, `{"input":"x"}`, `{"model":"voice","input":"x","input":"y"}`, `[]`, ``,
		`{"model":"voice","input":"x","stream_format":"sse"}`, `{"model":"talk","input":"x"}`,
	} {
		if r := p.post(speech, bad, "Content-Type: application/json"); r.status != 400 {
			t.Errorf("%s: %d %s", bad, r.status, r.body)
		}
	}
}

// Half of an audio file must not look like a whole one, and nothing is committed before the first bytes.
func TestSpeech_Broken(t *testing.T) {
	t.Parallel()
	body := `{"model":"voice","input":"` + strings.Repeat("word ", 50) + `"}`
	for fault, status := range map[string]int{
		"cut-after=20": 200, "reset-after=20": 200, "bad-chunk=20": 200, // broken off
		"reset-before": 502, "html-200": 502, "empty-body": 502, "status=500": 502, "status=503": 503, "invalid-json": 200,
	} {
		p := startAudio(t)
		p.engines[0].SetFault(sim.Fault{Spec: fault})
		r := p.post(speech, body)
		broken := strings.Contains(fault, "=20")
		if r.status != status || broken && (r.err == nil || len(r.body) == 0) || !broken && r.err != nil {
			t.Errorf("%s: status %d, %d bytes, %v", fault, r.status, len(r.body), r.err)
		}
		if l := p.lastCall(); broken && l.Outcome != "stream_broken" {
			t.Errorf("%s: %+v", fault, l)
		}
	}
}

// An engine that calls an error a success, and one that does not say where its audio ends.
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
		p := start(t, setup{cold: true, config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: odd, url: "` + engine.URL + `", engine: openai }]
models: [{ id: voice, kind: audio-speech, deployments: [{ upstream: odd }] }]
`})
		waitFor(t, patience, "the upstream is up", func() bool { return p.metric("penstock_upstream_up") == 1 })
		r := p.post(speech, `{"model":"voice","input":"x"}`)
		r.wantError(502, "api_error", "upstream_bad_response")
		if strings.Contains(r.body, "secret") {
			t.Errorf("%s: %s", name, r.body)
		}
	}
}

func TestSpeech_OldClient(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	c := p.dial()
	body := `{"model":"voice","input":"one two"}`
	_ = c.send(strings.Replace(p.head("POST", speech, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body))), "HTTP/1.1", "HTTP/1.0", 1) + body)
	r := c.reply("POST").wantStatus(200)
	if r.header.Get("Content-Length") != fmt.Sprint(len(r.body)) || len(r.body) < 100 {
		t.Errorf("%d bytes, header %v", len(r.body), r.header)
	}
}

func TestSpeech_ClientLeaves(t *testing.T) {
	t.Parallel()
	p := startAudio(t, sim.Options{TokenRate: 20})
	for _, after := range []int{0, 100} {
		ctx, cancel := context.WithCancel(context.Background())
		res, err := p.try(ctx, "POST", speech, `{"model":"voice","input":"`+strings.Repeat("word ", 500)+`"}`)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.CopyN(io.Discard, res.Body, int64(after))
		waitFor(t, patience, "the engine works", func() bool { return p.engines[0].Stats().Running == 1 })
		cancel()
		waitFor(t, prompt, "the engine is free", func() bool { return p.engines[0].Stats().Running == 0 })
		res.Body.Close()
		if l := p.lastCall(); l.Outcome != "client_gone" {
			t.Errorf("%+v", l)
		}
	}
}

func TestSDK_Audio(t *testing.T) {
	t.Parallel()
	p := startAudio(t)
	client := p.sdk()
	ctx := context.Background()
	got, err := client.Audio.Transcriptions.New(ctx, openai.AudioTranscriptionNewParams{Model: "ears", File: openai.File(strings.NewReader(canary), "a.wav", "audio/wav")})
	if err != nil || got.Text == "" {
		t.Errorf("%+v, %v", got, err)
	}
	detailed, err := client.Audio.Transcriptions.New(ctx, openai.AudioTranscriptionNewParams{
		Model: "ears", File: openai.File(strings.NewReader(canary), "a.wav", "audio/wav"), ResponseFormat: "verbose_json", TimestampGranularities: []string{"word", "segment"},
	})
	if err != nil || detailed.Text == "" {
		t.Errorf("%+v, %v", detailed, err)
	}
	_, err = client.Audio.Transcriptions.New(ctx, openai.AudioTranscriptionNewParams{Model: "none", File: openai.File(strings.NewReader("x"), "a.wav", "audio/wav")})
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != 404 || e.Code != "model_not_found" {
		t.Errorf("%v", err)
	}
	res, err := client.Audio.Speech.New(ctx, openai.AudioSpeechNewParams{Model: "voice", Input: canary, Voice: openai.AudioSpeechNewParamsVoiceUnion{OfString: openai.String("x")}, ResponseFormat: "pcm", Speed: openai.Float(2)})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || len(b) < 100 || res.Header.Get("Content-Type") != "audio/pcm" {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
