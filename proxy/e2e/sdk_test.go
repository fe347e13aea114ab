package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// The client in these tests is the official SDK. If the SDK can read an answer, other clients can
// also read it.

// sdk returns a client that does not retry.
func (p *penstock) sdk(more ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(p.URL + "/v1/"), option.WithAPIKey(p.Key), option.WithHTTPClient(p.Client), option.WithMaxRetries(0),
	}, more...)...)
}

// chatParams returns a chat request with one user message.
func chatParams(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: "sim", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}

func TestSDK_Chat(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: "", Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}", engine: sim }]
models: [{ id: public/name, aliases: [sim], deployments: [{ upstream: up-0, served: sim }] }]
`})
	client := p.sdk()
	for _, model := range []string{"public/name", "sim"} {
		params := chatParams(rig.Canary)
		params.Model = model
		got, err := client.Chat.Completions.New(context.Background(), params, option.WithJSONSet("sim.text", "Guten Tag, 世界!"))
		if err != nil {
			t.Fatal(err)
		}
		c := got.Choices[0]
		if c.Message.Content != "Guten Tag, 世界!" || c.FinishReason != "stop" || c.Message.Role != "assistant" {
			t.Errorf("choice = %+v, want Guten Tag, 世界! and the finish stop", c)
		}
		if got.Model != "public/name" || got.ID == "" || got.Created == 0 || got.Object != "chat.completion" {
			t.Errorf("model %q, id %q, created %d", got.Model, got.ID, got.Created)
		}
		if u := got.Usage; u.PromptTokens == 0 || u.CompletionTokens == 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
			t.Errorf("usage = %+v, want tokens that add up", u)
		}
	}
	if l := p.LastAccessLine(); l.Model != "public/name" || l.CompletionTokens == 0 || l.PromptTokens == 0 || l.Key != "tester" || l.Upstream != "up-0" {
		t.Errorf("the log says %+v", l)
	}
	page, err := client.Models.List(context.Background())
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != "public/name" {
		t.Errorf("models = %+v, %v; want public/name", page, err)
	}
	one, err := client.Models.Get(context.Background(), "public/name")
	if err != nil || one.ID != "public/name" || one.Object != "model" {
		t.Errorf("model = %+v, %v; want public/name", one, err)
	}
}

func TestSDK_Streaming(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	client := p.sdk()
	for _, asked := range []bool{false, true} {
		t.Run(map[bool]string{true: "usage", false: "no usage"}[asked], func(t *testing.T) {
			t.Parallel()
			params := chatParams(rig.Canary)
			if asked {
				params.StreamOptions.IncludeUsage = openai.Bool(true)
			}
			stream := client.Chat.Completions.NewStreaming(context.Background(), params, option.WithJSONSet("sim.text", "Eins, zwei, drei 🦆."))
			var acc openai.ChatCompletionAccumulator
			usages := 0
			for stream.Next() {
				chunk := stream.Current()
				if !acc.AddChunk(chunk) {
					t.Errorf("the chunk does not fit: %s", chunk.RawJSON())
				}
				if chunk.Model != "sim" || chunk.ID == "" {
					t.Errorf("chunk = %s, want the model sim and an id", chunk.RawJSON())
				}
				if chunk.JSON.Usage.Valid() {
					usages++
					if len(chunk.Choices) != 0 {
						t.Error("usage in a chunk with choices")
					}
				}
				if !asked && len(chunk.Choices) == 0 {
					t.Error("a chunk without choices, which nobody asked for")
				}
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			if c := acc.Choices[0]; c.Message.Content != "Eins, zwei, drei 🦆." || c.FinishReason != "stop" {
				t.Errorf("choice = %+v, want Eins, zwei, drei 🦆. and the finish stop", c)
			}
			if asked != (usages == 1) || asked != (acc.Usage.TotalTokens > 0) {
				t.Errorf("%d usage chunks, %d tokens in all", usages, acc.Usage.TotalTokens)
			}
		})
	}
	t.Cleanup(func() {
		for _, l := range p.AccessLinesWhenIdle() {
			if l.CompletionTokens == 0 || l.TokensEstimated {
				t.Errorf("the usage was not counted: %+v", l)
			}
		}
	})
}

func weather() []openai.ChatCompletionToolUnionParam {
	return []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "get_weather", Description: openai.String("Weather of a city."), Strict: openai.Bool(false),
		Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}},
	})}
}

// TestSDK_Tools checks the tool loop, streamed and unstreamed: the model calls a tool, the client
// sends the result, and the model answers with text.
func TestSDK_Tools(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recordingEngine()})
	client := p.sdk()
	for _, c := range []struct {
		name     string
		streamed bool
		fault    string
	}{{"json", false, ""}, {"stream", true, ""}, {"name in two pieces", true, "tool-split-name"}} {
		t.Run(c.name, func(t *testing.T) {
			p.Engines[0].SetFault(sim.Fault{Spec: c.fault})
			params := chatParams("What is the weather in " + rig.Canary + "?")
			params.Tools = weather()
			run := func(more ...option.RequestOption) openai.ChatCompletion {
				t.Helper()
				if !c.streamed {
					got, err := client.Chat.Completions.New(context.Background(), params, more...)
					if err != nil {
						t.Fatal(err)
					}
					return *got
				}
				var acc openai.ChatCompletionAccumulator
				s := client.Chat.Completions.NewStreaming(context.Background(), params, more...)
				for s.Next() {
					for _, choice := range s.Current().Choices {
						// not all clients concatenate the pieces of a name
						for _, piece := range choice.Delta.ToolCalls {
							if name := piece.Function.Name; name != "" && name != "get_weather" {
								t.Errorf("a piece of the name: %q", name)
							}
						}
					}
					acc.AddChunk(s.Current())
				}
				if s.Err() != nil {
					t.Fatal(s.Err())
				}
				return acc.ChatCompletion
			}
			got := run(option.WithJSONSet("sim.tool_calls", 2))
			calls := got.Choices[0].Message.ToolCalls
			if len(calls) != 2 || got.Choices[0].FinishReason != "tool_calls" {
				t.Fatalf("%d calls, finish %q", len(calls), got.Choices[0].FinishReason)
			}
			params.Messages = append(params.Messages, got.Choices[0].Message.ToParam())
			for _, c := range calls {
				var args map[string]any
				if err := json.Unmarshal([]byte(c.Function.Arguments), &args); err != nil || c.Function.Name != "get_weather" || c.ID == "" {
					t.Errorf("call = %+v, %v; want get_weather with an id", c, err)
				}
				params.Messages = append(params.Messages, openai.ToolMessage("21 °C", c.ID))
			}
			got = run()
			if got.Choices[0].Message.Content == "" || got.Choices[0].FinishReason != "stop" {
				t.Errorf("after the tools: %+v", got.Choices[0])
			}
			sent := string(p.Engines[0].Stats().LastRequest.Body)
			for _, c := range calls {
				if strings.Count(sent, c.ID) != 2 {
					t.Errorf("the call %s is %d times in what the engine was sent", c.ID, strings.Count(sent, c.ID))
				}
			}
		})
	}
}

func TestSDK_Vision(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recordingEngine(), Upstream: "concurrency: { text: 2, vision: 2 }", Model: "input_modalities: [text, image]"})
	client := p.sdk()
	for _, format := range []string{"png", "jpeg"} {
		url := rig.PictureDataURL(format)
		_, err := client.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
			Model: "sim",
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
				openai.TextContentPart(rig.Canary), openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: url, Detail: "low"}),
			})},
		})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(p.Engines[0].Stats().LastRequest.Body), url) {
			t.Error("the picture has not arrived as it was")
		}
		if l := p.LastAccessLine(); l.Pool != "vision" {
			t.Errorf("pool = %q, want vision", l.Pool)
		}
	}
}

// TestSDK_Errors checks that the SDK's typed error has the status, type, code and parameter of the
// contract.
func TestSDK_Errors(t *testing.T) {
	t.Parallel()
	narrow, hash, _ := auth.NewKey()
	p := start(t, rig.Setup{
		Keys:     `- { id: narrow, hash: "` + hash + `", models: [other] }`,
		Models:   `- { id: other, deployments: [{ upstream: up-0, served: sim }] }`,
		Limits:   "request_body: 64KiB",
		Upstream: "concurrency: 1",
	})
	ctx := context.Background()
	bad := func(more ...option.RequestOption) func(openai.Client) error {
		return func(c openai.Client) error {
			_, err := c.Chat.Completions.New(ctx, chatParams(rig.Canary), more...)
			return err
		}
	}
	check := func(name string, do func(openai.Client) error, status int, kind, code, param string) {
		t.Helper()
		err := do(p.sdk())
		var e *openai.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v is not the SDK's error", name, err)
			return
		}
		if e.StatusCode != status || e.Type != kind || e.Code != code || e.Param != param || e.Message == "" {
			t.Errorf("%s: %d %s %s %q %q, want %d %s %s %q", name, e.StatusCode, e.Type, e.Code, e.Param, e.Message, status, kind, code, param)
		}
		after, _ := strconv.Atoi(e.Response.Header.Get("Retry-After"))
		if (status == 429 || status == 503) && after < 1 {
			t.Errorf("%s: Retry-After %q", name, e.Response.Header.Get("Retry-After"))
		}
		if e.Response.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: no request id", name)
		}
		rig.WantNoLeak(t, "the answer", e.RawJSON(), "127.0.0.1:")
	}
	check("wrong type", bad(option.WithJSONSet("temperature", "hot")), 400, "invalid_request_error", "invalid_type", "temperature")
	check("out of range", bad(option.WithJSONSet("temperature", 3)), 400, "invalid_request_error", "invalid_value", "temperature")
	check("no messages", bad(option.WithJSONSet("messages", []string{})), 400, "invalid_request_error", "invalid_value", "messages")
	check("bad role", bad(option.WithJSONSet("messages.0.role", "king")), 400, "invalid_request_error", "invalid_value", "messages[0].role")
	check("max tokens differ", bad(option.WithJSONSet("max_tokens", 1), option.WithJSONSet("max_completion_tokens", 2)), 400, "invalid_request_error", "invalid_value", "max_completion_tokens")
	check("no key", bad(option.WithHeaderDel("Authorization")), 401, "authentication_error", "invalid_api_key", "")
	check("wrong key", bad(option.WithAPIKey("wrong")), 401, "authentication_error", "invalid_api_key", "")
	check("key in the query", bad(option.WithQuery("api_key", p.Key)), 401, "authentication_error", "credential_in_query", "")
	check("not this model", bad(option.WithAPIKey(narrow)), 403, "permission_error", "model_not_allowed", "model")
	check("no such model", bad(option.WithJSONSet("model", "nothing")), 404, "not_found_error", "model_not_found", "model")
	check("too large", bad(option.WithJSONSet("user", strings.Repeat("x", 100<<10))), 413, "request_too_large", "request_too_large", "")
	release := p.hold(1, p.ChatRequest(endlessStream))
	check("full", bad(), 429, "rate_limit_error", "capacity_full", "")
	release()
	rig.WaitFor(t, rig.WaitTimeout, "the slot is free", func() bool { return p.Metric("penstock_upstream_inflight") == 0 })
	p.Engines[0].SetFault(sim.Fault{Spec: "status=503;retry-after=4"})
	check("engine is busy", bad(), 503, "api_error", "no_healthy_route", "")
	p.Engines[0].SetFault(sim.Fault{Spec: "status=500"})
	check("engine failed", bad(), 502, "api_error", "upstream_failed", "")
	_, err := p.newSDKModel("nothing")
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != 404 || e.Code != "model_not_found" {
		t.Errorf("model by id: %v", err)
	}
	// A failure after the first byte must be an error within the stream.
	p.Engines[0].SetFault(sim.Fault{Spec: "reset-after=3"})
	client := p.sdk()
	s := client.Chat.Completions.NewStreaming(ctx, chatParams(rig.Canary))
	chunks := 0
	for s.Next() {
		chunks++
	}
	if s.Err() == nil || chunks == 0 {
		t.Errorf("%d chunks, then %v: a broken stream looks whole", chunks, s.Err())
	}
}

func (p *penstock) newSDKModel(id string) (*openai.Model, error) {
	client := p.sdk()
	return client.Models.Get(context.Background(), id)
}

// TestSDK_Cancel checks that the engine stops working when the client's context ends, in every
// phase.
func TestSDK_Cancel(t *testing.T) {
	t.Parallel()
	working := func(p *penstock) bool { return p.Engines[0].Stats().Running == 1 }
	for phase, c := range map[string]struct {
		more   []option.RequestOption
		fault  string
		ready  func(*penstock) bool
		events int // number of events to read before the disconnect
	}{
		"prefill":   {more: []option.RequestOption{option.WithJSONSet("sim.ttft_ms", 60000)}, ready: working},
		"streaming": {more: []option.RequestOption{option.WithJSONSet("sim.tokens", 10000), option.WithJSONSet("sim.delay_ms", 10)}, ready: working, events: 5},
		"silent":    {fault: "stall-after=3", ready: working, events: 2},
		"queued": {
			more:  []option.RequestOption{option.WithJSONSet("sim.ttft_ms", 60000)},
			ready: func(p *penstock) bool { return p.Engines[0].Stats().Waiting == 1 },
		},
	} {
		for _, streamed := range []bool{false, true} {
			if c.events > 0 && !streamed {
				continue
			}
			t.Run(phase+map[bool]string{true: "/stream", false: "/json"}[streamed], func(t *testing.T) {
				t.Parallel()
				p := start(t, rig.Setup{Engines: []sim.Options{{Slots: 1}}, Upstream: rig.QuietProbes + ", concurrency: 4"})
				e := p.Engines[0]
				if phase == "queued" {
					defer p.hold(1, p.ChatRequest(endlessStream))()
				}
				e.SetFault(sim.Fault{Spec: c.fault})
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				client := p.sdk()
				ended := make(chan error, 1)
				started := make(chan struct{})
				go func() {
					if c.events == 0 {
						close(started) // a stream's head is sent with its first event
					}
					if !streamed {
						_, err := client.Chat.Completions.New(ctx, chatParams(rig.Canary), c.more...)
						ended <- err
						return
					}
					s := client.Chat.Completions.NewStreaming(ctx, chatParams(rig.Canary), c.more...)
					for n := 1; s.Next(); n++ {
						if n == c.events {
							close(started)
						}
					}
					ended <- s.Err()
					s.Close()
				}()
				rig.Receive(t, rig.WaitTimeout, "the answer begins", started)
				rig.WaitFor(t, rig.WaitTimeout, "the engine works", func() bool { return c.ready(p) })
				before := e.Stats()
				cancel()
				rig.WaitFor(t, freedWithin, "the engine is free", func() bool {
					s := e.Stats()
					return s.Aborted == before.Aborted+1 && s.Running+s.Waiting == before.Running+before.Waiting-1 && s.Conns == before.Conns-1
				})
				if err := rig.Receive(t, rig.WaitTimeout, "the SDK returns", ended); !errors.Is(err, context.Canceled) {
					t.Errorf("the SDK says %v", err)
				}
			})
		}
	}
}

// TestSDK_RetriesByRetryAfter checks that the SDK honours the edge's Retry-After and succeeds on
// the second attempt.
func TestSDK_RetriesByRetryAfter(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	p.Engines[0].SetFault(sim.Fault{Spec: "status=429;retry-after=1", Count: 1})
	client := p.sdk(option.WithMaxRetries(2))
	begun := time.Now()
	if _, err := client.Chat.Completions.New(context.Background(), chatParams(rig.Canary)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < 900*time.Millisecond || took > rig.WaitTimeout {
		t.Errorf("came back after %v", took)
	}
	statuses := []int{}
	for _, l := range p.AccessLinesWhenIdle() {
		statuses = append(statuses, l.Status)
	}
	if !slices.Equal(statuses, []int{429, 200}) {
		t.Errorf("statuses = %v, want 429, then 200", statuses)
	}
}
