package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"penstock/bench/sim"
)

// The Messages dialect end to end, with the official SDK as the client.

// claude is a client of the edge that does not retry by itself. Its base URL has no /v1, as the SDK wants it.
func (p *penstock) claude(more ...option.RequestOption) *anthropic.Client {
	c := anthropic.NewClient(append([]option.RequestOption{
		option.WithBaseURL(p.url), option.WithAPIKey(p.key), option.WithHTTPClient(p.client), option.WithMaxRetries(0),
	}, more...)...)
	return &c
}

// say is a Messages request with one user message. controls are members for the simulator.
func say(text, controls string) anthropic.MessageNewParams {
	if controls != "" {
		text += " [[sim {" + controls + "}]]"
	}
	return anthropic.MessageNewParams{
		Model: "sim", MaxTokens: 256,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
	}
}

// streamed asks for a stream and puts it together.
func streamed(t testing.TB, c *anthropic.Client, params anthropic.MessageNewParams) (*anthropic.Message, error) {
	t.Helper()
	s := c.Messages.NewStreaming(context.Background(), params)
	defer s.Close()
	var m anthropic.Message
	for s.Next() {
		if err := m.Accumulate(s.Current()); err != nil {
			t.Fatalf("the SDK does not understand the stream: %v", err)
		}
	}
	return &m, s.Err()
}

func messageText(m *anthropic.Message) (text string) {
	for _, b := range m.Content {
		text += b.Text
	}
	return text
}

// wholeAndStreamed runs f for a whole answer and for a streamed one.
func wholeAndStreamed(t *testing.T, f func(t *testing.T, create func(c *anthropic.Client, params anthropic.MessageNewParams) (*anthropic.Message, error))) {
	t.Run("whole", func(t *testing.T) {
		f(t, func(c *anthropic.Client, params anthropic.MessageNewParams) (*anthropic.Message, error) {
			return c.Messages.New(context.Background(), params)
		})
	})
	t.Run("streamed", func(t *testing.T) {
		f(t, func(c *anthropic.Client, params anthropic.MessageNewParams) (*anthropic.Message, error) {
			return streamed(t, c, params)
		})
	})
}

// detected is a configuration with one engine that the edge has to recognise by itself.
const detected = `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}" }]
models: [{ id: public, aliases: ["claude-*", sim], deployments: [{ upstream: up-0, served: sim }] }]
`

func TestMessages_Text(t *testing.T) {
	t.Parallel()
	// llama.cpp is asked for a stream even when the client wants none.
	for _, o := range []sim.Options{{}, {Profile: "sglang"}, {Profile: "llamacpp", CancelOnlyStreams: true}, {Profile: "ollama"}} {
		t.Run(o.Profile, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{engines: []sim.Options{o}, config: detected})
			wholeAndStreamed(t, func(t *testing.T, create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error)) {
				params := say(canary, `"text":"Guten Tag, \"Welt\" 世界!"`)
				params.Model = "claude-opus-4-5"
				params.System = []anthropic.TextBlockParam{{Text: "Be brief."}, {Text: "Be kind."}}
				m, err := create(p.claude(), params)
				if err != nil {
					t.Fatal(err)
				}
				if got := messageText(m); got != `Guten Tag, "Welt" 世界!` || len(m.Content) != 1 {
					t.Errorf("content %q in %d blocks", got, len(m.Content))
				}
				if m.Model != "public" || !strings.HasPrefix(m.ID, "msg_") || m.Role != "assistant" || m.StopReason != "end_turn" {
					t.Errorf("%+v", m)
				}
				if m.Usage.InputTokens+m.Usage.CacheReadInputTokens == 0 || m.Usage.OutputTokens == 0 {
					t.Errorf("usage %+v", m.Usage)
				}
				if l := p.lastCall(); l.Dialect != "messages" || l.Outcome != "ok" || l.PromptTokens == 0 || l.CompletionTokens == 0 {
					t.Errorf("the log says %+v", l)
				}
			})
		})
	}
}

