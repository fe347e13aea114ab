package sim

import (
	"strings"
	"testing"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/audio"
	"penstock/bench/sim/profile"
)

// TestEnginePages checks pages that only one engine has, and how engines respond to requests for
// pages that they do not have.
func TestEnginePages(t *testing.T) {
	type page struct {
		path, want string
		status     int
	}
	for profile, pages := range map[string][]page{
		"tgi": {
			{"/v1/models", `{"id":"a","object":"model","created":0,"owned_by":"a"}`, 200},
			{"/info", `"max_concurrent_requests":3,`, 200},
			{"/info", `"max_total_tokens":777,`, 200},
			{"/health", "", 200},
			{"/metrics", "\ntgi_queue_size 0\n", 200},
			{"/metrics", "\ntgi_batch_current_size 0\n", 200},
			{"/v1/messages", "", 404},
		},
		"trtllm": {
			{"/v1/models", `"owned_by":"tensorrt_llm"}`, 200},
			{"/version", `"version"`, 200},
			{"/health_generate", "Generation health check OK", 200},
			{"/prometheus/metrics", `trtllm_num_requests_running{model_name="a"} 0`, 200},
			{"/metrics", "[]", 200},
			{"/v1/embeddings", `{"detail":"Not Found"}`, 404},
		},
		"lmstudio": {
			{"/v1/models", `"owned_by":"organization_owner"}`, 200},
			{"/api/v0/models", `"compatibility_type":"gguf","quantization":"Q4_K_M","state":"not-loaded","max_context_length":777}`, 200},
			{"/api/v1/models", `"loaded_instances":[],"max_context_length":777`, 200},
			{"/health", `{"error":"Unexpected endpoint or method. (GET /health)"}`, 200},
			{"/metrics", `"error":`, 200},
		},
		"vllm-omni": {
			{"/v1/models", `"owned_by":"vllm"`, 200},
			{"/metrics", `vllm:omni_num_requests_running{engine="0",model_name="a"} 0`, 200},
		},
		"llamacpp-router": {
			{"/v1/models", `"status":{"value":"unloaded","args":["/usr/bin/llama-server"`, 200},
			{"/props", `"role":"router"`, 200},
			{"/props?model=a", `"total_slots":3`, 200},
			{"/metrics", `{"error":{"code":400,"message":"model name is missing from the request","type":"invalid_request_error"}}`, 400},
			{"/metrics?model=a", "\nllamacpp:requests_processing 0\n", 200},
			{"/slots?model=b", `model 'b' not found`, 400},
			{"/slots?model=a", `"is_processing":false`, 200},
			{"/v1/audio/speech", "File Not Found", 404},
		},
		"whisper": {
			{"/", "<h2>/inference</h2>", 200},
			{"/health", `{"status":"ok"}`, 200},
			{"/v1/models", "File Not Found (/v1/models)", 404},
			{"/inference", "File Not Found (/inference)", 404}, // wrong method
		},
		"whisper-openai": {{"/", "<h2>/v1/audio/transcriptions</h2>", 200}},
		"speaches": {
			{"/health", "OK", 200},
			{"/v1/models", `"task":"automatic-speech-recognition"`, 200},
			{"/openapi.json", `"title":"Speaches"`, 200},
			{"/api/ps", `{"models":[]}`, 200},
			{"/v1/chat/completions", `{"detail":"Not Found"}`, 404},
		},
		"kokoro": {
			{"/health", `{"status":"healthy"}`, 200},
			{"/v1/models", `"owned_by":"kokoro"`, 200},
			{"/v1/audio/voices", `"af_heart"`, 200},
		},
	} {
		e := start(t, Options{Profile: profile, Models: []string{"a"}, MaxModelLen: 777, Slots: 3})
		for _, p := range pages {
			if resp, body := sendRequest(t, e, "GET", p.path, ""); resp.StatusCode != p.status || !strings.Contains(body, p.want) {
				t.Errorf("%s %s: %s %s, want %s", profile, p.path, resp.Status, body, p.want)
			}
		}
	}
}

// TestUnhealthyPages checks each engine's health page while the engine is unhealthy.
func TestUnhealthyPages(t *testing.T) {
	for profile, want := range map[string]string{
		"tgi": `{"error":"unhealthy","error_type":"healthcheck"}`, "trtllm": "LLM is unavailable. Please check the server logs for more details.",
		"whisper": `{"status":"loading model"}`, "speaches": "", "kokoro": "", "vllm": "",
	} {
		e := start(t, Options{Profile: profile})
		e.SetHealthy(false)
		if resp, body := sendRequest(t, e, "GET", "/health", ""); resp.StatusCode != 503 || body != want {
			t.Errorf("%s: %s %s, want 503 with %s", profile, resp.Status, body, want)
		}
	}
}

