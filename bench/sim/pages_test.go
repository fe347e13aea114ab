package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"mime/multipart"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim/audio"
)

func TestPages(t *testing.T) {
	cases := map[string][]struct{ path, want string }{
		"vllm": {
			{"/v1/models", `"id":"a/b","object":"model"`},
			{"/v1/models", `"max_model_len":777`},
			{"/v1/models", `"owned_by":"vllm"`},
			{"/version", `{"version":"0.0.0+sim"}`},
			{"/load", `{"server_load":0}`},
			{"/health", ""},
			{"/v1/models/a/b", `"id":"a/b"`},
			{"/metrics", `vllm:num_requests_running{engine="0",model_name="a/b"} 0`},
			{"/metrics", `vllm:kv_cache_usage_perc{`},
			{"/metrics", `vllm:num_requests_waiting{`},
			{"/metrics", `vllm:time_to_first_token_seconds_bucket{engine="0",model_name="a/b",le="+Inf"}`},
		},
		"llamacpp": {
			{"/v1/models", `"n_ctx":777`},
			{"/models", `"owned_by":"llamacpp"`},
			{"/health", `{"status":"ok"}`},
			{"/v1/health", `{"status":"ok"}`},
			{"/props", `"total_slots":3`},
			{"/props", `"default_generation_settings":{"params":{"seed":4294967295,"temperature":0.8},"n_ctx":777}`},
			{"/slots", `{"id":2,"n_ctx":777,"speculative":false,"is_processing":false}]`},
			{"/metrics", "\nllamacpp:requests_processing 0\n"},
		},
		"sglang": {
			{"/v1/models", `"owned_by":"sglang"`},
			{"/get_server_info", `"max_running_requests":3`},
			{"/model_info", `"is_generation":true`},
			{"/v1/loads?include=core", `"max_running_requests":3`},
			{"/get_load", `"num_waiting_reqs":0`},
			{"/metrics", `sglang:num_running_reqs{model_name="a/b"} 0`},
		},
		"ollama": {
			{"/", "Ollama is running"}, {"/api/version", `"version"`}, {"/api/tags", `"name":"a/b"`}, {"/api/ps", `"context_length":777`}, {"/v1/models", `"owned_by":"library"`},
		},
		"openai": {{"/v1/models", `"id":"a/b"`}, {"/health", `ok`}},
	}
	absent := map[string]string{"vllm": "/props", "llamacpp": "/version", "sglang": "/api/tags", "ollama": "/metrics", "openai": "/metrics"}
	for profile, pages := range cases {
		e := start(t, Options{Profile: profile, Models: []string{"a/b", "c"}, MaxModelLen: 777, Slots: 3})
		for _, p := range pages {
			resp, body := sendRequest(t, e, "GET", p.path, "")
			if resp.StatusCode != 200 || !strings.Contains(body, p.want) {
				t.Errorf("%s %s: %s %s, want %s", profile, p.path, resp.Status, body, p.want)
			}
			if strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[") {
				compact(t, body)
			}
			resp, body = sendRequest(t, e, "HEAD", p.path, "")
			if resp.StatusCode != 200 || body != "" {
				t.Errorf("%s: HEAD %s: %s %q, want 200 without a body", profile, p.path, resp.Status, body)
			}
		}
		if resp, body := sendRequest(t, e, "GET", absent[profile], ""); resp.StatusCode != 404 {
			t.Errorf("%s: %s: %s %s, want 404", profile, absent[profile], resp.Status, body)
		}
		want := 405
		if profile == "llamacpp" {
			want = 404
		}
		if resp, body := sendRequest(t, e, "GET", "/v1/chat/completions", ""); resp.StatusCode != want {
			t.Errorf("%s: GET of the chat path: %s %s, want %d", profile, resp.Status, body, want)
		}
		if s := e.Stats(); s.Requests != 0 || s.Probes != int64(2*len(pages)+2) {
			t.Errorf("%s: stats = %+v, want %d probes and no request", profile, s, 2*len(pages)+2)
		}
	}
}