// TestMessages_Same: a prompt has the same answer in chat, whole and streamed.
func TestMessages_Same(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	c := p.claude()
	whole, err := c.Messages.New(context.Background(), say("tell me", ""))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := streamed(t, c, say("tell me", ""))
	if err != nil {
		t.Fatal(err)
	}
	var chat struct {
		Choices []struct{ Message struct{ Content string } }
	}
	r := p.post("/v1/chat/completions", `{"model":"sim","max_tokens":256,"messages":[{"role":"user","content":"tell me"}]}`).wantStatus(200)
	if err := json.Unmarshal([]byte(r.body), &chat); err != nil {
		t.Fatal(err)
	}
	if a, b, c := messageText(whole), messageText(stream), chat.Choices[0].Message.Content; a == "" || a != b || a != c {
		t.Errorf("whole %q\nstreamed %q\nchat %q", a, b, c)
	}
	if whole.Usage.OutputTokens != stream.Usage.OutputTokens {
		t.Errorf("usage: whole %+v, streamed %+v", whole.Usage, stream.Usage)
	}
}

func weatherTools() []anthropic.ToolUnionParam {
	return []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
		Name: "get_weather", Description: anthropic.String("The weather of a city."),
		InputSchema: anthropic.ToolInputSchemaParam{
			Properties: map[string]any{"city": map[string]any{"type": "string"}, "days": map[string]any{"type": "integer"}}, Required: []string{"city", "days"},
		},
	}}}
}

// TestMessages_ToolLoop runs an agent's loop: calls, results, and an answer in words.
func TestMessages_ToolLoop(t *testing.T) {
	t.Parallel()
	for _, o := range []sim.Options{{Record: true}, {Record: true, Profile: "ollama"}} {
		for _, fault := range []string{"", "tool-interleaved", "tool-whole", "split+crlf+usage-every-chunk"} {
			t.Run(o.Profile+"/"+fault, func(t *testing.T) {
				t.Parallel()
				p := start(t, setup{engines: []sim.Options{o}})
				if fault != "" {
					p.engines[0].SetFault(sim.Fault{Spec: fault})
				}
				wholeAndStreamed(t, func(t *testing.T, create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error)) {
					params := say("What is the weather?", `"tool_calls":2`)
					params.Tools = weatherTools()
					m, err := create(p.claude(), params)
					if err != nil {
						t.Fatal(err)
					}
					if m.StopReason != "tool_use" {
						t.Errorf("stop_reason %q", m.StopReason)
					}
					params.Messages = append(params.Messages, m.ToParam())
					var results []anthropic.ContentBlockParamUnion
					ids := map[string]bool{}
					for _, b := range m.Content {
						if b.Type != "tool_use" {
							continue
						}
						var input struct {
							City *string
							Days *int
						}
						if err := json.Unmarshal(b.Input, &input); err != nil || input.City == nil || input.Days == nil || b.Name != "get_weather" {
							t.Errorf("call %s(%s): %v", b.Name, b.Input, err)
						}
						ids[b.ID] = true
						results = append(results, anthropic.NewToolResultBlock(b.ID, "Rain.", false))
					}
					if len(results) != 2 || len(ids) != 2 {
						t.Fatalf("%d calls with %d ids: %s", len(results), len(ids), m.RawJSON())
					}
					params.Messages = append(params.Messages, anthropic.NewUserMessage(results...))
					m, err = create(p.claude(), params)
					if err != nil {
						t.Fatal(err)
					}
					if m.StopReason != "end_turn" || messageText(m) == "" {
						t.Errorf("the last answer is %s", m.RawJSON())
					}
					var sent struct {
						Messages []struct {
							Role      string
							ToolCalls []struct{ ID string } `json:"tool_calls"`
							ID        string                `json:"tool_call_id"`
						}
					}
					if err := json.Unmarshal(p.engines[0].Stats().LastRequest.Body, &sent); err != nil {
						t.Fatal(err)
					}
					roles := ""
					for _, m := range sent.Messages {
						roles += m.Role + " "
						if m.ID != "" && !ids[m.ID] {
							t.Errorf("the result of %q belongs to no call", m.ID)
						}
					}
					if roles != "user assistant tool tool " || len(sent.Messages[1].ToolCalls) != 2 {
						t.Errorf("the engine was sent %s", roles)
					}
				})
			})
		}
	}
}