// TestProfileDefaults checks that an engine has the models and the number of slots defined by its
// profile, unless the options set others.
func TestProfileDefaults(t *testing.T) {
	for _, c := range []struct {
		o      Options
		models string
		slots  int
	}{
		{Options{}, "sim", defaultSlots},
		{Options{Profile: "whisper"}, "sim", 1},
		{Options{Profile: "whisper", Slots: 3}, "sim", 3},
		{Options{Profile: "kokoro"}, "tts-1 tts-1-hd kokoro", 2},
		{Options{Profile: "kokoro", Models: []string{"mine"}}, "mine", 2},
		{Options{Profile: "speaches"}, "Systran/faster-whisper-small", 2},
	} {
		e := New(c.o)
		_, slots := e.slots.UsedTokensAndSlots()
		if got := strings.Join(*e.models.Load(), " "); got != c.models || slots != c.slots {
			t.Errorf("%+v: models %s, %d slots", c.o, got, slots)
		}
	}
	o := Options{Profile: "whisper"}
	if err := o.SetSpeed("laptop"); err != nil || o.Slots != 1 {
		t.Errorf("a speed gives one mutex %d slots", o.Slots)
	}
}

// TestIterationsAreConsumed checks that reading trtllm-serve's /metrics clears the collected
// iterations.
func TestIterationsAreConsumed(t *testing.T) {
	e := start(t, Options{Profile: "trtllm"})
	sendChat(t, e, chatBody("hi", sixTokens))
	if _, body := sendRequest(t, e, "GET", "/metrics", ""); !strings.HasPrefix(body, `[{"iter":`) {
		t.Error(body)
	}
	if _, body := sendRequest(t, e, "GET", "/metrics", ""); body != "[]" {
		t.Error(body)
	}
}

// TestLoadsOnDemand checks that a model is loaded by its first request or by an explicit request,
// and that a restart unloads all models.
func TestLoadsOnDemand(t *testing.T) {
	e := start(t, Options{Profile: "llamacpp-router"})
	state := func(want string) {
		t.Helper()
		if _, body := sendRequest(t, e, "GET", "/v1/models", ""); !strings.Contains(body, `"value":"`+want+`"`) {
			t.Errorf("models = %s, want the state %s", body, want)
		}
	}
	post := func(path, body string, want int) {
		t.Helper()
		if resp, got := sendRequest(t, e, "POST", path, body, "Content-Type: application/json"); resp.StatusCode != want {
			t.Errorf("%s with %s: %s %s, want %d", path, body, resp.Status, got, want)
		}
	}
	state("unloaded")
	sendChat(t, e, chatBody("hi", sixTokens))
	state("loaded")
	post("/models/load", `{"model":"sim"}`, 400)
	post("/models/unload", `{"model":"sim"}`, 200)
	state("unloaded")
	post("/models/unload", `{"model":"sim"}`, 400)
	post("/models/load", `{"model":"none"}`, 400)
	post("/models/load", `{`, 400)
	post("/models/load", `{"model":"sim"}`, 200)
	state("loaded")
	e.Reset()
	state("unloaded")
	l := start(t, Options{Profile: "lmstudio"})
	sendChat(t, l, chatBody("hi", sixTokens))
	if _, body := sendRequest(t, l, "GET", "/api/v0/models", ""); !strings.Contains(body, `"state":"loaded"`) || !strings.Contains(body, `"loaded_context_length"`) {
		t.Error(body)
	}
	if _, body := sendRequest(t, l, "GET", "/api/v1/models", ""); !strings.Contains(body, `"loaded_instances":[{"id":"sim"`) {
		t.Error(body)
	}
}