func TestLiveNumbers(t *testing.T) {
	e := start(t, Options{Slots: 1})
	l := start(t, Options{Slots: 1, Profile: "llamacpp"})
	for _, x := range []*Engine{e, l} {
		for i := range 2 {
			c := dial(t, x)
			c.post("/v1/chat/completions", chatBody("hi", `,"sim":{"ttft_ms":60000}`))
			eventually(t, "in", func() bool { return x.Stats().Requests == int64(i+1) })
			eventually(t, "in its place", func() bool { s := x.Stats(); return s.Running+s.Waiting == i+1 })
		}
	}
	_, body := sendRequest(t, e, "GET", "/metrics", "")
	for _, want := range []string{`running{engine="0",model_name="sim"} 1`, `waiting{engine="0",model_name="sim"} 1`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	if _, body = sendRequest(t, e, "GET", "/load", ""); body != `{"server_load":2}` {
		t.Error(body)
	}
	if _, body = sendRequest(t, l, "GET", "/slots", ""); !strings.Contains(body, `"is_processing":true`) {
		t.Error(body)
	}
	if resp, _ := sendRequest(t, l, "GET", "/slots?fail_on_no_slot=1", ""); resp.StatusCode != 503 {
		t.Error(resp.Status)
	}
	if _, body = sendRequest(t, l, "GET", "/metrics", ""); !strings.Contains(body, "requests_processing 1\n") || !strings.Contains(body, "requests_deferred 1\n") {
		t.Error(body)
	}
	l.SetSlots(5)
	eventually(t, "second runs", func() bool { return l.Stats().Running == 2 })
}

func TestHealthAndModels(t *testing.T) {
	for _, p := range []string{"vllm", "llamacpp"} {
		e := start(t, Options{Profile: p})
		e.SetHealthy(false)
		if resp, _ := sendRequest(t, e, "GET", "/health", ""); resp.StatusCode != 503 {
			t.Error(p, resp.Status)
		}
		want := map[string]int{"vllm": 200, "llamacpp": 503}[p]
		if resp, body := sendChat(t, e, chatBody("hi", "")); resp.StatusCode != want {
			t.Error(p, resp.Status, body)
		}
		if resp, _ := sendRequest(t, e, "POST", "/sim/health", `{"healthy":true}`); resp.StatusCode != 200 {
			t.Error(resp.Status)
		}
		if resp, _ := sendRequest(t, e, "GET", "/health", ""); resp.StatusCode != 200 {
			t.Error(p, resp.Status)
		}
	}
	e := start(t, Options{})
	e.SetModels("x")
	if resp, _ := sendChat(t, e, chatBody("hi", "")); resp.StatusCode != 404 {
		t.Error(resp.Status)
	}
	sendRequest(t, e, "POST", "/sim/models", `{"models":["sim","y"]}`)
	if resp, _ := sendChat(t, e, chatBody("hi", "")); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
}

func TestOllamaHost(t *testing.T) {
	e := start(t, Options{Profile: "ollama", Models: []string{"m:latest"}})
	for host, want := range map[string]int{"localhost": 200, "127.0.0.1:11434": 200, "[::1]:1": 200, "x.local": 200, "gateway.example.com": 403, "mybox": 403} {
		c := dial(t, e)
		_, _ = fmt.Fprintf(c, "GET /v1/models HTTP/1.1\r\nHost: %s\r\n\r\n", host)
		if resp, _, err := c.answer(); err != nil || resp.StatusCode != want {
			t.Error(host, resp.Status, err)
		}
	}
	if resp, _ := sendRequest(t, e, "GET", "/v1/models", "", "Origin: https://evil.example"); resp.StatusCode != 403 {
		t.Error(resp.Status)
	}
	_, body := sendChat(t, e, strings.Replace(chatBody("hi", ""), `"sim"`, `"m"`, 1))
	if plainOf(t, body).Model != "m" {
		t.Error(body)
	}
}

func TestRecordAndStats(t *testing.T) {
	e := start(t, Options{Record: true})
	sendChat(t, e, chatBody("one", sixTokens), "X-Custom: yes")
	sendChat(t, e, chatBody("two", sixTokens))
	s := e.Stats()
	if s.LastRequest == nil || !bytes.Contains(s.LastRequest.Body, []byte("two")) || s.Tokens != 12 || s.Completed != 2 || s.Accepted != 2 || s.Peak != 1 {
		t.Errorf("stats = %+v, want 2 requests completed with 12 tokens", s)
	}
	if all := e.Recorded(); len(all) != 2 || all[0].Get("x-custom") != "yes" || all[0].Target != "/v1/chat/completions" {
		t.Errorf("recorded = %+v, want 2 requests with their headers", all)
	}
	_, body := sendRequest(t, e, "GET", "/sim/stats", "")
	var over Stats
	if err := json.Unmarshal([]byte(body), &over); err != nil || over.Completed != 2 || over.LastRequest == nil {
		t.Error(body, err)
	}
	if _, body = sendRequest(t, e, "GET", "/sim/requests", ""); strings.Count(body, `"method"`) != 2 {
		t.Error(body)
	}
	sendRequest(t, e, "POST", "/sim/reset", "")
	if s := e.Stats(); s.Requests != 0 || s.LastRequest != nil || s.Tokens != 0 {
		t.Errorf("stats after a reset = %+v, want nothing", s)
	}
	for range maxRecordedRequests + 5 {
		e.record.add(&request{})
	}
	if n := len(e.Recorded()); n != maxRecordedRequests {
		t.Error(n)
	}
	plain := start(t, Options{})
	sendChat(t, plain, chatBody("one", sixTokens))
	if plain.Stats().LastRequest != nil {
		t.Error("recorded unasked")
	}
	if resp, _ := sendRequest(t, e, "GET", "/sim/nope", ""); resp.StatusCode != 404 {
		t.Error(resp.Status)
	}
	eventually(t, "the others are gone", func() bool { return e.Stats().Conns == 0 })
	c := dial(t, e)
	eventually(t, "connected", func() bool { return e.Stats().Conns == 1 })
	if _, body := sendRequest(t, e, "POST", "/sim/drop", `{"share":1,"reset":true}`); body != `{"dropped":1}`+"\n" {
		t.Error(body)
	}
	_, _ = c.readRaw()
}

// TestStrictHeads checks that a request head is rejected and counted if two servers could interpret
// it differently.
func TestStrictHeads(t *testing.T) {
	e := start(t, Options{})
	good := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	body := chatBody("hi", sixTokens)
	for _, head := range []string{
		good + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		good + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		good + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		good + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		good + "Content-Length: +5\r\n\r\nhello", good + "Content-Length: 5x\r\n\r\nhello",
		good + "Host: y\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", good + " folded: x\r\n\r\n", good + "na me: x\r\n\r\n", good + "nocolon\r\n\r\n",
		"GET / HTTP/2.0\r\nHost: x\r\n\r\n", "get / HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n", "GET /  HTTP/1.1\r\nHost: x\r\n\r\n",
		good + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", good + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
		good + "Content-Length: 999999999999\r\n\r\n",
	} {
		c := dial(t, e)
		_, _ = io.WriteString(c, head)
		raw, _ := c.readRaw()
		if !strings.HasPrefix(raw, "HTTP/1.1 4") && !strings.HasPrefix(raw, "HTTP/1.1 505") {
			t.Errorf("head %q: answer = %q, want 4xx or 505", head, raw)
		}
	}
	if n := e.Stats().Malformed; n != 18 {
		t.Error(n)
	}
	for _, ok := range []string{
		fmt.Sprintf("%sContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", good, len(body)),
		fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x;ext=1\r\n", good, len(body)),
		fmt.Sprintf("\r\n%sContent-Length: %d\r\n\r\n", good, len(body)),
		fmt.Sprintf("%sContent-Length: %d\r\n\r\n", strings.Replace(good, "HTTP/1.1", "HTTP/1.0", 1), len(body)),
	} {
		c := dial(t, e)
		_, _ = io.WriteString(c, ok)
		if strings.Contains(ok, "Expect") {
			if line, _ := c.r.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
				t.Errorf("line = %q, want 100 Continue", line)
			}
			_, _ = c.r.ReadString('\n')
		}
		time.Sleep(time.Millisecond)
		_, _ = io.WriteString(c, body)
		if strings.Contains(ok, "chunked") {
			_, _ = io.WriteString(c, "\r\n0\r\nX-Trailer: y\r\n\r\n")
		}
		resp, got, err := c.answer()
		if err != nil || resp.StatusCode != 200 {
			t.Errorf("request %q: %v %s, want 200", ok, err, got)
			continue
		}
		plainOf(t, got)
		if strings.Contains(ok, "HTTP/1.0") {
			if raw, _ := c.readRaw(); raw != "" || !resp.Close {
				t.Error("a connection of HTTP/1.0 stays open")
			}
		}
	}
	// A stream to an HTTP/1.0 client is not chunked.
	c := dial(t, e)
	body = chatBody("hi", `,"stream":true`)
	_, _ = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if raw, _ := c.readRaw(); strings.Contains(strings.ToLower(raw), "chunked") || !strings.HasSuffix(raw, "\n\ndata: [DONE]\n\n") {
		t.Errorf("answer = %q, want a stream without chunks", shorten(raw))
	}
}

