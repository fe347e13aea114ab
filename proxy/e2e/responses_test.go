package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// These tests use the official SDK's Responses client. The translation drops unknown members, so
// the tests control the simulator with text in the user message.

// input returns a conversation of one user message. control is for the simulator.
func input(control string) responses.ResponseNewParamsInputUnion {
	text := rig.Canary
	if control != "" {
		text += " [[sim {" + control + "}]]"
	}
	return responses.ResponseNewParamsInputUnion{OfInputItemList: []responses.ResponseInputItemUnionParam{
		responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser),
	}}
}

func respond(control string) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: "sim", Input: input(control)}
}

// requestAnswer requests an answer, streamed or unstreamed. In a stream, it checks the order of
// events.
func requestAnswer(t *testing.T, c *openai.Client, streamed bool, params responses.ResponseNewParams) *responses.Response {
	t.Helper()
	if !streamed {
		got, err := c.Responses.New(context.Background(), params)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	s := c.Responses.NewStreaming(context.Background(), params)
	var last *responses.Response
	var seq int64
	text, items := map[string]string{}, 0
	for s.Next() {
		e := s.Current()
		if e.SequenceNumber != seq {
			t.Errorf("%s has the number %d, want %d", e.Type, e.SequenceNumber, seq)
		}
		seq++
		switch e.Type {
		case "response.output_text.delta", "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
			text[e.ItemID] += e.Delta
		case "response.output_text.done":
			if text[e.ItemID] != e.Text {
				t.Errorf("the text is %q, its deltas %q", e.Text, text[e.ItemID])
			}
		case "response.function_call_arguments.done":
			if text[e.ItemID] != e.Arguments {
				t.Errorf("the arguments are %q, their deltas %q", e.Arguments, text[e.ItemID])
			}
		case "response.custom_tool_call_input.done":
			if text[e.ItemID] == "" || text[e.ItemID] != e.Input {
				t.Errorf("the input is %q, its deltas %q", e.Input, text[e.ItemID])
			}
		case "response.output_item.done":
			items++
		case "response.completed", "response.incomplete":
			last = &e.Response
		}
	}
	if s.Err() != nil || last == nil {
		t.Fatalf("the stream ends with %v, response %v", s.Err(), last)
	}
	if len(last.Output) != items {
		t.Errorf("%d items were done, %d are in the response", items, len(last.Output))
	}
	return last
}

// bothWays runs f with and without a stream.
func bothWays(t *testing.T, f func(t *testing.T, streamed bool)) {
	t.Helper()
	for _, streamed := range []bool{false, true} {
		t.Run(map[bool]string{true: "stream", false: "json"}[streamed], func(t *testing.T) { f(t, streamed) })
	}
}

func TestResponses_Text(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recordingEngine(), Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}", engine: sim }]
models: [{ id: public/name, aliases: [sim], deployments: [{ upstream: up-0, served: sim }] }]
`})
	client := p.sdk()
	bothWays(t, func(t *testing.T, streamed bool) {
		params := respond(`"text":"Guten Tag, 世界!"`)
		params.Instructions = openai.String("Be brief.")
		params.Metadata = shared.Metadata{"a": "b"}
		params.MaxOutputTokens = openai.Int(100)
		params.Store = openai.Bool(false)
		params.PromptCacheKey = openai.String("session")
		params.Include = []responses.ResponseIncludable{"reasoning.encrypted_content"}
		got := requestAnswer(t, &client, streamed, params)
		if got.OutputText() != "Guten Tag, 世界!" || got.Status != "completed" || len(got.Output) != 1 {
			t.Errorf("answer = %s, want the completed text Guten Tag, 世界!", got.RawJSON())
		}
		if got.Model != "public/name" || !strings.HasPrefix(got.ID, "resp_") || got.CreatedAt == 0 || got.Metadata["a"] != "b" || got.MaxOutputTokens != 100 {
			t.Errorf("answer = %s, want the model's name, an id and the request's settings", got.RawJSON())
		}
		if u := got.Usage; u.InputTokens == 0 || u.OutputTokens == 0 || u.TotalTokens != u.InputTokens+u.OutputTokens {
			t.Errorf("usage = %+v, want tokens that add up", u)
		}
		sent := string(p.Engines[0].Stats().LastRequest.Body)
		if !strings.Contains(sent, `{"role":"system","content":"Be brief."},{"role":"user"`) || strings.Contains(sent, "session") {
			t.Errorf("the engine was sent %s", sent)
		}
	})
	l := p.LastAccessLine()
	if l.Model != "public/name" || l.CompletionTokens == 0 || l.PromptTokens == 0 || l.Dialect != "responses" || l.TokensEstimated {
		t.Errorf("the log says %+v", l)
	}
}

// TestResponses_Reasoning checks that reasoning does not appear in the answer and does not delay
// the stream.
func TestResponses_Reasoning(t *testing.T) {
	t.Parallel()
	for _, member := range []string{"reasoning", "reasoning_content"} {
		p := start(t, rig.Setup{Engines: []sim.Options{{Reasoning: member}}})
		body := func(stream string) string {
			return `{"model":"sim","stream":` + stream + `,"reasoning":{"effort":"high","summary":"auto"},"input":"` + rig.Canary + ` [[sim {\"reasoning\":20,\"text\":\"Seen.\"}]]"}`
		}
		chat := p.Post("/v1/chat/completions", p.ChatRequest(`"sim":{"reasoning":20,"text":"Seen."}`)).WantStatus(200)
		if !strings.Contains(chat.Body, `"`+member+`":"`) {
			t.Fatalf("the engine does not reason: %s", chat.Body)
		}
		for _, r := range []*rig.Reply{p.Post("/v1/responses", body("false")), p.Post("/v1/responses", body("true"))} {
			r.WantStatus(200)
			visible := strings.NewReplacer(`"reasoning":{"effort":"high","summary":"auto"}`, "", "reasoning_tokens", "").Replace(r.Body)
			if strings.Contains(visible, "reason") || !strings.Contains(visible, "Seen.") {
				t.Errorf("answer = %s, want Seen. and no reasoning", r.Body)
			}
		}
		events := p.Post("/v1/responses", body("true")).Events()
		for _, e := range events {
			if strings.HasSuffix(e.Name, ".delta") && !strings.Contains("Seen.", deltaOf(t, e.Data)) {
				t.Errorf("a delta that is not of the text: %s", e.Data)
			}
		}
	}
}