// TestStreamQuirks checks stream properties that only one engine has.
func TestStreamQuirks(t *testing.T) {
	for _, c := range []struct{ profile, more, want, not string }{
		// With the last token.
		{"tgi", `,"max_tokens":3`, `"},"logprobs":null,"finish_reason":"length"}`, `"content":""},"logprobs":null,"finish_reason":"length"`},
		{"tgi", ``, "data:{", "data: "},
		{"tgi", weather + `,"tool_choice":{"type":"function","function":{"name":"get_weather"}},"sim":{"tool_calls":3}`, `"tool_calls":[{"index":0,"id":"0","type":"function","function":{"name":null,"arguments":"`, `"index":1,"id"`},
		{"tgi", `,"reasoning_effort":"high"`, `"content":"`, `reasoning`},
		{"trtllm", weather, `{"type":"function","index":0,"function":{"arguments":"`, `null`},
		{"lmstudio", weather, `"delta":{"role":"assistant","tool_calls":[{"index":0,"function":{"arguments":"`, `"choices":[{"index":0,"delta":{"role":"assistant","content":""}`},
	} {
		e := start(t, Options{Profile: c.profile})
		_, body := sendChat(t, e, chatBody("hi", c.more+`,"stream":true`))
		if !strings.Contains(body, c.want) || strings.Contains(body, c.not) {
			t.Errorf("%s%s: want %s and not %s in\n%s", c.profile, c.more, c.want, c.not, shorten(body))
		}
	}
	e := start(t, Options{Profile: "tgi"})
	e.SetFault(Fault{Spec: "error-in-stream=2"})
	if _, body := sendChat(t, e, chatBody("hi", `,"stream":true`)); !strings.Contains(body, `"http_status_code":422}}`+"\n\ndata:[DONE]\n\n") {
		t.Error(body)
	}
}

func TestWhisper(t *testing.T) {
	e := start(t, Options{Profile: "whisper"})
	audio := twelveSeconds()
	for _, c := range []struct{ field, value, ctype, want string }{
		{"response_format", "text", "text/html; charset=utf-8", "\n"},
		{"response_format", "srt", "application/x-subrip", "1\n00:00:00,000 --> 00:00:05,000\n "},
		{"response_format", "vtt", "text/vtt", "WEBVTT"},
		{"response_format", "nonsense", "application/json", `{"text":" `},
		{"response_format", "verbose_json", "application/json", `"words":[{"word":" `},
		{"model", "whatever", "application/json", `{"text":" `},
		{"stream", "true", "application/json", `{"text":" `},
	} {
		if ctype, body, code := transcribeAudio(t, e, "/inference", audio, c.field, c.value); code != 200 || ctype != c.ctype || !strings.Contains(body, c.want) {
			t.Errorf("%s=%s: %d %s %s, want 200 %s %s", c.field, c.value, code, ctype, body, c.ctype, c.want)
		}
	}
	for _, c := range []struct {
		path, want string
		audio      []byte
		fields     []string
		status     int
	}{
		{"/inference", "Invalid request", []byte("not audio"), nil, 400},
		{"/inference", "500 Internal Server Error\nstof", audio, []string{"temperature", "warm"}, 500},
		{"/v1/audio/transcriptions", "File Not Found (/v1/audio/transcriptions)", audio, nil, 404},
	} {
		if ctype, body, code := transcribeAudio(t, e, c.path, c.audio, c.fields...); code != c.status || body != c.want || ctype != "text/plain" {
			t.Errorf("%s: %d %s %q, want %d text/plain %q", c.path, code, ctype, body, c.status, c.want)
		}
	}
	if resp, body := sendRequest(t, e, "POST", "/inference", "{}", "Content-Type: application/json"); resp.StatusCode != 400 || body != "Invalid request" {
		t.Error(resp.Status, body)
	}
	if _, _, code := transcribeAudio(t, start(t, Options{Profile: "whisper-openai"}), "/v1/audio/transcriptions", audio); code != 200 {
		t.Error(code)
	}
}

// TestTranscriptionsVLLM checks that vLLM transcribes half a minute at a time, and sends a finish
// reason after each half minute.
func TestTranscriptionsVLLM(t *testing.T) {
	e := start(t, Options{Profile: "vllm", Models: []string{"ears"}})
	audio := append(audio.WAVHeader(), make([]byte, 2*audio.SampleRate*70)...)
	ctype, body, _ := transcribeAudio(t, e, "/v1/audio/transcriptions", audio, "model", "ears", "stream", "true", "stream_include_usage", "true")
	_, whole, _ := transcribeAudio(t, e, "/v1/audio/transcriptions", audio, "model", "ears")
	evs := events(body)
	if !strings.HasPrefix(ctype, "text/event-stream") || len(evs) < 5 || evs[len(evs)-1] != "[DONE]" || !strings.Contains(evs[len(evs)-2], `"choices":[],"usage":{"prompt_tokens":`) {
		t.Fatal(ctype, body)
	}
	said, finished := "", 0
	for _, ev := range evs[:len(evs)-2] {
		compact(t, ev)
		v := fastjson.MustParse(ev)
		if got := string(v.GetStringBytes("object")); got != "transcription.chunk" || !strings.HasPrefix(string(v.GetStringBytes("id")), "transcribe-") {
			t.Fatal(ev)
		}
		said += string(v.GetStringBytes("choices", "0", "delta", "content"))
		if string(v.GetStringBytes("choices", "0", "finish_reason")) == "stop" {
			finished++
		}
	}
	if want := string(fastjson.MustParse(whole).GetStringBytes("text")); strings.TrimSpace(said) != want || finished != 3 {
		t.Errorf("%d finished: %q, want %q", finished, said, want)
	}
	if _, body, code := transcribeAudio(t, e, "/v1/audio/transcriptions", audio, "model", "ears", "stream", "true", "response_format", "verbose_json"); code != 400 {
		t.Error(code, body)
	}
}