func TestRequestsPerConnection(t *testing.T) {
	e := start(t, Options{Profile: "llamacpp"})
	c := dial(t, e)
	for i := range 100 {
		c.send("GET", "/health", "")
		resp, _, err := c.answer()
		if err != nil || resp.Close != (i == 99) {
			t.Fatal(i, resp, err)
		}
		if i == 0 && resp.Header.Get("Keep-Alive") != "timeout=5, max=100" {
			t.Error(resp.Header)
		}
	}
	if raw, _ := c.readRaw(); raw != "" {
		t.Error(raw)
	}
}

func TestCompletions(t *testing.T) {
	eachTextProfile(t, func(t *testing.T, e *Engine, profile string) {
		_, body := sendRequest(t, e, "POST", "/v1/completions", `{"model":"sim","prompt":"once","max_tokens":9}`, "Content-Type: application/json")
		plain := plainOf(t, body)
		_, body = sendRequest(t, e, "POST", "/v1/completions", `{"model":"sim","prompt":"once","max_tokens":9,"stream":true,"stream_options":{"include_usage":true}}`, "Content-Type: application/json")
		stream := streamOf(t, body)
		if plain.Text[0] == "" || plain.Text[0] != stream.Text[0] || plain.Finish[0] != "length" || stream.Finish[0] != "length" ||
			stream.Usage.Completion != 9 || !stream.Done || plain.Object != "text_completion" || stream.Roles != 0 {
			t.Errorf("plain %+v stream %+v", plain, stream)
		}
		_, body = sendRequest(t, e, "POST", "/v1/completions", `{"model":"sim","prompt":["a","b"],"n":1,"logprobs":1}`, "Content-Type: application/json")
		if plainOf(t, body).Finish[1] == "" || !strings.Contains(body, `"token_logprobs":[-0.25`) {
			t.Errorf("answer = %s, want two choices with log probabilities", body)
		}
	})
}

