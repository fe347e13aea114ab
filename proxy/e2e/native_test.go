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
	"penstock/proxy/e2e/rig"
)

// Engines that are sent Messages and Responses in their own dialect. What the client sees is no different, so most of what
// is here holds the two ways to the same.

const bothNative = "native: [messages, responses]"

// sent is the last request that an engine was sent.
func (p *penstock) sent(engine int) (path, body string) {
	r := p.Engines[engine].Stats().LastRequest
	return r.Target, string(r.Body)
}

func TestNative_Messages(t *testing.T) {
	t.Parallel()
	for _, o := range []sim.Options{{Record: true}, {Profile: "llamacpp", CancelOnlyStreams: true, Record: true}, {Profile: "sglang", Record: true}} {
		t.Run(o.Profile, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: []sim.Options{o}, Config: strings.Replace(detected, `"{{up-0}}"`, `"{{up-0}}", `+bothNative, 1)})
			wholeAndStreamed(t, func(t *testing.T, create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error)) {
				params := say(rig.Canary, `"text":"Guten Tag, \"Welt\" 世界!","reasoning":4`)
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
				if l := p.LastCall(); l.Dialect != "messages" || l.Outcome != "ok" || l.PromptTokens == 0 || l.CompletionTokens == 0 {
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
			p := start(t, rig.Setup{Engines: recording(), Upstream: bothNative})
			if fault != "" {
				p.Engines[0].SetFault(sim.Fault{Spec: fault})
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
			p := start(t, rig.Setup{Engines: []sim.Options{o}, Config: strings.Replace(detected, `"{{up-0}}"`, `"{{up-0}}", `+bothNative, 1)})
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
	p := start(t, rig.Setup{Upstream: bothNative})
	plain := `{"model":"sim","input":"` + rig.Canary + ` [[sim {\"reasoning\":12,\"tokens\":3}]]"`
	for _, stream := range []string{"", `,"stream":true`} {
		r := p.Post("/v1/responses", plain+stream+`}`).WantStatus(200)
		if strings.Contains(r.Body, "reasoning_text") || strings.Contains(r.Body, "summary_text") || strings.Contains(r.Body, `"type":"reasoning"`) {
			t.Errorf("%s", r.Body)
		}
	}
}

// Our own refusals come first, and the engine sees nothing of them; its own are told like any engine's.
func TestNative_Refusals(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: bothNative})
	for _, more := range []string{`"store":true`, `"previous_response_id":"resp_1"`, `"tools":[{"type":"mcp"}]`, `"kv_transfer_params":{}`} {
		p.Post("/v1/responses", `{"model":"sim","input":"x",`+more+`}`).WantError(400, "invalid_request_error", "unsupported_parameter")
	}
	p.Post("/v1/messages", `{"model":"sim","messages":[{"role":"user","content":"x"}]}`).WantStatus(400)
	p.Post("/v1/messages", `{"model":"sim","max_tokens":5,"messages":[{"role":"tool","content":"x"}]}`).WantStatus(400)
	p.Post("/v1/messages", `{"model":"sim","max_tokens":5,"messages":[{"role":"user","content":"x"}],"thread":{"type":"create"}}`).
		WantError(400, "invalid_request_error", "unsupported_parameter")
	if n := p.Engines[0].Stats().Requests; n != 0 {
		t.Errorf("the engine got %d requests", n)
	}
	message := `{"model":"sim","max_tokens":9,"messages":[{"role":"user","content":"` + rig.Canary + `"}]}`
	input := `{"model":"sim","input":"` + rig.Canary + `"}`
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
			p := start(t, rig.Setup{Upstream: bothNative}) // whose breaker has seen nothing
			p.Engines[0].SetFault(sim.Fault{Spec: c.fault})
			m := p.Post("/v1/messages", "{"+stream+message[1:])
			if m.Status != c.messages || !strings.HasPrefix(m.Body, `{"type":"error","error":{`) || c.messages == 529 && m.Header.Get("Retry-After") == "" {
				t.Errorf("%s: %d %s", c.fault, m.Status, m.Body)
			}
			r := p.Post("/v1/responses", "{"+stream+input[1:])
			if r.Status != c.responses || !strings.HasPrefix(r.Body, `{"error":{`) {
				t.Errorf("%s: %d %s", c.fault, r.Status, r.Body)
			}
			rig.WantNoLeak(t, "the answer", m.Body+r.Body, "127.0.0.1:")
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
			p := start(t, rig.Setup{Upstream: bothNative, Timeouts: "idle: 300ms"})
			p.Engines[0].SetFault(sim.Fault{Spec: fault})
			m := p.Post("/v1/messages", `{"model":"sim","max_tokens":50,"stream":true,"messages":[{"role":"user","content":"`+rig.Canary+` [[sim {\"delay_ms\":5}]]"}]}`).WantStatus(200)
			events := m.Events()
			if last := events[len(events)-1]; m.Err != nil || last.Name != "error" || strings.Contains(m.Body, "message_stop") {
				t.Errorf("%v: %s", m.Err, m.Body)
			}
			r := p.Post("/v1/responses", `{"model":"sim","stream":true,"input":"`+rig.Canary+` [[sim {\"delay_ms\":5}]]"}`).WantStatus(200)
			events = r.Events()
			if n := len(events); r.Err != nil || n < 4 || events[n-3].Name != "error" || events[n-2].Name != "response.failed" || events[n-1].Data != "[DONE]" {
				t.Errorf("%v: %s", r.Err, r.Body)
			}
			rig.WantNoLeak(t, "the answer", m.Body+r.Body, "127.0.0.1:")
		})
	}
}