func TestSpeaches(t *testing.T) {
	e := start(t, Options{Profile: "speaches", Models: []string{"Systran/faster-whisper-small"}})
	audio := twelveSeconds()
	ctype, body, _ := transcribeAudio(t, e, "/v1/audio/transcriptions", audio, "model", "Systran/faster-whisper-small", "stream", "true")
	if evs := events(body); !strings.HasPrefix(ctype, "text/event-stream") || len(evs) != 3 || !strings.HasPrefix(evs[0], `{"text":"`) {
		t.Error(ctype, body)
	}
	if _, body := sendRequest(t, e, "GET", "/api/ps", ""); body != `{"models":["Systran/faster-whisper-small"]}` {
		t.Error(body)
	}
	if _, body, code := transcribeAudio(t, e, "/v1/audio/transcriptions", audio, "model", "none"); code != 404 || !strings.HasPrefix(body, `{"detail":"Model 'none' is not installed locally.`) {
		t.Error(code, body)
	}
	if resp, body := sendRequest(t, e, "POST", "/v1/audio/transcriptions", "{}", "Content-Type: application/json"); resp.StatusCode != 422 || !strings.HasPrefix(body, `{"detail":[{"type":"value_error","loc":["body","file"],`) {
		t.Error(resp.Status, body)
	}
}

func TestKokoro(t *testing.T) {
	e := start(t, Options{Profile: "kokoro"})
	for _, c := range []struct {
		body, ctype, want string
		status            int
		chunked           bool
	}{
		{`{"model":"kokoro","input":"one two","voice":"alloy"}`, "audio/mpeg", "\xff\xfb", 200, true},
		{`{"model":"tts-1","input":"one two","voice":"af_heart","response_format":"wav","stream":false}`, "audio/wav", "RIFF", 200, false},
		{`{"model":"gpt","input":"x"}`, "application/json", `{"detail":{"error":"invalid_model","message":"Unsupported model: gpt","type":"invalid_request_error"}}`, 400, false},
		{`{"model":"kokoro","input":"x","voice":"nobody"}`, "application/json", `{"detail":{"error":"validation_error","message":"Voice 'nobody' not found.`, 400, false},
		{`{"model":"kokoro"}`, "application/json", `{"detail":[{"type":"value_error","loc":["body","input"],`, 422, false},
	} {
		resp, body := sendRequest(t, e, "POST", "/v1/audio/speech", c.body, "Content-Type: application/json")
		if resp.StatusCode != c.status || resp.Header.Get("Content-Type") != c.ctype || !strings.HasPrefix(body, c.want) || (resp.ContentLength < 0) != c.chunked {
			t.Errorf("%s: %s %v %.90q, want %d %s %s", c.body, resp.Status, resp.Header, body, c.status, c.ctype, c.want)
		}
	}
}

// TestErrorCloses checks that llama.cpp's server closes a connection after an error. Other engines
// leave it open.
func TestErrorCloses(t *testing.T) {
	for profile, want := range map[string]bool{"llamacpp": true, "llamacpp-router": true, "vllm": false, "whisper": false, "tgi": false} {
		e := start(t, Options{Profile: profile})
		c := dial(t, e)
		c.send("GET", "/nothing", "")
		if resp, _, err := c.answer(); err != nil || resp.StatusCode != 404 || resp.Close != want {
			t.Errorf("%s: %v, close %t; want 404, close %t", profile, err, resp.Close, want)
		}
	}
}

// TestHelp checks that `penstock sim --help` describes every profile.
func TestHelp(t *testing.T) {
	help := (&CLI{}).Help()
	for _, name := range Profiles() {
		if p := profile.ByName[name]; len(p.Description) < 20 || !strings.Contains(help, "\n  "+name+" ") || !strings.Contains(help, p.Description) {
			t.Errorf("nothing is said of %s", name)
		}
	}
}