func TestEmbeddingsAndRerank(t *testing.T) {
	e := start(t, Options{})
	_, body := sendRequest(t, e, "POST", "/v1/embeddings", `{"model":"sim","input":["a b","a b","c"]}`, "Content-Type: application/json")
	var out struct {
		Data []struct {
			Embedding []float64
			Index     int
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(body), &out); err != nil || len(out.Data) != 3 || out.Data[2].Index != 2 || out.Usage.Prompt == 0 {
		t.Fatal(body, err)
	}
	norm := 0.0
	for i, f := range out.Data[0].Embedding {
		norm += f * f
		if f != out.Data[1].Embedding[i] {
			t.Error("same text, other vector")
		}
	}
	if math.Abs(norm-1) > 1e-5 || fmt.Sprint(out.Data[0].Embedding) == fmt.Sprint(out.Data[2].Embedding) {
		t.Error(body)
	}
	_, body = sendRequest(t, e, "POST", "/v1/embeddings", `{"model":"sim","input":"x","encoding_format":"base64","dimensions":4}`, "Content-Type: application/json")
	if !strings.Contains(body, `"embedding":"`) {
		t.Error(body)
	}
	for _, bad := range []string{`{"model":"sim"}`, `{"model":"sim","input":""}`, `{"model":"none","input":"x"}`} {
		if resp, _ := sendRequest(t, e, "POST", "/v1/embeddings", bad, "Content-Type: application/json"); resp.StatusCode < 400 {
			t.Error(bad)
		}
	}
	_, body = sendRequest(t, e, "POST", "/v1/rerank", `{"model":"sim","query":"green boat","documents":["red car","a green boat",{"text":"green"}],"top_n":2}`, "Content-Type: application/json")
	if !strings.Contains(body, `"results":[{"index":1,`) || strings.Count(body, "relevance_score") != 2 {
		t.Error(body)
	}
}

func TestPrefillOnlyWork(t *testing.T) {
	for _, c := range []struct{ engine, path, body, want string }{
		{"vllm", "/v1/score", `"text_1":"a","text_2":["b","c"]`, `"data":[{"index":0,"object":"score","score":0.75},{"index":1,`},
		{"sglang", "/v1/score", `"query":"a","items":["b"]`, `"score":0.75}]`},
		{"vllm", "/classify", `"input":"a"`, `"probs":[0.75,0.25]`},
		{"vllm", "/pooling", `"input":["a"]`, `"object":"pooling","data":[`},
		{"openai", "/v1/moderations", `"input":"a"`, `"results":[{"flagged":false,`},
		{"vllm", "/detokenize", `"tokens":[1,2]`, `{"prompt":"w1 w2"}`},
		{"llamacpp", "/detokenize", `"tokens":[1]`, `{"content":"w1"}`},
		{"vllm", "/detokenize", `"other":1`, `Field required: tokens`},
		{"llamacpp", "/classify", `"input":"a"`, `File Not Found`},
	} {
		e := start(t, Options{Profile: c.engine})
		if _, body := sendRequest(t, e, "POST", c.path, `{"model":"sim",`+c.body+`}`, "Content-Type: application/json"); !strings.Contains(body, c.want) {
			t.Errorf("%s %s %s: answer = %s, want %s in it", c.engine, c.path, c.body, body, c.want)
		}
	}
}

func TestSpeech(t *testing.T) {
	e := start(t, Options{})
	speak := func(more string) (string, string) {
		resp, body := sendRequest(t, e, "POST", "/v1/audio/speech", `{"model":"sim","input":"one two three"`+more+`}`, "Content-Type: application/json")
		if resp.StatusCode != 200 {
			t.Fatal(body)
		}
		return resp.Header.Get("Content-Type"), body
	}
	ctype, wav := speak("")
	samples := 3 * 2 * int(audio.WordTime.Seconds()*audio.SampleRate)
	if ctype != "audio/wav" || !strings.HasPrefix(wav, "RIFF") || len(wav) != 44+samples {
		t.Error(ctype, len(wav))
	}
	if ctype, pcm := speak(`,"response_format":"pcm","speed":2`); ctype != "audio/pcm" || len(pcm) != samples/2 {
		t.Error(ctype, len(pcm))
	}
	if ctype, mp3 := speak(`,"response_format":"mp3"`); ctype != "audio/mpeg" || !strings.HasPrefix(mp3, "\xff\xfb") {
		t.Error(ctype, len(mp3))
	}
	if _, sse := speak(`,"stream_format":"sse"`); strings.Count(sse, "speech.audio.delta") != 3 || !strings.Contains(sse, "speech.audio.done") {
		t.Error(sse)
	}
	for _, bad := range []string{`{"model":"sim"}`, `{"model":"sim","input":"x","response_format":"aac"}`, `{"model":"sim","input":"x","speed":9}`} {
		if resp, _ := sendRequest(t, e, "POST", "/v1/audio/speech", bad, "Content-Type: application/json"); resp.StatusCode != 400 {
			t.Error(bad, resp.Status)
		}
	}
	e.SetFault(Fault{Spec: "cut-after=1"})
	c := dial(t, e)
	c.post("/v1/audio/speech", `{"model":"sim","input":"one two three"}`)
	if raw, _ := c.readRaw(); strings.HasSuffix(raw, "0\r\n\r\n") || !strings.Contains(raw, "RIFF") {
		t.Error(shorten(raw))
	}
}

// transcribeAudio sends an audio file with form fields, and returns the Content-Type, the body and
// the status.
func transcribeAudio(t *testing.T, e *Engine, path string, audio []byte, fields ...string) (string, string, int) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = w.WriteField(fields[i], fields[i+1])
	}
	f, _ := w.CreateFormFile("file", "a.wav")
	_, _ = f.Write(audio)
	_ = w.Close()
	resp, body := sendRequest(t, e, "POST", path, b.String(), "Content-Type: "+w.FormDataContentType())
	return resp.Header.Get("Content-Type"), body, resp.StatusCode
}