func TestMessages_Images(t *testing.T) {
	t.Parallel()
	p := start(t, setup{engines: []sim.Options{{Record: true}}, upstream: "concurrency: { text: 1, vision: 1 }"})
	const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
	wholeAndStreamed(t, func(t *testing.T, create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error)) {
		params := say("", "")
		params.Messages = []anthropic.MessageParam{anthropic.NewUserMessage(
			anthropic.NewTextBlock("What is this?"), anthropic.NewImageBlockBase64("image/png", pixel))}
		if _, err := create(p.claude(), params); err != nil {
			t.Fatal(err)
		}
		if l := p.lastCall(); l.Pool != "vision" {
			t.Errorf("the call was counted as %s", l.Pool)
		}
		if b := string(p.engines[0].Stats().LastRequest.Body); !strings.Contains(b, `"url":"data:image/png;base64,`+pixel+`"`) {
			t.Errorf("the engine was sent %s", b)
		}
		params.Messages[0].Content[1] = anthropic.NewImageBlockBase64("image/jpeg", pixel)
		_, err := create(p.claude(), params)
		wantAPIError(t, err, 400, "invalid_request_error", "invalid_value", "messages[0].content[1].source.data")
	})
}

// TestMessages_ImageLimits: what only the model's rules refuse is told in the names of Messages as well.
func TestMessages_ImageLimits(t *testing.T) {
	t.Parallel()
	p := start(t, setup{model: "input_modalities: [text], supported_reasoning_efforts: [low], supported_features: [tools]"})
	image := `{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]}`
	r := p.post("/v1/messages", `{"model":"sim","max_tokens":5,"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"a"},`+image+`]}]}`)
	if e := r.wantError(400, "invalid_request_error", "unsupported_parameter"); e.Param == nil || *e.Param != "messages[0].content[1].content[0].source.url" || !strings.HasPrefix(e.Message, *e.Param) {
		t.Errorf("%s", r.body)
	}
	r = p.post("/v1/messages", `{"model":"sim","max_tokens":5,"output_config":{"format":{"type":"json_schema","schema":{}}},"messages":[{"role":"user","content":"a"}]}`)
	if e := r.wantError(400, "invalid_request_error", "unsupported_parameter"); e.Param == nil || *e.Param != "output_config.format" {
		t.Errorf("%s", r.body)
	}
	// An effort that the model does not have is lowered, not refused: agents send theirs to every model.
	p.post("/v1/messages", `{"model":"sim","max_tokens":5,"output_config":{"effort":"max"},"messages":[{"role":"user","content":"a"}]}`).wantStatus(200)
}

func TestMessages_Thinking(t *testing.T) {
	t.Parallel()
	for _, member := range []string{"reasoning", "reasoning_content"} {
		t.Run(member, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{engines: []sim.Options{{Reasoning: member, Record: true}}})
			wholeAndStreamed(t, func(t *testing.T, create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error)) {
				params := say("Think!", `"reasoning":8,"text":"done"`)
				params.MaxTokens = 2048
				m, err := create(p.claude(), params)
				if err != nil || len(m.Content) != 1 || messageText(m) != "done" {
					t.Errorf("not asked for: %v: %s", err, m.RawJSON())
				}
				params.Thinking = anthropic.ThinkingConfigParamOfEnabled(1024)
				m, err = create(p.claude(), params)
				if err != nil {
					t.Fatal(err)
				}
				if len(m.Content) != 2 || m.Content[0].Type != "thinking" || m.Content[0].Thinking == "" || m.Content[0].Signature == "" || m.Content[1].Text != "done" {
					t.Fatalf("asked for: %s", m.RawJSON())
				}
				thought := m.Content[0].Thinking
				params.Messages = append(params.Messages, m.ToParam(), anthropic.NewUserMessage(anthropic.NewTextBlock("Go on.")))
				if _, err = create(p.claude(), params); err != nil {
					t.Fatalf("with thinking in the history: %v", err)
				}
				if b := string(p.engines[0].Stats().LastRequest.Body); strings.Contains(b, strings.Fields(thought)[0]+" ") && strings.Contains(b, thought) {
					t.Error("thinking was sent back to the engine")
				}
			})
		})
	}
}

