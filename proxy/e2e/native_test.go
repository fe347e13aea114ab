package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"penstock/bench/sim"
)

// Engines that are sent Messages and Responses in their own dialect. What the client sees is no different, so most of what
// is here holds the two ways to the same.

const bothNative = "native: [messages, responses]"

// sent is the last request that an engine was sent.
func (p *penstock) sent(engine int) (path, body string) {
	r := p.engines[engine].Stats().LastRequest
	return r.Target, string(r.Body)
}

func TestNative_Messages(t *testing.T) {
	t.Parallel()
	for _, o := range []sim.Options{{Record: true}, {Profile: "llamacpp", CancelOnlyStreams: true, Record: true}, {Profile: "sglang", Record: true}} {
		t.Run(o.Profile, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{engines: []sim.Options{o}, config: strings.Replace(detected, `"{{up-0}}"`, `"{{up-0}}", `+bothNative, 1)})
			wholeAndStreamed(t, func(t *testing.T, create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error)) {
				params := say(canary, `"text":"Guten Tag, \"Welt\" 世界!","reasoning":4`)
				params.Model = "claude-opus-4-5"
				params.System = []anthropic.TextBlockParam{{Text: "x-anthropic-billing-header: 1"}, {Text: "Be brief."}}
				m, err := create(p.claude(), params)
				if err != nil {
					t.Fatal(err)
				}
				if got := messageText(m); got != `Guten Tag, "Welt" 世界!` || len(m.Content) != 1 || m.Model != "public" || !strings.HasPrefix(m.ID, "msg_") || m.StopReason != "end_turn" {
					t.Errorf("%s", m.RawJSON())
				}
				if m.Usage.InputTokens+m.Usage.CacheReadInputTokens == 0 || m.Usage.OutputTokens == 0 {
					t.Errorf("usage %+v", m.Usage)
				}
				if l := p.lastCall(); l.Dialect != "messages" || l.Outcome != "ok" || l.PromptTokens == 0 || l.CompletionTokens == 0 {
					t.Errorf("the log says %+v", l)
				}
				path, body := p.sent(0)
				if path != "/v1/messages" || !strings.Contains(body, `"model":"sim"`) || !strings.Contains(body, `"system":[{"text":"Be brief.","type":"text"}]`) {
					t.Errorf("the engine was sent %s %s", path, body)
				}
				params.Thinking = anthropic.ThinkingConfigParamOfEnabled(1024)
				params.MaxTokens = 2048
				if m, err = create(p.claude(), params); err != nil || len(m.Content) != 2 || m.Content[0].Thinking == "" {
					t.Errorf("thinking: %v, %s", err, m.RawJSON())
				}
			})
		})
	}
}

// A loop of calls and results, with the calls told in whatever order.
func TestNative_MessagesTools(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"", "tool-interleaved", "tool-whole", "split+crlf"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{engines: recording(), upstream: bothNative})
			if fault != "" {
				p.engines[0].SetFault(sim.Fault{Spec: fault})
			}
			wholeAndStreamed(t, func(t *testing.T, create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error)) {
				params := say("Weather?", `"tool_calls":2`)
				params.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: "weather", InputSchema: anthropic.ToolInputSchemaParam{
					Properties: map[string]any{"city": map[string]any{"type": "string"}}, Required: []string{"city"},
				}}}}
				m, err := create(p.claude(), params)
				if err != nil || m.StopReason != "tool_use" || len(m.Content) != 2 {
					t.Fatalf("%v: %s", err, m.RawJSON())
				}
				params.Messages = append(params.Messages, m.ToParam())
				var results []anthropic.ContentBlockParamUnion
				for _, b := range m.Content {
					var in struct{ City string }
					if err := json.Unmarshal(b.Input, &in); err != nil || in.City == "" || b.Name != "weather" || b.ID == "" {
						t.Errorf("the call is %s", b.RawJSON())
					}
					results = append(results, anthropic.NewToolResultBlock(b.ID, "rain", false))
				}
				params.Messages = append(params.Messages, anthropic.NewUserMessage(results...))
				if m, err = create(p.claude(), params); err != nil || m.StopReason != "end_turn" || messageText(m) == "" {
					t.Errorf("%v: %s", err, m.RawJSON())
				}
			})
		})
	}
}