func twelveSeconds() []byte { return append(audio.WAVHeader(), make([]byte, 2*audio.SampleRate*12)...) }

func TestTranscriptions(t *testing.T) {
	e := start(t, Options{})
	send := func(path string, fields ...string) (string, string, int) {
		return transcribeAudio(t, e, path, twelveSeconds(), fields...)
	}
	for format, want := range map[string][2]string{
		"": {"application/json", `{"text":"`}, "json": {"application/json", `"usage":{"type":"duration","seconds":12}`},
		"text": {"text/plain; charset=utf-8", "\n"}, "srt": {"text/plain; charset=utf-8", "3\n00:00:10,000 --> 00:00:12,000\n"},
		"vtt": {"text/vtt", "WEBVTT\n\n00:00:00.000 --> 00:00:05.000\n"}, "verbose_json": {"application/json", `"duration":12.00`},
	} {
		ctype, body, code := send("/v1/audio/transcriptions", "model", "sim", "response_format", format, "timestamp_granularities[]", "word")
		if code != 200 || ctype != want[0] || !strings.Contains(body, want[1]) {
			t.Errorf("format %s: %d %s %s, want 200 %s %s", format, code, ctype, body, want[0], want[1])
		}
		if strings.HasPrefix(body, "{") {
			compact(t, body)
		}
	}
	if _, _, code := send("/v1/audio/transcriptions", "model", "none"); code != 404 {
		t.Error(code)
	}
	if _, _, code := send("/v1/audio/transcriptions", "model", "sim", "response_format", "doc"); code != 400 {
		t.Error(code)
	}
	if resp, _ := sendRequest(t, e, "POST", "/v1/audio/transcriptions", "{}", "Content-Type: application/json"); resp.StatusCode != 400 {
		t.Error(resp.Status)
	}
}

