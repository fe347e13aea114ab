package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests check token counts in Messages, both in streams and from the endpoint that counts
// tokens.

// TestMessages_EarlyUsage checks that message_start contains the prompt's size if the engine, like
// vLLM, reports it early. LangChain reads the size only there.
func TestMessages_EarlyUsage(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: "", Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}", engine: vllm }]
models: [{ id: sim, deployments: [{ upstream: up-0 }] }]
`})
	s := p.claude().Messages.NewStreaming(context.Background(), messageParams(rig.Canary, ""))
	defer s.Close()
	if !s.Next() {
		t.Fatal(s.Err())
	}
	if first := s.Current(); first.Type != "message_start" || first.Message.Usage.InputTokens == 0 {
		t.Errorf("the first event is %s", first.RawJSON())
	}
	for s.Next() {
	}
	if s.Err() != nil {
		t.Error(s.Err())
	}
}

func TestMessages_CountTokens(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{Slots: 1, TokenRate: 10}}, Upstream: "concurrency: 1"})
	count := func(words int) int64 {
		t.Helper()
		n, err := p.claude().Messages.CountTokens(context.Background(), anthropic.MessageCountTokensParams{
			Model:    "sim",
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(strings.Repeat("word ", words)))},
		})
		if err != nil {
			t.Fatal(err)
		}
		return n.InputTokens
	}
	// Counting must not require a slot.
	s := p.OpenStream("/v1/messages", `{"model":"sim","max_tokens":99,"stream":true,"messages":[{"role":"user","content":"a"}]}`)
	small, large := count(4), count(4000)
	if small < 1 || large < 4000 || large > 8000 {
		t.Errorf("4 words are %d tokens, 4000 are %d", small, large)
	}
	rig.WaitFor(t, rig.WaitTimeout, "both are logged", func() bool { return len(p.AccessLines()) == 2 })
	if l := p.AccessLines(); l[len(l)-1].Dialect != "messages" || l[len(l)-1].Attempts != 0 {
		t.Errorf("the log says %+v", l[len(l)-1])
	}
	s.Disconnect()
	for body, code := range map[string]string{
		`{"model":"sim"}`: "missing_parameter", `{`: "invalid_json", `{"model":"sim","messages":[{"role":"tool","content":"a"}]}`: "invalid_value",
	} {
		p.Post("/v1/messages/count_tokens", body).WantError(400, "invalid_request_error", code)
	}
	p.Post("/v1/messages/count_tokens", `{"model":"none","messages":[{"role":"user","content":"a"}]}`).WantError(404, "not_found_error", "model_not_found")
	p.Post("/v1/messages/count_tokens", `{}`, "Authorization: Bearer no").WantError(401, "authentication_error", "invalid_api_key")
}

// TestMessages_CountByEngine checks that an engine that can count tokens receives the client's
// text. If counting fails, the answer must be an estimate.
func TestMessages_CountByEngine(t *testing.T) {
	t.Parallel()
	var (
		mu     sync.Mutex
		status = 200
		answer = `{"input_tokens":4711}`
		asked  []string
	)
	set := func(s int, a string) {
		mu.Lock()
		defer mu.Unlock()
		status, answer, asked = s, a, nil
	}
	seen := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return asked
	}
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/v1/messages/count_tokens":
			b, _ := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, string(b))
			w.WriteHeader(status)
			_, _ = io.WriteString(w, answer)
		case "/v1/models":
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"served","owned_by":"llamacpp"}]}`)
		default:
			_, _ = io.WriteString(w, `{"status":"ok"}`)
		}
	}))
	t.Cleanup(engine.Close)
	p := start(t, rig.Setup{Cold: true, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "` + engine.URL + `", engine: llamacpp, concurrency: 1 }]