func TestNative_Responses(t *testing.T) {
	t.Parallel()
	for _, o := range []sim.Options{{Record: true}, {Profile: "llamacpp", CancelOnlyStreams: true, Record: true}} {
		t.Run(o.Profile, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{engines: []sim.Options{o}, config: strings.Replace(detected, `"{{up-0}}"`, `"{{up-0}}", `+bothNative, 1)})
			client := p.sdk()
			bothWays(t, func(t *testing.T, streamed bool) {
				params := respond(`"text":"Guten Tag, 世界!","reasoning":4`)
				params.PromptCacheKey = openai.String("session")
				params.Instructions = openai.String("Be brief.")
				got := answerOf(t, &client, streamed, params)
				if got.OutputText() != "Guten Tag, 世界!" || len(got.Output) != 1 || got.Model != "public" || got.Status != "completed" || got.Usage.OutputTokens == 0 {
					t.Errorf("%s", got.RawJSON())
				}
				path, body := p.sent(0)
				if path != "/v1/responses" || !strings.Contains(body, `"model":"sim"`) || !strings.Contains(body, `"store":false`) || strings.Contains(body, "session") {
					t.Errorf("the engine was sent %s %s", path, body)
				}
				params = respond(`"tool_calls":2`)
				params.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "weather", Parameters: map[string]any{
					"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"},
				}}}}
				got = answerOf(t, &client, streamed, params)
				if len(got.Output) != 2 {
					t.Fatalf("%s", got.RawJSON())
				}
				for i := range got.Output {
					call := got.Output[i].AsFunctionCall()
					out := responses.ResponseInputItemParamOfFunctionCallOutput("rain")
					out.OfFunctionCallOutput.CallID = openai.String(call.CallID)
					params.Input.OfInputItemList = append(params.Input.OfInputItemList,
						responses.ResponseInputItemParamOfFunctionCall(call.Arguments, call.CallID, call.Name), out)
				}
				if got = answerOf(t, &client, streamed, params); got.OutputText() == "" {
					t.Errorf("%s", got.RawJSON())
				}
			})
		})
	}
}

// TestNative_Reasoning: an engine's own Responses stream is full of it, and the client's has none in any byte.
func TestNative_Reasoning(t *testing.T) {
	t.Parallel()
	p := start(t, setup{upstream: bothNative})
	plain := `{"model":"sim","input":"` + canary + ` [[sim {\"reasoning\":12,\"tokens\":3}]]"`
	for _, stream := range []string{"", `,"stream":true`} {
		r := p.post("/v1/responses", plain+stream+`}`).wantStatus(200)
		if strings.Contains(r.body, "reasoning_text") || strings.Contains(r.body, "summary_text") || strings.Contains(r.body, `"type":"reasoning"`) {
			t.Errorf("%s", r.body)
		}
	}
}

// Our own refusals come first, and the engine sees nothing of them; its own are told like any engine's.
func TestNative_Refusals(t *testing.T) {
	t.Parallel()
	p := start(t, setup{upstream: bothNative})
	for _, more := range []string{`"store":true`, `"previous_response_id":"resp_1"`, `"tools":[{"type":"custom","name":"x"}]`, `"kv_transfer_params":{}`} {
		p.post("/v1/responses", `{"model":"sim","input":"x",`+more+`}`).wantError(400, "invalid_request_error", "unsupported_parameter")
	}
	p.post("/v1/messages", `{"model":"sim","messages":[{"role":"user","content":"x"}]}`).wantStatus(400)
	p.post("/v1/messages", `{"model":"sim","max_tokens":5,"messages":[{"role":"tool","content":"x"}]}`).wantStatus(400)
	if n := p.engines[0].Stats().Requests; n != 0 {
		t.Errorf("the engine got %d requests", n)
	}
	message := `{"model":"sim","max_tokens":9,"messages":[{"role":"user","content":"` + canary + `"}]}`
	input := `{"model":"sim","input":"` + canary + `"}`
	for _, c := range []struct {
		fault               string
		messages, responses int
	}{
		{"status=400", 400, 400},
		{"status=500", 529, 502},
		{"status=503", 529, 503},
		{"status=404", 529, 503},
		{"status=429", 429, 429},
		{"status=500;html=1", 529, 502},
		{"invalid-json=0", 529, 502},
		{"redirect", 529, 502},
	} {
		for _, stream := range []string{"", `"stream":true,`} {
			p := start(t, setup{upstream: bothNative}) // whose breaker has seen nothing
			p.engines[0].SetFault(sim.Fault{Spec: c.fault})
			m := p.post("/v1/messages", "{"+stream+message[1:])
			if m.status != c.messages || !strings.HasPrefix(m.body, `{"type":"error","error":{`) || c.messages == 529 && m.header.Get("Retry-After") == "" {
				t.Errorf("%s: %d %s", c.fault, m.status, m.body)
			}
			r := p.post("/v1/responses", "{"+stream+input[1:])
			if r.status != c.responses || !strings.HasPrefix(r.body, `{"error":{`) {
				t.Errorf("%s: %d %s", c.fault, r.status, r.body)
			}
			wantNoLeak(t, m.body+r.body)
		}
	}
}