func deltaOf(t *testing.T, data string) string {
	t.Helper()
	var d struct{ Delta string }
	if err := json.Unmarshal([]byte(data), &d); err != nil {
		t.Fatal(err)
	}
	return d.Delta
}

func TestResponses_StructuredOutput(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recordingEngine()})
	client := p.sdk()
	bothWays(t, func(t *testing.T, streamed bool) {
		params := respond("")
		params.Text = responses.ResponseTextConfigParam{Format: responses.ResponseFormatTextConfigUnionParam{
			OfJSONSchema: &responses.ResponseFormatTextJSONSchemaConfigParam{
				Name: "city", Strict: openai.Bool(true),
				Schema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []string{"name"}, "additionalProperties": false},
			},
		}}
		got := requestAnswer(t, &client, streamed, params)
		var city struct{ Name *string }
		if err := json.Unmarshal([]byte(got.OutputText()), &city); err != nil || city.Name == nil {
			t.Errorf("text = %s, %v; want a city as JSON", got.OutputText(), err)
		}
		if got.Text.Format.Name != "city" || got.Text.Format.Type != "json_schema" {
			t.Errorf("answer = %s, want the format city", got.RawJSON())
		}
		if sent := string(p.Engines[0].Stats().LastRequest.Body); !strings.Contains(sent, `"response_format":{"type":"json_schema","json_schema":{"name":"city"`) {
			t.Errorf("the engine was sent %s", sent)
		}
	})
}