func TestMessages_StopSequences(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"vllm", "sglang"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{engines: []sim.Options{{Profile: profile}}, config: detected})
			wholeAndStreamed(t, func(t *testing.T, create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error)) {
				params := say("Count.", `"text":"one two END three"`)
				params.StopSequences = []string{"never", "END"}
				m, err := create(p.claude(), params)
				if err != nil {
					t.Fatal(err)
				}
				if m.StopReason != "stop_sequence" || m.StopSequence != "END" || messageText(m) != "one two " {
					t.Errorf("%s", m.RawJSON())
				}
				params.StopSequences = nil
				params.MaxTokens = 2
				if m, err = create(p.claude(), params); err != nil || m.StopReason != "max_tokens" {
					t.Errorf("%v: %s", err, m.RawJSON())
				}
			})
		})
	}
}

// TestMessages_EarlyUsage: LangChain reads the prompt's size from message_start alone, and vLLM tells it there.
func TestMessages_EarlyUsage(t *testing.T) {
	t.Parallel()
	p := start(t, setup{upstream: "", config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}", engine: vllm }]
models: [{ id: sim, deployments: [{ upstream: up-0 }] }]
`})
	s := p.claude().Messages.NewStreaming(context.Background(), say(canary, ""))
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

// wantAPIError checks an error as the SDK reads it.
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
		t.Fatalf("%v: %s", err, e.RawJSON())
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
	wantNoLeak(t, e.RawJSON())
	return e
}

func TestMessages_Errors(t *testing.T) {
	t.Parallel()
	p := start(t, setup{
		engines: []sim.Options{{MaxModelLen: 300}}, limits: "request_body: 64KiB",
		keys:   "- { id: other, hash: \"sha256:" + strings.Repeat("0", 64) + "\" }\n",
		models: "- { id: speech, kind: audio-speech, deployments: [{ upstream: up-0 }] }\n- { id: idle, deployments: [{ upstream: up-0, served: gone }] }\n",
	})
	wholeAndStreamed(t, func(t *testing.T, create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error)) {
		ask := func(change func(*anthropic.MessageNewParams), more ...option.RequestOption) error {
			params := say(canary, "")
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

// TestMessages_EngineFailures: whatever an engine does before the commit is a 529 with an integer Retry-After; what the
// client did wrong stays the client's.
func TestMessages_EngineFailures(t *testing.T) {
	t.Parallel()
	p := start(t, setup{untidy: true, retry: "attempts: 1", timeouts: "first_event: 1500ms, answer: 1500ms"})
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
			p.engines[0].SetFault(sim.Fault{Spec: c.fault})
			r := p.post("/v1/messages", `{"model":"sim","max_tokens":9,"messages":[{"role":"user","content":"a"}]`+stream+`}`)
			p.engines[0].SetFault()
			t.Log(c.fault, stream)
			r.wantError(c.status, c.kind, c.code)
			if !strings.HasPrefix(r.body, `{"type":"error",`) {
				t.Errorf("%s", r.body)
			}
			p.heal()
		}
	}
}

// heal waits until the breaker has forgotten what a test did to the engine.
func (p *penstock) heal() {
	p.t.Helper()
	waitFor(p.t, patience, "the engine to be trusted again", func() bool {
		return p.post("/v1/chat/completions", p.chat(`"max_tokens":1`)).status == 200
	})
}

// TestMessages_BrokenStreams: after the commit a failure is an error event, and never looks like an end.
func TestMessages_BrokenStreams(t *testing.T) {
	t.Parallel()
	p := start(t, setup{untidy: true, timeouts: "idle: 300ms"})
	for fault, kind := range map[string]string{
		"cut-after=4":                "overloaded_error",
		"reset-after=4":              "overloaded_error",
		"stall-after=4":              "overloaded_error",
		"no-finish":                  "overloaded_error",
		"no-finish;done=1":           "overloaded_error",
		"error-in-stream=4":          "overloaded_error",
		"error-in-stream=4;code=400": "invalid_request_error",
		"invalid-json=4":             "overloaded_error",
		"tool-bad-args":              "overloaded_error",
		"finish=abort":               "overloaded_error",
	} {
		p.engines[0].SetFault(sim.Fault{Spec: fault})
		params := say("Go on.", "")
		if strings.HasPrefix(fault, "tool") {
			params.Tools = weatherTools()
		}
		m, err := streamed(t, p.claude(), params)
		p.engines[0].SetFault()
		var e *anthropic.Error
		if !errors.As(err, &e) || string(e.Type()) != kind {
			t.Errorf("%s: want an error of type %s, got %v", fault, kind, err)
			continue
		}
		if m.StopReason != "" {
			t.Errorf("%s: stop_reason %q", fault, m.StopReason)
		}
		wantNoLeak(t, e.RawJSON())
		p.heal()
	}
	// An engine that dies in a call: nothing that looks like a whole call is left behind.
	p.engines[0].SetFault(sim.Fault{Spec: "cut-after=3"})
	params := say("Weather?", "")
	params.Tools = weatherTools()
	if m, err := streamed(t, p.claude(), params); err == nil || m.StopReason != "" {
		t.Errorf("%v: %s", err, m.RawJSON())
	}
	p.engines[0].SetFault(sim.Fault{Spec: "tool-bad-args"})
	_, err := p.claude().Messages.New(context.Background(), params)
	wantAPIError(t, err, 529, "overloaded_error", "upstream_bad_response", "")
	if up := p.metric("penstock_upstream_breaker_open"); up != 0 {
		t.Error("what a model says badly was held against its engine")
	}
}

func TestMessages_Cancel(t *testing.T) {
	t.Parallel()
	p := start(t, setup{engines: []sim.Options{{TokenRate: 20}}})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := p.claude().Messages.NewStreaming(ctx, say(canary, `"tokens":200`))
	for range 4 {
		if !s.Next() {
			t.Fatal(s.Err())
		}
	}
	cancel()
	for s.Next() {
	}
	s.Close()
	took := waitFor(t, patience, "the engine to be freed", func() bool { return p.engines[0].Stats().Aborted == 1 })
	t.Logf("freed after %v", took)
	if l := p.lastCall(); l.Outcome != "client_gone" {
		t.Errorf("the log says %+v", l)
	}
}

// TestMessages_Ping: a client that waits is told that the edge is alive, before the first event and between two.
func TestMessages_Ping(t *testing.T) {
	t.Parallel()
	p := start(t, setup{engines: []sim.Options{{Latency: 300 * time.Millisecond}}, stream: "commit_after: 50ms, keepalive: 50ms"})
	p.engines[0].SetFault(sim.Fault{Spec: "pause-after=3;for=300ms"})
	r := p.post("/v1/messages", `{"model":"sim","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"a"}]}`).wantStatus(200)
	events := r.events()
	if events[0].name != "ping" || events[0].data != `{"type":"ping"}` {
		t.Errorf("the first event is %+v", events[0])
	}
	started, between := false, 0
	for _, e := range events {
		started = started || e.name == "message_start"
		if started && e.name == "ping" {
			between++
		}
	}
	if between < 2 {
		t.Errorf("%d pings while the engine was silent", between)
	}
	if m, err := streamed(t, p.claude(), say("a", "")); err != nil || m.StopReason != "end_turn" {
		t.Errorf("%v", err)
	}
}

func TestMessages_CountTokens(t *testing.T) {
	t.Parallel()
	p := start(t, setup{engines: []sim.Options{{Slots: 1, TokenRate: 10}}, upstream: "concurrency: 1"})
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
	// No slot is needed for it.
	s := p.openStream("/v1/messages", `{"model":"sim","max_tokens":99,"stream":true,"messages":[{"role":"user","content":"a"}]}`)
	small, large := count(4), count(4000)
	if small < 1 || large < 4000 || large > 8000 {
		t.Errorf("4 words are %d tokens, 4000 are %d", small, large)
	}
	if l := p.calls(); l[len(l)-1].Dialect != "messages" || l[len(l)-1].Attempts != 0 {
		t.Errorf("the log says %+v", l[len(l)-1])
	}
	s.leave()
	for body, code := range map[string]string{
		`{"model":"sim"}`: "missing_parameter", `{`: "invalid_json", `{"model":"sim","messages":[{"role":"tool","content":"a"}]}`: "invalid_value",
	} {
		p.post("/v1/messages/count_tokens", body).wantError(400, "invalid_request_error", code)
	}
	p.post("/v1/messages/count_tokens", `{"model":"none","messages":[{"role":"user","content":"a"}]}`).wantError(404, "not_found_error", "model_not_found")
	p.post("/v1/messages/count_tokens", `{}`, "Authorization: Bearer no").wantError(401, "authentication_error", "invalid_api_key")
}

// TestMessages_Shape: an error on these paths has the shape of Messages, whichever layer it comes from.
func TestMessages_Shape(t *testing.T) {
	t.Parallel()
	p := start(t, setup{limits: "request_body: 16KiB", keys: "", key: "operations: [messages, chat]"})
	body := `{"model":"sim","max_tokens":5,"messages":[{"role":"user","content":"a"}]}`
	large := `{"model":"sim","max_tokens":5,"messages":[{"role":"user","content":"` + strings.Repeat("a", 20<<10) + `"}]}`
	for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens", "/v1/messages?beta=true"} {
		for _, c := range []struct {
			name string
			r    *reply
			want int
		}{
			{"no key", p.post(path, body, "Authorization: "), 401},
			{"no key and a large body", p.post(path, large, "Authorization: "), 401},
			{"large body", p.post(path, large), 413},
			{"media type", p.post(path, body, "Content-Type: text/plain"), 415},
			{"encoding", p.post(path, body, "Content-Encoding: gzip"), 415},
			{"no body", p.post(path, ""), 400},
			{"GET", p.do("GET", path, ""), 405},
			{"PUT", p.do("PUT", path, body), 405},
			{"DELETE", p.do("DELETE", path, ""), 405},
		} {
			if c.r.status != c.want || !strings.HasPrefix(c.r.body, `{"type":"error","error":{"message":`) {
				t.Errorf("%s %s: status %d, want %d: %s", path, c.name, c.r.status, c.want, c.r.body)
			}
			if id := c.r.header.Get("Request-Id"); id == "" || id != c.r.header.Get("X-Request-Id") || !strings.Contains(c.r.body, `"request_id":"`+id+`"`) {
				t.Errorf("%s %s: request ids %q", path, c.name, id)
			}
			if c.want == 405 && c.r.header.Get("Allow") != "POST" {
				t.Errorf("%s %s: Allow %q", path, c.name, c.r.header.Get("Allow"))
			}
		}
	}
	if r := p.post("/v1/messages/batches", body); r.status != 404 || !strings.HasPrefix(r.body, `{"type":"error",`) {
		t.Errorf("an unknown path below: %d %s", r.status, r.body)
	}
	if r := p.post("/v1/messagesx", body); r.status != 404 || strings.HasPrefix(r.body, `{"type":"error",`) {
		t.Errorf("an unknown path beside: %d %s", r.status, r.body)
	}
	raw := p.dial()
	_ = raw.send(p.head("POST", "/v1/messages", "Content-Type: application/json", "Content-Length: 999999", "Expect: 100-continue"))
	if r := raw.reply(http.MethodPost); r.status != 413 || !strings.HasPrefix(r.body, `{"type":"error",`) {
		t.Errorf("a body that is only announced: %d %s", r.status, r.body)
	}
	// Claude Code's way of asking, and both headers with one key.
	r := p.post("/v1/messages?beta=true", body, "x-api-key: "+p.key, "anthropic-version: 2023-06-01", "anthropic-beta: a,b").wantStatus(200)
	if r.header.Get("Request-Id") == "" {
		t.Error("no request-id")
	}
}

// TestMessages_SlowBody: a client that sends too slowly is told so in its own dialect.
func TestMessages_SlowBody(t *testing.T) {
	t.Parallel()
	p := start(t, setup{timeouts: "client_body: 200ms"})
	c := p.dial()
	_ = c.send(p.head("POST", "/v1/messages?beta=true", "Content-Type: application/json", "Content-Length: 500") + `{"model":`)
	if r := c.reply(http.MethodPost); r.status != 408 || !strings.HasPrefix(r.body, `{"type":"error",`) {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// TestMessages_SystemInPlace: the model's setting decides where system messages in a conversation go.
func TestMessages_SystemInPlace(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"":                          `[{"role":"system","content":"a\nb"},{"role":"user","content":"x"},{"role":"user","content":"y"}]`,
		"system_messages: fold":     `[{"role":"system","content":"a\nb"},{"role":"user","content":"x"},{"role":"user","content":"y"}]`,
		"system_messages: in_place": `[{"role":"system","content":"a"},{"role":"user","content":"x"},{"role":"system","content":"b"},{"role":"user","content":"y"}]`,
	} {
		p := start(t, setup{engines: []sim.Options{{Record: true}}, model: setting})
		p.post("/v1/messages", `{"model":"sim","max_tokens":5,"system":"a","messages":[{"role":"user","content":"x"},{"role":"system","content":"b"},{"role":"user","content":"y"}]}`).wantStatus(200)
		if b := string(p.engines[0].Stats().LastRequest.Body); !strings.Contains(b, `"messages":`+want) {
			t.Errorf("%q: the engine was sent %s", setting, b)
		}
	}
}

// TestMessages_CountByEngine: an engine with a counter is asked, with the client's own words; whatever is wrong with it, the
// answer is an estimate.
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
	p := start(t, setup{cold: true, config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "` + engine.URL + `", engine: llamacpp, concurrency: 1 }]
models: [{ id: sim, deployments: [{ upstream: up-0, served: served }] }]
`})
	waitFor(t, patience, "the engine to be up", func() bool { return p.metric("penstock_upstream_up") == 1 })
	body := `{"model":"sim","system":"s","messages":[{"role":"user","content":"` + canary + `"}],"lora":[1],"tools":[{"name":"f","input_schema":{}}]}`
	if r := p.post("/v1/messages/count_tokens", body).wantStatus(200); r.body != `{"input_tokens":4711}` {
		t.Errorf("%s", r.body)
	}
	want := `{"model":"served","messages":[{"role":"user","content":"` + canary + `"}],"system":"s","tools":[{"name":"f","input_schema":{}}]}`
	if got := seen(); len(got) != 1 || got[0] != want {
		t.Errorf("the engine was asked %q", got)
	}
	if l := p.lastCall(); l.Upstream != "up-0" || l.Attempts != 1 || l.Outcome != "ok" {
		t.Errorf("the log says %+v", l)
	}
	for _, c := range []struct {
		status int
		answer string
	}{{404, `{"error":"no"}`}, {500, ""}, {400, "{}"}, {200, "nonsense"}, {200, `{"input_tokens":"x"}`}, {200, strings.Repeat(" ", 1000)}} {
		set(c.status, c.answer)
		r := p.post("/v1/messages/count_tokens", body).wantStatus(200)
		var n struct {
			InputTokens int `json:"input_tokens"`
		}
		if err := json.Unmarshal([]byte(r.body), &n); err != nil || n.InputTokens < 1 || n.InputTokens > 100 {
			t.Errorf("%d %q: %s", c.status, c.answer, r.body)
		}
		if n := len(seen()); n != 1 {
			t.Errorf("%d %q: the engine was asked %d times", c.status, c.answer, n)
		}
	}
	if up, open := p.metric("penstock_upstream_up"), p.metric("penstock_upstream_breaker_open"); up != 1 || open != 0 {
		t.Error("what went wrong with counting was held against the engine")
	}
}