// A stream that breaks is told in the stream, and one without its last event is no whole one.
func TestNative_BrokenStreams(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{
		"cut-after=7", "reset-after=7", "no-finish", "no-finish;done=1", "error-in-stream=7", "error-in-stream=7;code=429",
		"invalid-json=7", "stall-after=7", "bad-chunk=7",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{upstream: bothNative, timeouts: "idle: 300ms"})
			p.engines[0].SetFault(sim.Fault{Spec: fault})
			m := p.post("/v1/messages", `{"model":"sim","max_tokens":50,"stream":true,"messages":[{"role":"user","content":"`+canary+` [[sim {\"delay_ms\":5}]]"}]}`).wantStatus(200)
			events := m.events()
			if last := events[len(events)-1]; m.err != nil || last.name != "error" || strings.Contains(m.body, "message_stop") {
				t.Errorf("%v: %s", m.err, m.body)
			}
			r := p.post("/v1/responses", `{"model":"sim","stream":true,"input":"`+canary+` [[sim {\"delay_ms\":5}]]"}`).wantStatus(200)
			events = r.events()
			if n := len(events); r.err != nil || n < 4 || events[n-3].name != "error" || events[n-2].name != "response.failed" || events[n-1].data != "[DONE]" {
				t.Errorf("%v: %s", r.err, r.body)
			}
			wantNoLeak(t, m.body+r.body)
		})
	}
}

// TestNative_Mixed: of two engines one is sent the client's own request and one the translated; a retry crosses over, either
// way.
func TestNative_Mixed(t *testing.T) {
	t.Parallel()
	p := start(t, setup{engines: []sim.Options{{Record: true}, {Record: true}}, config: `
timeouts: { linger: 0s }
retry: { budget: 100% }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams:
  - { name: up-0, url: "{{up-0}}", engine: sim, ` + bothNative + ` }
  - { name: up-1, url: "{{up-1}}", engine: sim }
models: [{ id: sim, policy: round_robin, deployments: [{ upstream: up-0 }, { upstream: up-1 }] }]
`})
	client := p.sdk()
	for bad := range p.engines {
		p.engines[bad].SetFault(sim.Fault{Spec: "status=503"})
		for range 2 { // so that the bad one is asked first once
			m, err := p.claude().Messages.New(context.Background(), say(canary, `"text":"There."`))
			if err != nil || messageText(m) != "There." {
				t.Errorf("%v", err)
			}
			bothWays(t, func(t *testing.T, streamed bool) {
				if got := answerOf(t, &client, streamed, respond(`"text":"There."`)); got.OutputText() != "There." {
					t.Errorf("%s", got.RawJSON())
				}
			})
		}
		p.engines[bad].SetFault()
	}
	if path, body := p.sent(0); path != "/v1/responses" || !strings.Contains(body, `"input":`) {
		t.Errorf("the first was sent %s %s", path, body)
	}
	if path, body := p.sent(1); path != "/v1/chat/completions" || !strings.Contains(body, `"messages":`) {
		t.Errorf("the second was sent %s %s", path, body)
	}
}

// A client that leaves frees the engine, also where it wants no stream and the engine can only be stopped in one.
func TestNative_Cancel(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/messages", "/v1/responses"} {
		for _, stream := range []string{"true", "false"} {
			t.Run(path[4:]+"/"+stream, func(t *testing.T) {
				t.Parallel()
				p := start(t, setup{engines: []sim.Options{{Profile: "llamacpp", CancelOnlyStreams: true}}, config: strings.Replace(detected, `"{{up-0}}"`, `"{{up-0}}", `+bothNative, 1)})
				body := `{"model":"sim","stream":` + stream + `,"max_tokens":2000,"messages":[{"role":"user","content":"a [[sim {\"tokens\":1000,\"delay_ms\":50}]]"}]}`
				if path == "/v1/responses" {
					body = `{"model":"sim","stream":` + stream + `,"input":"a [[sim {\"tokens\":1000,\"delay_ms\":50}]]"}`
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				go func() {
					if res, err := p.try(ctx, "POST", path, body); err == nil {
						defer res.Body.Close()
						<-ctx.Done()
					}
				}()
				waitFor(t, patience, "the engine works", func() bool { return p.engines[0].Stats().Running == 1 })
				time.Sleep(50 * time.Millisecond)
				cancel()
				waitFor(t, patience, "the engine is free", func() bool { return p.engines[0].Stats().Running == 0 })
				p.rest()
				if l := p.lastCall(); l.Outcome != "client_gone" {
					t.Errorf("the log says %+v", l)
				}
			})
		}
	}
}

// TestNative_Waiting: a client that waits hears of it before the engine's first event.
func TestNative_Waiting(t *testing.T) {
	t.Parallel()
	p := start(t, setup{engines: []sim.Options{{Latency: 2 * time.Second}}, upstream: bothNative, stream: "commit_after: 50ms, keepalive: 50ms"})
	m := p.post("/v1/messages", `{"model":"sim","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"a"}]}`).wantStatus(200)
	if e := m.events(); e[0].name != "ping" || e[len(e)-1].name != "message_stop" {
		t.Errorf("%s", m.body)
	}
	r := p.post("/v1/responses", `{"model":"sim","stream":true,"input":"a"}`).wantStatus(200)
	if !strings.HasPrefix(r.body, ": ") || !strings.Contains(r.body, "response.completed") {
		t.Errorf("%s", r.body)
	}
}