// TestResponses_Images checks that images in a message and in a tool output reach the engine and
// use the vision pool.
func TestResponses_Images(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recordingEngine(), Upstream: "concurrency: { text: 2, vision: 2 }", Model: "input_modalities: [text, image]"})
	client := p.sdk()
	bothWays(t, func(t *testing.T, streamed bool) {
		url := rig.PictureDataURL("png")
		image := func() *responses.ResponseInputImageParam {
			return &responses.ResponseInputImageParam{ImageURL: openai.String(url), Detail: "low"}
		}
		params := respond("")
		params.Input.OfInputItemList = append(params.Input.OfInputItemList,
			responses.ResponseInputItemParamOfMessage(responses.ResponseInputMessageContentListParam{
				responses.ResponseInputContentParamOfInputText("Look."), {OfInputImage: image()},
			}, responses.EasyInputMessageRoleUser),
			responses.ResponseInputItemParamOfFunctionCall("{}", "call_1", "camera"),
		)
		out := responses.ResponseInputItemParamOfFunctionCallOutput(responses.ResponseFunctionCallOutputItemListParam{
			{OfInputText: &responses.ResponseInputTextContentParam{Text: "Here."}},
			{OfInputImage: &responses.ResponseInputImageContentParam{ImageURL: openai.String(url)}},
		})
		out.OfFunctionCallOutput.CallID = openai.String("call_1")
		params.Input.OfInputItemList = append(params.Input.OfInputItemList, out)
		requestAnswer(t, &client, streamed, params)
		if n := strings.Count(string(p.Engines[0].Stats().LastRequest.Body), url); n != 2 {
			t.Errorf("%d of 2 pictures have arrived as they were", n)
		}
		if l := p.LastAccessLine(); l.Pool != "vision" {
			t.Errorf("pool = %q, want vision", l.Pool)
		}
	})
}

// TestResponses_Incomplete checks that an answer truncated by the token limit is reported as
// incomplete.
func TestResponses_Incomplete(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Model: "max_output_length: 8"})
	client := p.sdk()
	bothWays(t, func(t *testing.T, streamed bool) {
		params := respond(`"tokens":50`)
		params.MaxOutputTokens = openai.Int(5000) // the edge lowers this limit to the model's
		got := requestAnswer(t, &client, streamed, params)
		if got.Status != "incomplete" || got.IncompleteDetails.Reason != "max_output_tokens" || got.Output[0].Status != "incomplete" || got.Usage.OutputTokens != 8 {
			t.Errorf("answer = %s, want it incomplete after 8 tokens", got.RawJSON())
		}
		// the request does not set a limit
		if got = requestAnswer(t, &client, streamed, respond(`"tokens":50`)); got.Status != "incomplete" || got.Usage.OutputTokens != 8 {
			t.Errorf("answer without a limit = %s, want it incomplete after 8 tokens", got.RawJSON())
		}
		got = requestAnswer(t, &client, streamed, respond(`"finish":"content_filter"`))
		if got.Status != "incomplete" || got.IncompleteDetails.Reason != "content_filter" {
			t.Errorf("answer = %s, want it incomplete because of content_filter", got.RawJSON())
		}
	})
}

