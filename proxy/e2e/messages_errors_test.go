package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests check failures in Messages: refusals, failing engines, broken streams, and clients
// that disconnect.

// wantAPIError checks an error as parsed by the SDK.
func wantAPIError(t *testing.T, err error, status int, kind, code, param string) *anthropic.Error {
	t.Helper()
	var e *anthropic.Error
	if !errors.As(err, &e) {
		t.Fatalf("want an error with status %d, got %v", status, err)
	}
	var body struct {
		Type  string
		Error struct {
			Type, Code, Message string
			Param               *string
		}
		RequestID string `json:"request_id"`
	}
	if err := json.Unmarshal([]byte(e.RawJSON()), &body); err != nil {
		t.Fatalf("error = %s, %v; want JSON", e.RawJSON(), err)
	}
	got := ""
	if body.Error.Param != nil {
		got = *body.Error.Param
	}
	if body.Type != "error" || e.StatusCode != status || body.Error.Type != kind || body.Error.Code != code || got != param || body.Error.Message == "" {
		t.Errorf("error %d %s, want %d %s %s (%s)", e.StatusCode, e.RawJSON(), status, kind, code, param)
	}
	if string(e.Type()) != kind {
		t.Errorf("the SDK reads the type %q", e.Type())
	}
	if body.RequestID == "" || e.RequestID != body.RequestID {
		t.Errorf("request ids %q and %q", body.RequestID, e.RequestID)
	}
	rig.WantNoLeak(t, "the answer", e.RawJSON(), "127.0.0.1:")
	return e
}

func TestMessages_Errors(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{
		Engines: []sim.Options{{MaxModelLen: 300}}, Limits: "request_body: 64KiB",
		Keys:   "- { id: other, hash: \"sha256:" + strings.Repeat("0", 64) + "\" }\n",
		Models: "- { id: speech, kind: audio-speech, deployments: [{ upstream: up-0 }] }\n- { id: idle, deployments: [{ upstream: up-0, served: gone }] }\n",
	})
	wholeAndStreamed(t, func(t *testing.T, create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error)) {
		ask := func(change func(*anthropic.MessageNewParams), more ...option.RequestOption) error {
			params := messageParams(rig.Canary, "")
			if change != nil {
				change(&params)
			}
			_, err := create(p.claude(more...), params)
			return err
		}
		model := func(name string) func(*anthropic.MessageNewParams) {
			return func(m *anthropic.MessageNewParams) { m.Model = name }
		}
		wantAPIError(t, ask(nil, option.WithAPIKey("wrong")), 401, "authentication_error", "invalid_api_key", "")
		wantAPIError(t, ask(nil, option.WithAuthToken("another")), 401, "authentication_error", "credential_conflict", "")
		wantAPIError(t, ask(nil, option.WithQuery("api_key", "x")), 401, "authentication_error", "credential_in_query", "")
		wantAPIError(t, ask(model("none")), 404, "not_found_error", "model_not_found", "model")
		wantAPIError(t, ask(model("speech")), 400, "invalid_request_error", "unsupported_parameter", "model")
		e := wantAPIError(t, ask(model("idle")), 529, "overloaded_error", "no_healthy_route", "")
		if n, err := strconv.Atoi(e.Response.Header.Get("Retry-After")); err != nil || n < 1 {
			t.Errorf("Retry-After %q", e.Response.Header.Get("Retry-After"))
		}
		wantAPIError(t, ask(func(m *anthropic.MessageNewParams) {
			m.Messages = append(m.Messages, anthropic.NewAssistantMessage(anthropic.NewToolUseBlock("", map[string]any{}, "f")))
		}), 400, "invalid_request_error", "invalid_value", "messages[1].content[0].id")
		wantAPIError(t, ask(func(m *anthropic.MessageNewParams) {
			m.Messages[0].Content[0] = anthropic.NewTextBlock(strings.Repeat("x", 70<<10))
		}), 413, "request_too_large", "request_too_large", "")
		err := ask(func(m *anthropic.MessageNewParams) {
			m.MaxTokens = 10
			m.Messages[0].Content[0] = anthropic.NewTextBlock(strings.Repeat("word ", 400))
		})
		e = wantAPIError(t, err, 400, "invalid_request_error", "context_length_exceeded", "messages")
		if !strings.Contains(e.RawJSON(), `"message":"prompt is too long: `) || !strings.Contains(e.RawJSON(), " tokens \\u003e 300 maximum") && !strings.Contains(e.RawJSON(), " tokens > 300 maximum") {
			t.Errorf("agents do not compact on %s", e.RawJSON())
		}
	})
}

