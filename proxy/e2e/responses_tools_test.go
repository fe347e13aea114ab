package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestResponses_Tools checks the tool loop: the model calls a tool, the client sends the result,
// and the model answers with text.
func TestResponses_Tools(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"", "tool-interleaved", "tool-whole", "tool-split-name"} {
		p := start(t, rig.Setup{Engines: recordingEngine()})
		client := p.sdk()
		bothWays(t, func(t *testing.T, streamed bool) {
			params := respond(`"tool_calls":2`)
			params.Tools = []responses.ToolUnionParam{
				{OfWebSearch: &responses.WebSearchToolParam{Type: "web_search"}},
				{OfFunction: &responses.FunctionToolParam{
					Name: "get_weather", Strict: openai.Bool(false),
					Parameters: map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}},
				}},
			}
			params.ParallelToolCalls = openai.Bool(true)
			p.Engines[0].SetFault(sim.Fault{Spec: fault, Count: 1})
			got := requestAnswer(t, &client, streamed, params)
			if len(got.Output) != 2 || got.Status != "completed" || len(got.Tools) != 1 {
				t.Fatalf("answer = %s, want two calls, completed", got.RawJSON())
			}
			var ids []string
			history := params.Input.OfInputItemList
			for _, item := range got.Output {
				call := item.AsFunctionCall()
				var args map[string]any
				if err := json.Unmarshal([]byte(call.Arguments), &args); err != nil || call.Name != "get_weather" || args["city"] == nil {
					t.Errorf("call = %+v, %v; want get_weather with a city", call, err)
				}
				ids = append(ids, call.CallID)
				history = append(history, param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(item.RawJSON())))
			}
			for _, id := range ids {
				out := responses.ResponseInputItemParamOfFunctionCallOutput("21 °C")
				out.OfFunctionCallOutput.CallID = openai.String(id)
				history = append(history, out)
			}
			params.Input.OfInputItemList = history
			got = requestAnswer(t, &client, streamed, params)
			if got.OutputText() == "" || got.Status != "completed" {
				t.Errorf("after the tools: %s", got.RawJSON())
			}
			sent := string(p.Engines[0].Stats().LastRequest.Body)
			for _, id := range ids {
				if strings.Count(sent, id) != 2 {
					t.Errorf("the call %s is %d times in what the engine was sent", id, strings.Count(sent, id))
				}
			}
			if strings.Contains(sent, "web_search") {
				t.Error("a hosted tool was sent to the engine")
			}
		})
	}
}

// TestResponses_ClientTools checks that the engine receives a namespaced tool and a custom tool as
// functions. The client must receive and send calls of these tools in its own form.
func TestResponses_ClientTools(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recordingEngine()})
	client := p.sdk()
	bothWays(t, func(t *testing.T, streamed bool) {
		params := respond(`"tool_calls":1`)
		params.Tools = []responses.ToolUnionParam{{OfNamespace: &responses.NamespaceToolParam{
			Name: "mcp__city", Description: "About cities.",
			Tools: []responses.NamespaceToolToolUnionParam{{OfFunction: &responses.NamespaceToolToolFunctionParam{
				Name: "weather", Parameters: map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}},
			}}},
		}}}
		got := requestAnswer(t, &client, streamed, params)
		if len(got.Output) != 1 || len(got.Tools) != 1 || got.Tools[0].Type != "namespace" {
			t.Fatalf("answer = %s, want one call and the namespace tool", got.RawJSON())
		}
		call := got.Output[0].AsFunctionCall()
		if call.Name != "weather" || call.Namespace != "mcp__city" || !strings.Contains(call.Arguments, "city") {
			t.Errorf("call = %s, want weather of mcp__city", call.RawJSON())
		}
		p.wantInHistory(t, &client, params, &got.Output[0], "function_call_output", "mcp__city__weather")

		params = respond(`"tool_calls":1`)
		params.Tools = []responses.ToolUnionParam{{OfCustom: &responses.CustomToolParam{Name: "apply_patch", Description: openai.String("Patches.")}}}
		got = requestAnswer(t, &client, streamed, params)
		if len(got.Output) != 1 || got.Output[0].Type != "custom_tool_call" {
			t.Fatalf("answer = %s, want one custom tool call", got.RawJSON())
		}
		custom := got.Output[0].AsCustomToolCall()
		if custom.Name != "apply_patch" || custom.Input == "" || strings.Contains(custom.Input, "{") || custom.CallID == "" {
			t.Errorf("call = %s, want apply_patch with plain input", custom.RawJSON())
		}
		p.wantInHistory(t, &client, params, &got.Output[0], "custom_tool_call_output", "apply_patch")
	})
}