// TestResponses_Assembled checks that the edge requests a stream from an engine whose unstreamed
// requests cannot be cancelled. The client must still receive an unstreamed answer.
func TestResponses_Assembled(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{Profile: "llamacpp", CancelOnlyStreams: true, Record: true}}, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}", engine: llamacpp }]
models: [{ id: sim, deployments: [{ upstream: up-0 }] }]
`})
	client := p.sdk()
	got := requestAnswer(t, &client, false, respond(`"reasoning":5,"text":"Whole."`))
	if got.OutputText() != "Whole." || got.Status != "completed" || got.Usage.InputTokens == 0 {
		t.Errorf("answer = %s, want the completed text Whole.", got.RawJSON())
	}
	if sent := string(p.Engines[0].Stats().LastRequest.Body); !strings.Contains(sent, `"stream":true`) {
		t.Errorf("the engine was sent %s", sent)
	}
}

// TestResponses_Errors checks that the SDK's typed error has the status, type, code and parameter,
// with the names that Responses uses.
func TestResponses_Errors(t *testing.T) {
	t.Parallel()
	chatOnly, hash, _ := auth.NewKey()
	p := start(t, rig.Setup{
		Keys:     `- { id: chat-only, hash: "` + hash + `", operations: [chat] }`,
		Models:   `- { id: no-responses, deployments: [{ upstream: up-0, served: sim }], supported_endpoints: [/v1/chat/completions] }`,
		Upstream: "concurrency: 1",
		Model:    "supported_features: [tools]",
		Retry:    "attempts: 1",
	})
	ctx := context.Background()
	client := p.sdk()
	check := func(name string, status int, kind, code, param string, more ...option.RequestOption) {
		t.Helper()
		_, err := client.Responses.New(ctx, respond(""), more...)
		var e *openai.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v is not the SDK's error", name, err)
			return
		}
		if e.StatusCode != status || e.Type != kind || e.Code != code || e.Param != param || e.Message == "" {
			t.Errorf("%s: %d %s %s %q %q, want %d %s %s %q", name, e.StatusCode, e.Type, e.Code, e.Param, e.Message, status, kind, code, param)
		}
		if after, _ := strconv.Atoi(e.Response.Header.Get("Retry-After")); (status == 429 || status == 503) && after < 1 {
			t.Errorf("%s: Retry-After %q", name, e.Response.Header.Get("Retry-After"))
		}
		rig.WantNoLeak(t, "the answer", e.RawJSON(), "127.0.0.1:")
	}
	const invalid = "invalid_request_error"
	check("store", 400, invalid, "unsupported_parameter", "store", option.WithJSONSet("store", true))
	check("previous response", 400, invalid, "unsupported_parameter", "previous_response_id", option.WithJSONSet("previous_response_id", "resp_1"))
	check("background", 400, invalid, "unsupported_parameter", "background", option.WithJSONSet("background", true))
	check("reference", 400, invalid, "unsupported_parameter", "input[1].id", option.WithJSONSet("input.1", map[string]any{"type": "item_reference", "id": "msg_1"}))
	check("role", 400, invalid, "invalid_value", "input[0].role", option.WithJSONSet("input.0.role", "king"))
	check("image", 400, invalid, "invalid_value", "input[1].content[0].image_url",
		option.WithJSONSet("input.1", map[string]any{"role": "user", "content": []any{map[string]any{"type": "input_image", "image_url": "http://10.0.0.1/"}}}))
	check("structured output", 400, invalid, "unsupported_parameter", "text.format", option.WithJSONSet("text.format.type", "json_object"))
	check("steering", 400, invalid, "unsupported_parameter", "bootstrap_host", option.WithJSONSet("bootstrap_host", "x"))
	check("no such model", 404, "not_found_error", "model_not_found", "model", option.WithJSONSet("model", "nothing"))
	check("not served here", 400, invalid, "unsupported_parameter", "model", option.WithJSONSet("model", "no-responses"))
	check("no key", 401, "authentication_error", "invalid_api_key", "", option.WithHeaderDel("Authorization"))
	check("not this endpoint", 403, "permission_error", "operation_not_allowed", "", option.WithAPIKey(chatOnly))
	release := p.hold(1, p.ChatRequest(endlessStream))
	check("full", 429, "rate_limit_error", "capacity_full", "")
	release()
	rig.WaitFor(t, rig.WaitTimeout, "the slot is free", func() bool { return p.Metric("penstock_upstream_inflight") == 0 })
	for _, c := range []struct {
		fault      string
		status     int
		kind, code string
		param      string
	}{
		{"status=503;retry-after=4", 503, "api_error", "no_healthy_route", ""},
		{"status=500", 502, "api_error", "upstream_failed", ""},
		{"status=429", 429, "rate_limit_error", "capacity_full", ""},
		{"html-200", 502, "api_error", "upstream_bad_response", ""},
		{"no-choices", 502, "api_error", "upstream_bad_response", ""},
	} {
		p.Engines[0].SetFault(sim.Fault{Spec: c.fault})
		check(c.fault, c.status, c.kind, c.code, c.param)
	}
	p.Engines[0].SetFault()
	long := strings.Repeat("word ", 40000)
	check("context", 400, invalid, "context_length_exceeded", "input", option.WithJSONSet("input.0.content", long))
}

// TestResponses_BrokenStream checks that a failure after the first byte is reported in the stream
// only once, and that the stream ends properly.
func TestResponses_BrokenStream(t *testing.T) {
	fastset.SkipIfShort(t, "streams that break in every way")
	t.Parallel()
	for fault, code := range map[string]string{
		"cut-after=4": "server_error", "reset-after=4": "server_error", "no-finish": "server_error", "no-finish;done=1": "server_error",
		"error-in-stream=4": "server_error", "error-in-stream=4;code=429": "rate_limit_exceeded", "error-in-stream=4;code=400": "invalid_prompt",
		"invalid-json=4": "server_error", "stall-after=4": "server_error", "bad-chunk=4": "server_error",
	} {
		s := rig.Setup{} // a separate edge, whose breaker has no history
		if strings.HasPrefix(fault, "stall") {
			s.Timeouts = "idle: 2s"
		}
		p := start(t, s)
		p.Engines[0].SetFault(sim.Fault{Spec: fault})
		client := p.sdk()
		stream := client.Responses.NewStreaming(context.Background(), respond(`"delay_ms":5`))
		deltas := 0
		for stream.Next() {
			if stream.Current().Type == "response.output_text.delta" {
				deltas++
			}
		}
		if stream.Err() == nil || deltas == 0 {
			t.Errorf("%s: %d deltas, then %v: a broken stream looks whole", fault, deltas, stream.Err())
		}
		r := p.Post("/v1/responses", `{"model":"sim","stream":true,"input":"`+rig.Canary+` [[sim {\"delay_ms\":5}]]"}`).WantStatus(200)
		events := r.Events()
		if r.Err != nil || len(events) < 4 {
			t.Errorf("%s: %v after %s, want 4 events or more", fault, r.Err, r.Body)
			continue
		}
		tail := events[len(events)-3:]
		if tail[0].Name != "error" || tail[1].Name != "response.failed" || tail[2].Data != "[DONE]" {
			t.Errorf("%s: the stream ends with %v", fault, tail)
		}
		if !strings.Contains(tail[0].Data, `"code":"`+code+`"`) || !strings.Contains(tail[1].Data, `"error":{"code":"`+code+`"`) {
			t.Errorf("%s: want %s in %v", fault, code, tail)
		}
		rig.WantNoLeak(t, "the answer", tail[0].Data+tail[1].Data, "127.0.0.1:")
	}
}

// TestResponses_Retry checks that, after a failure before the first byte, the call goes to another
// engine or the client receives an error status.
func TestResponses_Retry(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{}, {}}, Retry: "budget: 100%"})
	client := p.sdk()
	bothWays(t, func(t *testing.T, streamed bool) {
		for _, fault := range []string{"status=502", "status=503", "error-first;code=503"} {
			for _, e := range p.Engines {
				e.SetFault(sim.Fault{Spec: fault})
				got := requestAnswer(t, &client, streamed, respond(`"text":"There."`))
				if got.OutputText() != "There." {
					t.Errorf("%s: answer = %s, want the text There.", fault, got.RawJSON())
				}
				e.SetFault()
			}
		}
	})
}

// TestResponses_Keepalive checks that a waiting client receives keep-alive events before the
// engine's first event.
func TestResponses_Keepalive(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Stream: "commit_after: 100ms, keepalive: 100ms"})
	r := p.Post("/v1/responses", `{"model":"sim","stream":true,"input":"`+rig.Canary+` [[sim {\"ttft_ms\":3000,\"text\":\"Late.\"}]]"}`).WantStatus(200)
	if !strings.HasPrefix(r.Body, "event: response.created") || strings.Count(r.Body, "event: response.in_progress") < 3 || !strings.Contains(r.Body, `"delta":"Late`) {
		t.Errorf("answer = %s, want events while it waits, then Late", r.Body)
	}
}