models: [{ id: sim, deployments: [{ upstream: up-0, served: served }] }]
`})
	rig.WaitFor(t, rig.WaitTimeout, "the engine to be up", func() bool { return p.Metric("penstock_upstream_up") == 1 })
	body := `{"model":"sim","system":"s","messages":[{"role":"user","content":"` + rig.Canary + `"}],"lora":[1],"tools":[{"name":"f","input_schema":{}}]}`
	if r := p.Post("/v1/messages/count_tokens", body).WantStatus(200); r.Body != `{"input_tokens":4711}` {
		t.Errorf("count = %s, want 4711", r.Body)
	}
	want := `{"model":"served","system":"s","messages":[{"role":"user","content":"` + rig.Canary + `"}],"tools":[{"name":"f","input_schema":{}}]}`
	if got := seen(); len(got) != 1 || got[0] != want {
		t.Errorf("the engine was asked %q", got)
	}
	if l := p.LastAccessLine(); l.Upstream != "up-0" || l.Attempts != 1 || l.Outcome != "ok" {
		t.Errorf("the log says %+v", l)
	}
	for _, c := range []struct {
		status int
		answer string
	}{{404, `{"error":"no"}`}, {500, ""}, {400, "{}"}, {200, "nonsense"}, {200, `{"input_tokens":"x"}`}, {200, strings.Repeat(" ", 1000)}} {
		set(c.status, c.answer)
		r := p.Post("/v1/messages/count_tokens", body).WantStatus(200)
		var n struct {
			InputTokens int `json:"input_tokens"`
		}
		if err := json.Unmarshal([]byte(r.Body), &n); err != nil || n.InputTokens < 1 || n.InputTokens > 100 {
			t.Errorf("engine's count %d %q: count = %s, want 1 to 100", c.status, c.answer, r.Body)
		}
		if n := len(seen()); n != 1 {
			t.Errorf("%d %q: the engine was asked %d times", c.status, c.answer, n)
		}
	}
	if up, open := p.Metric("penstock_upstream_up"), p.Metric("penstock_upstream_breaker_open"); up != 1 || open != 0 {
		t.Error("what went wrong with counting was held against the engine")
	}
}

// TestCounts_Estimated checks that, if the engine does not count tokens, the answer contains the
// counts that the key is charged for, including the prompt's.
func TestCounts_Estimated(t *testing.T) {
	t.Parallel()
	p := startBare(t, func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Stream bool `json:"stream"`
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Errorf("the engine was sent: %v", err)
		}
		if asked.Stream {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"some words"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"some words"},"finish_reason":"stop"}]}`)
	})
	text := strings.Repeat("word ", 500)
	for _, c := range []struct{ path, body string }{
		{"/v1/chat/completions", `"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"` + text + `"}]`},
		{"/v1/messages", `"max_tokens":9,"messages":[{"role":"user","content":"` + text + `"}]`},
		{"/v1/responses", `"input":"` + text + `"`},
	} {
		for _, stream := range []string{"false", "true"} {
			r := p.Post(c.path, `{"model":"talk","stream":`+stream+`,`+c.body+`}`).WantStatus(200)
			l := p.LastAccessLine()
			told := regexp.MustCompile(`"(?:prompt|input)_tokens":(\d+)`).FindAllStringSubmatch(r.Body, -1)
			if !l.TokensEstimated || l.PromptTokens < 100 || len(told) == 0 || told[len(told)-1][1] != strconv.Itoa(l.PromptTokens) {
				t.Errorf("%s, stream %s: the client was told %q, the log says %+v", c.path, stream, told, l)
			}
		}
	}
}

// TestMessages_CountIsACall checks that a count_tokens request counts against the key's
// concurrency, reserves tokens and releases them, and ends when the client disconnects.
func TestMessages_CountIsACall(t *testing.T) {
	t.Parallel()
	asked, left := make(chan bool, 100), make(chan bool, 100)
	hold := make(chan struct{})
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/v1/messages/count_tokens":
			_, _ = io.Copy(io.Discard, r.Body)
			asked <- true
			select {
			case <-r.Context().Done():
				left <- true
			case <-hold:
				_, _ = io.WriteString(w, `{"input_tokens":4711}`)
			}
		case "/v1/models":
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"sim","owned_by":"llamacpp"}]}`)
		default:
			_, _ = io.WriteString(w, `{"status":"ok"}`)
		}
	}))
	t.Cleanup(engine.Close)
	p := start(t, rig.Setup{Cold: true, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}", limits: { concurrency: 1, tokens_per_minute: 1000 } }]
upstreams: [{ name: up-0, url: "` + engine.URL + `", engine: llamacpp, concurrency: 4 }]
models: [{ id: sim, deployments: [{ upstream: up-0 }] }]
`})
	rig.WaitFor(t, rig.WaitTimeout, "the engine to be up", func() bool { return p.Metric("penstock_upstream_up") == 1 })
	const path, body = "/v1/messages/count_tokens", `{"model":"sim","messages":[{"role":"user","content":"a"}]}`
	// The edge waits two seconds for a counter. A busy machine may need several attempts to send
	// both requests in time.
	rig.WaitFor(t, rig.WaitTimeout, "a count excludes another one, and ends with its client", func() bool {
		c := p.Dial()
		_ = c.Send(p.RequestBytes(path, body))
		rig.Receive(t, rig.WaitTimeout, "the engine is asked", asked)
		begun := time.Now()
		second := p.Post(path, body)
		c.Reset()
		late := time.Since(begun) > time.Second
		if !late {
			second.WantError(429, "rate_limit_error", "rate_limited")
		}
		rig.Receive(t, rig.WaitTimeout, "the engine's client leaves", left)
		l := p.LastAccessLine()
		if !late && l.Outcome != "client_gone" {
			t.Errorf("the log says %+v", l)
		}
		return second.Status == 429 && l.Outcome == "client_gone"
	})
	if l := p.LastAccessLine(); l.PromptTokens != 0 || l.CompletionTokens != 0 {
		t.Errorf("a count is charged: %+v", l)
	}
	close(hold)
	for range 3 { // each count reserves more than half of the key's tokens
		if r := p.Post(path, `{"model":"sim","messages":[{"role":"user","content":"`+strings.Repeat("word ", 500)+`"}]}`).WantStatus(200); r.Body != `{"input_tokens":4711}` {
			t.Errorf("count = %s, want 4711", r.Body)
		}
	}
	if l := p.LastAccessLine(); l.PromptTokens != 0 || l.Outcome != "ok" {
		t.Errorf("a count is charged: %+v", l)
	}
}
