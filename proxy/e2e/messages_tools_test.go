package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests check tools and images in Messages.

func weatherTools() []anthropic.ToolUnionParam {
	return []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
		Name: "get_weather", Description: anthropic.String("The weather of a city."),
		InputSchema: anthropic.ToolInputSchemaParam{
			Properties: map[string]any{"city": map[string]any{"type": "string"}, "days": map[string]any{"type": "integer"}}, Required: []string{"city", "days"},
		},
	}}}
}

// TestMessages_ToolLoop checks an agent's loop: tool calls, results, and a text answer.
func TestMessages_ToolLoop(t *testing.T) {
	t.Parallel()
	for _, o := range []sim.Options{{Record: true}, {Record: true, Profile: "ollama"}} {
		for _, fault := range []string{"", "tool-interleaved", "tool-whole", "tool-split-name", "split+crlf+usage-every-chunk"} {
			t.Run(o.Profile+"/"+fault, func(t *testing.T) {
				t.Parallel()
				p := start(t, rig.Setup{Engines: []sim.Options{o}})
				if fault != "" {
					p.Engines[0].SetFault(sim.Fault{Spec: fault})
				}
				wholeAndStreamed(t, func(t *testing.T, create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error)) {
					params := messageParams("What is the weather?", `"tool_calls":2`)
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
							t.Errorf("call = %s(%s), %v; want get_weather with a city and days", b.Name, b.Input, err)
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
					if err := json.Unmarshal(p.Engines[0].Stats().LastRequest.Body, &sent); err != nil {
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
	p := start(t, rig.Setup{Engines: []sim.Options{{Record: true}}, Upstream: "concurrency: { text: 1, vision: 1 }"})
	const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
	wholeAndStreamed(t, func(t *testing.T, create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error)) {
		params := messageParams("", "")
		params.Messages = []anthropic.MessageParam{anthropic.NewUserMessage(
			anthropic.NewTextBlock("What is this?"), anthropic.NewImageBlockBase64("image/png", pixel))}
		if _, err := create(p.claude(), params); err != nil {
			t.Fatal(err)
		}
		if l := p.LastAccessLine(); l.Pool != "vision" {
			t.Errorf("the call was counted as %s", l.Pool)
		}
		if b := string(p.Engines[0].Stats().LastRequest.Body); !strings.Contains(b, `"url":"data:image/png;base64,`+pixel+`"`) {
			t.Errorf("the engine was sent %s", b)
		}
		params.Messages[0].Content[1] = anthropic.NewImageBlockBase64("image/jpeg", "aGVsbG8gd29ybGQgaGVsbG8=")
		_, err := create(p.claude(), params)
		wantAPIError(t, err, 400, "invalid_request_error", "invalid_value", "messages[0].content[1].source.data")
	})
}

// TestMessages_ImageLimits checks that errors about the model's rules use the member names of the
// Messages dialect.
func TestMessages_ImageLimits(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Model: "input_modalities: [text], supported_reasoning_efforts: [low], supported_features: [tools]"})
	image := `{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]}`
	r := p.Post("/v1/messages", `{"model":"sim","max_tokens":5,"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"a"},`+image+`]}]}`)
	if e := r.WantError(400, "invalid_request_error", "unsupported_parameter"); e.Param == nil || *e.Param != "messages[0].content[1].content[0].source.url" || !strings.HasPrefix(e.Message, *e.Param) {
		t.Errorf("answer = %s, want the URL of the tool result's image", r.Body)
	}
	r = p.Post("/v1/messages", `{"model":"sim","max_tokens":5,"output_config":{"format":{"type":"json_schema","schema":{}}},"messages":[{"role":"user","content":"a"}]}`)
	if e := r.WantError(400, "invalid_request_error", "unsupported_parameter"); e.Param == nil || *e.Param != "output_config.format" {
		t.Errorf("answer = %s, want output_config.format", r.Body)
	}
	// An unsupported effort must be lowered, because agents send the same effort to every model.
	p.Post("/v1/messages", `{"model":"sim","max_tokens":5,"output_config":{"effort":"max"},"messages":[{"role":"user","content":"a"}]}`).WantStatus(200)
}