// TestMessages_EngineFailures checks that every engine failure before the commit is a 529 with an
// integer Retry-After, and that a mistake of the client has a different status.
func TestMessages_EngineFailures(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Untidy: true, Retry: "attempts: 1", Timeouts: "first_event: 3s, answer: 3s"})
	for _, c := range []struct {
		fault, kind, code string
		status            int
	}{
		{"status=500", "overloaded_error", "upstream_failed", 529},
		{"status=502", "overloaded_error", "upstream_failed", 529},
		{"status=503;retry-after=7", "overloaded_error", "no_healthy_route", 529},
		{"status=504", "overloaded_error", "generation_timeout", 529},
		{"status=401", "overloaded_error", "upstream_auth", 529},
		{"status=429", "rate_limit_error", "capacity_full", 429},
		{"status=400;message=tools are odd", "invalid_request_error", "rejected_by_engine", 400},
		{"html-200", "overloaded_error", "upstream_bad_response", 529},
		{"reset-before", "overloaded_error", "upstream_unreachable", 529},
		{"blackhole", "overloaded_error", "generation_timeout", 529},
	} {
		for _, stream := range []string{"", `,"stream":true`} {
			p.Engines[0].SetFault(sim.Fault{Spec: c.fault})
			r := p.Post("/v1/messages", `{"model":"sim","max_tokens":9,"messages":[{"role":"user","content":"a"}]`+stream+`}`)
			p.Engines[0].SetFault()
			t.Log(c.fault, stream)
			r.WantError(c.status, c.kind, c.code)
			if !strings.HasPrefix(r.Body, `{"type":"error",`) {
				t.Errorf("error = %s, want the form of Messages", r.Body)
			}
			p.waitBreakerReset()
		}
	}
}

// TestMessages_AnswerTooLong checks that, if a prompt would fit with a smaller max_tokens, the
// error contains the numbers that agents parse. If the engine has not counted the complete prompt,
// the numbers must come from the edge's estimate.
func TestMessages_AnswerTooLong(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	for said, least := range map[string]int{
		"'max_tokens' or 'max_completion_tokens' is too large: 900. This model's maximum context length is 1000 tokens and your request has 150 input tokens (900 > 1000 - 150).":                                         150,
		"This model's maximum context length is 1000 tokens. However, you requested 900 output tokens and your prompt contains at least 101 input tokens, for a total of at least 1001 tokens. Please reduce the length.": 300,
	} {
		p.Engines[0].SetFault(sim.Fault{Spec: "status=400;message=" + said})
		r := p.Post("/v1/messages", `{"model":"sim","max_tokens":900,"messages":[{"role":"user","content":"`+strings.Repeat("word ", 500)+`"}]}`)
		p.Engines[0].SetFault()
		r.WantError(400, "invalid_request_error", "context_length_exceeded")
		var body struct{ Error struct{ Message string } }
		if err := json.Unmarshal([]byte(r.Body), &body); err != nil {
			t.Fatal(err)
		}
		_, told, _ := strings.Cut(body.Error.Message, "; input length and `max_tokens` exceed context limit: ")
		var input, answer, most int
		if _, err := fmt.Sscanf(told, "%d + %d > %d,", &input, &answer, &most); err != nil || !strings.HasPrefix(body.Error.Message, "prompt is too long: ") {
			t.Fatalf("answer = %s, %v; want the two sums of a prompt that is too long", r.Body, err)
		}
		if input < least || input >= 1000 || answer != 900 || most != 1000 {
			t.Errorf("a prompt of at least %d tokens: %s", least, r.Body)
		}
	}
}

// waitBreakerReset waits until the breaker has recovered from a test's faults.
func (p *penstock) waitBreakerReset() {
	p.T.Helper()
	rig.WaitFor(p.T, rig.WaitTimeout, "the engine to be trusted again", func() bool {
		return p.Post("/v1/chat/completions", p.ChatRequest(`"max_tokens":1`)).Status == 200
	})
}