// TestResponses_Strict checks that a strict edge rejects requests that other edges accept.
func TestResponses_Strict(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: "strict: true"})
	for _, more := range []string{`"prompt_cache_key":"k"`, `"include":["x"]`, `"novelty":1`, `"tools":[{"type":"function","name":"f"},{"type":"web_search"}]`} {
		p.Post("/v1/responses", `{"model":"sim","input":"`+rig.Canary+`",`+more+`}`).WantError(400, "invalid_request_error", "unsupported_parameter")
	}
	p.Post("/v1/responses", `{"model":"sim","input":"`+rig.Canary+`","store":false,"instructions":"Be brief.","prompt_cache_key":null}`).WantStatus(200)
}

// TestResponses_Effort checks that an unsupported effort is lowered.
func TestResponses_Effort(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recordingEngine(), Model: "supported_features: [reasoning], supported_reasoning_efforts: [low, medium]"})
	p.Post("/v1/responses", `{"model":"sim","input":"`+rig.Canary+`","reasoning":{"effort":"xhigh"}}`).WantStatus(200)
	if sent := string(p.Engines[0].Stats().LastRequest.Body); !strings.Contains(sent, `"reasoning_effort":"medium"`) {
		t.Errorf("the engine was sent %s", sent)
	}
}

// TestResponses_Cancel checks that the engine stops working when the client's context ends.
func TestResponses_Cancel(t *testing.T) {
	t.Parallel()
	for phase, control := range map[string]string{"prefill": `"ttft_ms":60000`, "streaming": `"tokens":10000,"delay_ms":10`} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Upstream: rig.QuietProbes})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			client := p.sdk()
			ended := make(chan error, 1)
			go func() {
				s := client.Responses.NewStreaming(ctx, respond(control))
				for s.Next() {
				}
				ended <- s.Err()
			}()
			rig.WaitFor(t, rig.WaitTimeout, "the engine works", func() bool { return p.Engines[0].Stats().Running == 1 })
			time.Sleep(50 * time.Millisecond)
			cancel()
			if err := rig.Receive(t, rig.WaitTimeout, "the stream ends", ended); !errors.Is(err, context.Canceled) {
				t.Errorf("the client sees %v", err)
			}
			took := rig.WaitFor(t, rig.WaitTimeout, "the engine is free", func() bool { return p.Engines[0].Stats().Running == 0 })
			if took > 2*time.Second+rig.TimingTolerance {
				t.Errorf("the engine was freed after %v", took)
			}
			p.WaitIdle()
			if l := p.LastAccessLine(); l.Status != 499 || l.Outcome != "client_gone" {
				t.Errorf("the log says %+v", l)
			}
		})
	}
}