func TestTokenize(t *testing.T) {
	e := start(t, Options{})
	if _, body := sendRequest(t, e, "POST", "/tokenize", `{"model":"sim","prompt":"12345678"}`); !strings.HasPrefix(body, `{"count":2,"max_model_len":32768,"tokens":[`) {
		t.Error(body)
	}
	_, body := sendRequest(t, e, "POST", "/tokenize", chatBody("hello", ""))
	_, chat := sendChat(t, e, chatBody("hello", sixTokens))
	if want := fmt.Sprintf(`{"count":%d,`, plainOf(t, chat).Usage.Prompt); !strings.HasPrefix(body, want) {
		t.Error(body, want)
	}
	_, chat = sendChat(t, e, `{"model":"sim","messages":[{"role":"system","content":"1234"},{"role":"user","content":"5678"}]}`)
	_, body = sendRequest(t, e, "POST", "/v1/messages/count_tokens", `{"system":"1234","messages":[{"role":"user","content":[{"type":"text","text":"5678"}]}]}`)
	if want := fmt.Sprintf(`{"input_tokens":%d}`, plainOf(t, chat).Usage.Prompt); body != want {
		t.Errorf("%s, and a chat with the same texts is charged %s", body, want)
	}
	l := start(t, Options{Profile: "llamacpp"})
	if _, body := sendRequest(t, l, "POST", "/tokenize", `{"content":"12345678"}`); strings.Count(body, ",") != 1 {
		t.Error(body)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{Profile: "nope"}, {Slots: -1}, {TokenRate: -1}, {Reasoning: "x"}, {Listen: "nowhere.invalid:1"}} {
		e := New(o)
		if err := e.Start(); err == nil {
			t.Errorf("%+v is accepted, want an error", o)
		}
		e.Close()
	}
	e := start(t, Options{})
	if err := e.Start(); err == nil {
		t.Error("started twice")
	}
}