// TestMessages_BrokenStreams checks that a failure after the commit results in an error event and
// never looks like a normal end.
func TestMessages_BrokenStreams(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Untidy: true, Timeouts: "idle: 2s"})
	for fault, kind := range map[string]string{
		"cut-after=4":                "overloaded_error",
		"reset-after=4":              "overloaded_error",
		"stall-after=4":              "overloaded_error",
		"no-finish":                  "overloaded_error",
		"no-finish;done=1":           "overloaded_error",
		"error-in-stream=4":          "overloaded_error",
		"error-in-stream=4;code=400": "invalid_request_error",
		"invalid-json=4":             "overloaded_error",
		"finish=abort":               "overloaded_error",
	} {
		p.Engines[0].SetFault(sim.Fault{Spec: fault})
		params := messageParams("Go on.", "")
		m, err := streamMessage(t, p.claude(), params)
		p.Engines[0].SetFault()
		var e *anthropic.Error
		if !errors.As(err, &e) || string(e.Type()) != kind {
			t.Errorf("%s: want an error of type %s, got %v", fault, kind, err)
			continue
		}
		if m.StopReason != "" {
			t.Errorf("%s: stop_reason %q", fault, m.StopReason)
		}
		rig.WantNoLeak(t, "the answer", e.RawJSON(), "127.0.0.1:")
		p.waitBreakerReset()
	}
	// If an engine dies during a tool call, the client must not see a complete tool call.
	p.Engines[0].SetFault(sim.Fault{Spec: "cut-after=3"})
	params := messageParams("Weather?", "")
	params.Tools = weatherTools()
	if m, err := streamMessage(t, p.claude(), params); err == nil || m.StopReason != "" {
		t.Errorf("message = %s, %v; want an error and no stop reason", m.RawJSON(), err)
	}
}

// TestMessages_MalformedCall checks that arguments that are not JSON reach the client unchanged, so
// that the client can report them to the model. If the client sends the tool call back, the
// conversation must continue. Malformed arguments must not count as an engine failure.
func TestMessages_MalformedCall(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	params := messageParams("Weather?", "")
	params.Tools = weatherTools()
	for name, ask := range map[string]func() (id, written string, err error){
		"whole": func() (id, written string, err error) {
			m, err := p.claude().Messages.New(t.Context(), params)
			if err == nil && json.Unmarshal(m.Content[0].Input, &written) == nil {
				id = m.Content[0].ID
			}
			return id, written, err
		},
		"streamed": func() (id, written string, err error) {
			s := p.claude().Messages.NewStreaming(t.Context(), params)
			defer s.Close()
			for s.Next() {
				ev := s.Current()
				id += ev.ContentBlock.ID
				written += ev.Delta.PartialJSON
			}
			return id, written, s.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p.Engines[0].SetFault(sim.Fault{Spec: "tool-bad-args"})
			id, written, err := ask()
			p.Engines[0].SetFault()
			if err != nil || id == "" || !strings.HasPrefix(written, "{") || json.Valid([]byte(written)) {
				t.Fatalf("call %q with %q: %v", id, written, err)
			}
			next := params
			next.Messages = append(next.Messages[:1:1], anthropic.NewAssistantMessage(anthropic.NewToolUseBlock(id, written, "get_weather")),
				anthropic.NewUserMessage(anthropic.NewToolResultBlock(id, "The arguments are no JSON.", true)))
			if _, err := p.claude().Messages.New(t.Context(), next); err != nil {
				t.Error(err)
			}
		})
	}
	if p.Metric("penstock_upstream_breaker_open") != 0 {
		t.Error("what a model says badly was held against its engine")
	}
}

func TestMessages_Cancel(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{TokenRate: 20}}})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := p.claude().Messages.NewStreaming(ctx, messageParams(rig.Canary, `"tokens":200`))
	for range 4 {
		if !s.Next() {
			t.Fatal(s.Err())
		}
	}
	cancel()
	for s.Next() {
	}
	s.Close()
	took := rig.WaitFor(t, rig.WaitTimeout, "the engine to be freed", func() bool { return p.Engines[0].Stats().Aborted == 1 })
	t.Logf("freed after %v", took)
	if l := p.LastAccessLine(); l.Outcome != "client_gone" {
		t.Errorf("the log says %+v", l)
	}
}

// TestMessages_SlowBody checks that a client that sends too slowly receives an error in its
// dialect.
func TestMessages_SlowBody(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Timeouts: "client_body: 1s"})
	c := p.Dial()
	_ = c.Send(p.RequestHead("POST", "/v1/messages?beta=true", "Content-Type: application/json", "Content-Length: 500") + `{"model":`)
	if r := c.ReadReply(http.MethodPost); r.Status != 408 || !strings.HasPrefix(r.Body, `{"type":"error",`) {
		t.Errorf("answer = %d %s, want 408 in the form of Messages", r.Status, r.Body)
	}
	if l := p.LastAccessLine(); l.BytesIn != int64(len(`{"model":`)) {
		t.Errorf("the log has %d bytes", l.BytesIn)
	}
}