// TestNative_Mixed: of two engines one is sent the client's own request and one the translated; a retry crosses over, either
// way.
func TestNative_Mixed(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{Record: true}, {Record: true}}, Config: `
timeouts: { linger: 0s }
retry: { budget: 100% }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams:
  - { name: up-0, url: "{{up-0}}", engine: sim, ` + bothNative + ` }
  - { name: up-1, url: "{{up-1}}", engine: sim }
models: [{ id: sim, policy: round_robin, deployments: [{ upstream: up-0 }, { upstream: up-1 }] }]
`})
	client := p.sdk()
	for bad := range p.Engines {
		p.Engines[bad].SetFault(sim.Fault{Spec: "status=503"})
		for range 2 { // so that the bad one is asked first once
			m, err := p.claude().Messages.New(context.Background(), say(rig.Canary, `"text":"There."`))
			if err != nil || messageText(m) != "There." {
				t.Errorf("%v", err)
			}
			bothWays(t, func(t *testing.T, streamed bool) {
				if got := answerOf(t, &client, streamed, respond(`"text":"There."`)); got.OutputText() != "There." {
					t.Errorf("%s", got.RawJSON())
				}
			})
		}
		p.Engines[bad].SetFault()
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
				p := start(t, rig.Setup{Engines: []sim.Options{{Profile: "llamacpp", CancelOnlyStreams: true}}, Config: strings.Replace(detected, `"{{up-0}}"`, `"{{up-0}}", `+bothNative, 1)})
				body := `{"model":"sim","stream":` + stream + `,"max_tokens":2000,"messages":[{"role":"user","content":"a [[sim {\"tokens\":1000,\"delay_ms\":50}]]"}]}`
				if path == "/v1/responses" {
					body = `{"model":"sim","stream":` + stream + `,"input":"a [[sim {\"tokens\":1000,\"delay_ms\":50}]]"}`
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				go func() {
					if res, err := p.Try(ctx, "POST", path, body); err == nil {
						defer res.Body.Close()
						<-ctx.Done()
					}
				}()
				rig.WaitFor(t, rig.Patience, "the engine works", func() bool { return p.Engines[0].Stats().Running == 1 })
				time.Sleep(50 * time.Millisecond)
				cancel()
				rig.WaitFor(t, rig.Patience, "the engine is free", func() bool { return p.Engines[0].Stats().Running == 0 })
				p.Rest()
				if l := p.LastCall(); l.Outcome != "client_gone" {
					t.Errorf("the log says %+v", l)
				}
			})
		}
	}
}

// TestNative_Waiting: a client that waits hears of it before the engine's first event.
func TestNative_Waiting(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{Latency: 2 * time.Second}}, Upstream: bothNative, Stream: "commit_after: 50ms, keepalive: 50ms"})
	m := p.Post("/v1/messages", `{"model":"sim","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"a"}]}`).WantStatus(200)
	if e := m.Events(); e[0].Name != "ping" || e[len(e)-1].Name != "message_stop" {
		t.Errorf("%s", m.Body)
	}
	r := p.Post("/v1/responses", `{"model":"sim","stream":true,"input":"a"}`).WantStatus(200)
	if strings.Count(r.Body, "event: response.in_progress") < 3 || !strings.Contains(r.Body, "response.completed") {
		t.Errorf("%s", r.Body)
	}
}