func TestCLI(t *testing.T) {
	var out bytes.Buffer
	if err := (&CLI{Faults: true}).run(context.Background(), &out); err != nil || !strings.Contains(out.String(), "cut-after") {
		t.Error(err, out.String())
	}
	ctx, stop := context.WithCancel(context.Background())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		c := CLI{Listen: "127.0.0.1:0", Models: []string{"a", "b"}, Profile: "llamacpp", Slots: 2, Queue: -1, Fault: "status=500"}
		done <- c.run(ctx, w)
	}()
	buf := make([]byte, 200)
	n, err := r.Read(buf)
	if err != nil || !strings.HasPrefix(string(buf[:n]), "simulated llamacpp engine listening on http://127.0.0.1:") || !strings.HasSuffix(string(buf[:n]), ", models: a, b\n") {
		t.Error(string(buf[:n]), err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := (&CLI{Fault: "nope"}).run(ctx, io.Discard); err == nil {
		t.Error("bad fault accepted")
	}
}

// TestCloseEndsStubbornWork checks that Close does not wait for work whose client has left.
func TestCloseEndsStubbornWork(t *testing.T) {
	e := start(t, Options{CancelOnlyStreams: true, Slots: 1})
	for i := range 2 {
		c := dial(t, e)
		c.post("/v1/chat/completions", chatBody("hi", `,"sim":{"ttft_ms":60000}`))
		eventually(t, "in", func() bool { s := e.Stats(); return s.Running+s.Waiting == i+1 })
		_ = c.Close()
	}
	begin := time.Now()
	e.Close()
	if d := time.Since(begin); d > 20*time.Second {
		t.Error(d)
	}
}

func FuzzChat(f *testing.F) {
	f.Add(chatBody("hi", weather))
	f.Add(chatBody("hi", `,"stream":true,"n":2,"stop":["a"],"reasoning_effort":"low","sim":{"fault":"crlf+split;gap=0","tokens":3}`))
	f.Add(`{"model":"sim","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}],"response_format":{"type":"json_object"}}`)
	e := New(Options{Seed: 1})
	f.Cleanup(e.Close)
	f.Fuzz(func(t *testing.T, body string) {
		if strings.Contains(body, "_ms") || strings.Contains(body, "fault") || len(body) > 1<<16 {
			return // times and broken connections are checked by other tests
		}
		c := dialPipe(t, e)
		defer c.Close()
		c.post("/v1/chat/completions", body)
		resp, got, err := c.answer()
		if err != nil || resp.StatusCode >= 500 {
			t.Fatal(err, got)
		}
		if !json.Valid([]byte(got)) && !strings.HasPrefix(got, "data: ") {
			t.Errorf("answer = %q, want JSON or an event stream", got)
		}
	})
}