// TestResponses_ChatMembers checks that members that have the same name in chat reach the engine
// unchanged and are repeated in the answer.
func TestResponses_ChatMembers(t *testing.T) {
	t.Parallel()
	const members = `"presence_penalty":0.5,"frequency_penalty":-0.25,"stop":["END"],"seed":7,"top_k":20,"min_p":0.05,"repetition_penalty":1.1,` +
		`"logit_bias":{"9":-100},"chat_template_kwargs":{"a":1},"top_logprobs":2,"response_format":{"type":"json_object"}`
	for _, way := range []struct{ path, body string }{
		{"/v1/responses", `"input":"Go.",` + members},
		{"/v1/chat/completions", `"messages":[{"role":"user","content":"Go."}],"logprobs":true,` + members},
	} {
		p := start(t, rig.Setup{Engines: recordingEngine()})
		r := p.Post(way.path, `{"model":"sim",`+way.body+`}`).WantStatus(200)
		var sent, want map[string]any
		for _, got := range p.Engines[0].Recorded() {
			if got.Method == "POST" {
				if err := json.Unmarshal(got.Body, &sent); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := json.Unmarshal([]byte("{"+members+"}"), &want); err != nil {
			t.Fatal(err)
		}
		for name, value := range want {
			if d := cmp.Diff(value, sent[name]); d != "" {
				t.Errorf("%s: %s as the engine got it (-want +got):\n%s", way.path, name, d)
			}
		}
		if way.path == "/v1/responses" {
			for _, echo := range []string{`"presence_penalty":0.5`, `"frequency_penalty":-0.25`, `"top_logprobs":2`, `"format":{"type":"json_object"}`} {
				if !strings.Contains(r.Body, echo) {
					t.Errorf("the answer lacks %s: %s", echo, r.Body)
				}
			}
		}
	}
}