// wantInHistory sends a tool call back with its output, and checks that the engine receives a call
// of the function with the given name.
func (p *penstock) wantInHistory(
	t *testing.T, client *openai.Client, params responses.ResponseNewParams, call *responses.ResponseOutputItemUnion, output, name string,
) {
	t.Helper()
	params.Input.OfInputItemList = append(params.Input.OfInputItemList,
		param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(call.RawJSON())),
		param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(`{"type":"`+output+`","call_id":"`+call.CallID+`","output":"It rains."}`)))
	if got := requestAnswer(t, client, false, params); got.OutputText() == "" {
		t.Errorf("after the tool: %s", got.RawJSON())
	}
	sent := string(p.Engines[0].Stats().LastRequest.Body)
	if strings.Count(sent, `"name":"`+name+`"`) != 2 || strings.Count(sent, call.CallID) != 2 || strings.Contains(sent, "custom_tool") {
		t.Errorf("the engine was sent %s", sent)
	}
}

// TestDropped checks that the edge reports dropped parts of a request to the client in a header,
// and to the operator in the log and a counter.
func TestDropped(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	const tools = `"tools":[{"type":"function","name":"f"},{"type":"web_search","name":"x"},{"type":"secret"}]`
	items := `"input":[{"role":"user","content":"` + rig.Canary + `"},{"type":"web_search_call","id":"x"}]`
	for _, stream := range []string{"false", "true"} {
		r := p.Post("/v1/responses", `{"model":"sim","stream":`+stream+`,`+items+`,`+tools+`}`).WantStatus(200)
		if got := r.Header.Get("X-Penstock-Dropped"); got != "tool:web_search, tool:other, item:web_search_call" {
			t.Errorf("stream %s: X-Penstock-Dropped = %q, want the two tools and the item", stream, got)
		}
	}
	r := p.Post("/v1/messages", `{"model":"sim","max_tokens":9,"messages":[{"role":"user","content":"`+rig.Canary+`"}],"tools":[{"type":"computer_20250124","name":"computer"},{"type":"bash_20250124","name":"bash"}]}`)
	if got := r.WantStatus(200).Header.Get("X-Penstock-Dropped"); got != "tool:computer" {
		t.Errorf("Messages: X-Penstock-Dropped = %q, want tool:computer", got)
	}
	sealed := `{"model":"sim","include":["reasoning.encrypted_content","bogus"],"input":[{"role":"user","content":"` + rig.Canary + `"},{"type":"reasoning","summary":[],"encrypted_content":"` + rig.Canary + `"},{"role":"user","content":"b"}]}`
	if got := p.Post("/v1/responses", sealed).WantStatus(200).Header.Get("X-Penstock-Dropped"); got != "item:reasoning, member:include" {
		t.Errorf("what does not open: %q", got)
	}
	if n := p.Metric("penstock_dropped_total", `what="item:reasoning"`); n != 1 {
		t.Errorf("reasoning that does not open is counted %v times", n)
	}
	if got, told := p.Post("/v1/responses", `{"model":"sim","input":"`+rig.Canary+`"}`).WantStatus(200).Header["X-Penstock-Dropped"]; told {
		t.Errorf("nothing was dropped, and told is %q", got)
	}
	p.WaitIdle()
	if n := strings.Count(p.Log.String(), `"dropped":"tool:web_search,tool:other,item:web_search_call"`); n != 2 {
		t.Errorf("%d lines of the log tell it", n)
	}
	if n := p.Metric("penstock_dropped_total", `what="tool:web_search"`); n != 2 {
		t.Errorf("counted %v times", n)
	}
}
