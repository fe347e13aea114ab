package e2e

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// In these conversations, the model thinks of a number, uses a tool, and then says the number. In
// the second turn, the simulator knows the number only if it receives the first turn's reasoning in
// the member that the simulated engine reads.

const thinkOfANumber = rig.Canary + ` [[sim {"secret":true}]]`

var (
	remembered   = regexp.MustCompile(`^The number is (\d{6})\.$`)
	forgotten    = "I have forgotten the number."
	readsHistory = []sim.Options{{Record: true}, {Profile: "llamacpp", CancelOnlyStreams: true, Record: true}, {Profile: "sglang", Record: true}, {Profile: "ollama", Record: true}}
)

// wantRemembered checks that the second turn's answer contains the number. shown is true if the
// client saw the number in the first turn.
func wantRemembered(t *testing.T, answer, first string, shown bool) {
	t.Helper()
	found := remembered.FindStringSubmatch(answer)
	if found == nil {
		t.Errorf("the model says %q", answer)
		return
	}
	if strings.Contains(first, found[1]) != shown {
		t.Errorf("the client is shown the reasoning: %t, want %t: %s", !shown, shown, first)
	}
}

// eachThatReadsHistory runs f with an edge for each engine that reads the reasoning of earlier
// turns.
func eachThatReadsHistory(t *testing.T, f func(t *testing.T, p *penstock)) {
	t.Parallel()
	for _, o := range readsHistory {
		t.Run(o.Profile, func(t *testing.T) {
			t.Parallel()
			f(t, start(t, rig.Setup{Engines: []sim.Options{o}, Config: detectConfig}))
		})
	}
}

func TestReasoning_Chat(t *testing.T) {
	eachThatReadsHistory(t, func(t *testing.T, p *penstock) {
		for _, sent := range []string{"reasoning", "reasoning_content"} { // the names that different SDKs use
			answer, first := p.numberByChat(t, sent)
			wantRemembered(t, answer, first, true)
		}
		if answer, _ := p.numberByChat(t, "thoughts"); answer != forgotten {
			t.Errorf("without reasoning in the history: %q", answer)
		}
	})
}

// numberByChat runs the conversation on chat, and sends the reasoning back in the member with the
// given name.
func (p *penstock) numberByChat(t *testing.T, name string) (answer, first string) {
	t.Helper()
	client := p.sdk()
	params := chatParams(thinkOfANumber)
	params.Tools = weather()
	got, err := client.Chat.Completions.New(context.Background(), params, option.WithJSONSet("reasoning_effort", "low"))
	if err != nil {
		t.Fatal(err)
	}
	m := got.Choices[0].Message
	if len(m.ToolCalls) != 1 {
		t.Fatalf("no call: %s", got.RawJSON())
	}
	thought := ""
	for _, member := range []string{"reasoning", "reasoning_content"} {
		if raw := m.JSON.ExtraFields[member].Raw(); raw != "" {
			if err := json.Unmarshal([]byte(raw), &thought); err != nil {
				t.Fatal(err)
			}
		}
	}
	back := m.ToAssistantMessageParam()
	back.SetExtraFields(map[string]any{name: thought})
	params.Messages = append(params.Messages, openai.ChatCompletionMessageParamUnion{OfAssistant: &back},
		openai.ToolMessage("21 °C", m.ToolCalls[0].ID))
	second, err := client.Chat.Completions.New(context.Background(), params)
	if err != nil {
		t.Fatal(err)
	}
	return second.Choices[0].Message.Content, got.RawJSON()
}

// thinkingModes are the settings with which a client of Messages requests reasoning.
var thinkingModes = []struct {
	name, block string
	thinking    anthropic.ThinkingConfigParamUnion
	options     []anthropicoption.RequestOption
}{
	{"shown", "thinking", anthropic.ThinkingConfigParamOfEnabled(1024), nil},
	{"omitted", "thinking", anthropic.ThinkingConfigParamUnion{OfEnabled: &anthropic.ThinkingConfigEnabledParam{BudgetTokens: 1024, Display: "omitted"}}, nil},
	{"redacted", "redacted_thinking", anthropic.ThinkingConfigParamOfEnabled(1024), []anthropicoption.RequestOption{
		anthropicoption.WithHeader("anthropic-beta", "interleaved-thinking-2025-05-14,redact-thinking-2026-02-12"),
	}},
}

func TestReasoning_Messages(t *testing.T) {
	eachThatReadsHistory(t, func(t *testing.T, p *penstock) {
		for _, mode := range thinkingModes {
			t.Run(mode.name, func(t *testing.T) {
				wholeAndStreamed(t, func(t *testing.T, create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error)) {
					answer, m := p.numberByMessages(t, p.claude(mode.options...), mode.thinking, create)
					if m.Content[0].Type != mode.block {
						t.Errorf("the first block is %s", m.Content[0].RawJSON())
					}
					wantRemembered(t, answer, messageJSON(t, m), mode.name == "shown")
				})
			})
		}
	})
}

func messageJSON(t *testing.T, m *anthropic.Message) string {
	t.Helper()
	text, err := json.Marshal(m.ToParam())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// numberByMessages runs the conversation on Messages.
func (p *penstock) numberByMessages(t *testing.T, client *anthropic.Client, thinking anthropic.ThinkingConfigParamUnion,
	create func(*anthropic.Client, anthropic.MessageNewParams) (*anthropic.Message, error),
) (answer string, first *anthropic.Message) {
	t.Helper()
	params := messageParams(thinkOfANumber, "")
	params.MaxTokens, params.Thinking = 2048, thinking
	params.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: "weather", InputSchema: anthropic.ToolInputSchemaParam{
		Properties: map[string]any{"city": map[string]any{"type": "string"}},
	}}}}
	first, err := create(client, params)
	if err != nil || first.StopReason != "tool_use" || len(first.Content) != 2 {
		t.Fatalf("first message = %+v, %v; want two blocks and the stop tool_use", first, err)
	}
	params.Messages = append(params.Messages, first.ToParam(), anthropic.NewUserMessage(
		anthropic.NewToolResultBlock(first.Content[1].ID, "21 °C", false), anthropic.NewTextBlock("<system-reminder>Be brief.</system-reminder>"+thinkOfANumber)))
	params.Messages = slices.Clip(params.Messages)
	second, err := create(client, params)
	if err != nil {
		t.Fatal(err)
	}
	return messageText(second), first
}

func TestReasoning_Responses(t *testing.T) {
	eachThatReadsHistory(t, func(t *testing.T, p *penstock) {
		for _, w := range streamModes {
			t.Run(w.name, func(t *testing.T) {
				answer, first := p.numberByResponses(t, w.more != "", true)
				wantRemembered(t, answer, first, false)
				if answer, first := p.numberByResponses(t, w.more != "", false); answer != forgotten || strings.Contains(first, "rs_") {
					t.Errorf("without include: %q, %s", answer, first)
				}
			})
		}
	})
}

// numberByResponses runs the conversation on Responses, with or without sealed reasoning.
func (p *penstock) numberByResponses(t *testing.T, streamed, sealed bool) (answer, first string) {
	t.Helper()
	client := p.sdk()
	params := respond("")
	params.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: []responses.ResponseInputItemUnionParam{
		responses.ResponseInputItemParamOfMessage(thinkOfANumber, responses.EasyInputMessageRoleUser),
	}}
	params.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{
		Name: "weather", Parameters: map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}, Strict: param.NewOpt(false),
	}}}
	params.Reasoning = shared.ReasoningParam{Effort: "low"}
	if sealed {
		params.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	got := requestAnswer(t, &client, streamed, params)
	for _, item := range got.Output {
		switch item.Type {
		case "reasoning":
			if r := item.AsReasoning(); len(r.Summary) > 0 || len(r.Content) > 0 || !strings.HasPrefix(r.EncryptedContent, "pst1") {
				t.Errorf("reasoning is %s", item.RawJSON())
			}
			back := item.AsReasoning().ToParam()
			params.Input.OfInputItemList = append(params.Input.OfInputItemList, responses.ResponseInputItemUnionParam{OfReasoning: &back})
		case "function_call":
			back := item.AsFunctionCall().ToParam()
			out := responses.ResponseInputItemParamOfFunctionCallOutput("21 °C")
			out.OfFunctionCallOutput.CallID = param.NewOpt(item.CallID)
			params.Input.OfInputItemList = append(params.Input.OfInputItemList, responses.ResponseInputItemUnionParam{OfFunctionCall: &back}, out)
		}
	}
	return requestAnswer(t, &client, streamed, params).OutputText(), got.RawJSON()
}

// TestReasoning_Forgotten checks that a model with reasoning_history none receives no earlier
// reasoning, in every dialect.
func TestReasoning_Forgotten(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Model: "reasoning_history: none"})
	if answer, _ := p.numberByChat(t, "reasoning"); answer != forgotten {
		t.Errorf("answer by chat = %q, want %q", answer, forgotten)
	}
	for _, mode := range thinkingModes {
		answer, _ := p.numberByMessages(t, p.claude(mode.options...), mode.thinking, func(c *anthropic.Client, params anthropic.MessageNewParams) (*anthropic.Message, error) {
			return c.Messages.New(context.Background(), params)
		})
		if answer != forgotten {
			t.Errorf("answer by messages, %s = %q, want %q", mode.name, answer, forgotten)
		}
	}
	if answer, _ := p.numberByResponses(t, false, true); answer != forgotten {
		t.Errorf("answer by responses = %q, want %q", answer, forgotten)
	}
}

// TestReasoning_Keys checks sealed reasoning after a key rotation. The edge must open it as long as
// its sealing key is configured, but only for the same caller and model. If reasoning cannot be
// opened, it must be omitted and counted, and must not cause an error.
func TestReasoning_Keys(t *testing.T) {
	t.Parallel()
	const keyA, keyB = "a-key-that-seals-with-forty-characters-a", "a-key-that-seals-with-forty-characters-b"
	otherKey, otherHash, _ := auth.NewKey()
	with := func(keys string) rig.Setup {
		return rig.Setup{
			Engines: recordingEngine(), Top: "seal: { keys: [" + keys + "] }", Keys: `- { id: other, hash: "` + otherHash + `" }`,
			Models: "- { id: second, deployments: [{ upstream: up-0, served: sim }] }",
		}
	}
	p := start(t, with(keyA))
	body := func(model, blob string) string {
		return `{"model":"` + model + `","max_tokens":50,"thinking":{"type":"adaptive","display":"omitted"},"messages":[{"role":"user","content":"Hi"},` +
			`{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"` + blob + `"},{"type":"text","text":"a"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]}]}`
	}
	first := p.Post("/v1/messages", `{"model":"sim","max_tokens":50,"thinking":{"type":"adaptive","display":"omitted"},"messages":[{"role":"user","content":"Hi [[sim {\"secret\":true}]]"}]}`).WantStatus(200)
	var m struct {
		Content []struct{ Type, Signature string }
	}
	if err := json.Unmarshal([]byte(first.Body), &m); err != nil || m.Content[0].Type != "thinking" {
		t.Fatalf("first message = %s, %v; want a thinking block", first.Body, err)
	}
	blob := m.Content[0].Signature
	try := func(what, result, model, blob string, header ...string) {
		t.Helper()
		series := `result="` + result + `"`
		before := p.Metric("penstock_reasoning_seals_total", series)
		told := p.Post("/v1/messages", body(model, blob), header...).WantStatus(200).Header.Get("X-Penstock-Dropped")
		if want := map[bool]string{false: "block:thinking"}[result == "opened"]; told != want {
			t.Errorf("%s: %q is told to be left out, want %q", what, told, want)
		}
		if got := p.Metric("penstock_reasoning_seals_total", series) - before; got != 1 {
			t.Errorf("%s: %v more %s, want 1", what, got, result)
		}
		_, sent := p.lastRequest(0)
		if opened := strings.Contains(sent, "The number is"); opened != (result == "opened") {
			t.Errorf("%s: the engine was sent %s", what, sent)
		}
	}
	try("the same key", "opened", "sim", blob)
	try("another model", "forged", "second", blob)
	try("another client's key", "forged", "sim", blob, "Authorization: Bearer "+otherKey)
	try("a byte changed", "forged", "sim", blob[:60]+"AAAA"+blob[64:])
	try("cut", "forged", "sim", blob[:len(blob)-4])
	try("of another provider", "foreign", "sim", "EqQBCgIYAhIM1gbcDa9GJwZA2b3h")
	p.Reload(with(keyB + ", " + keyA))
	try("rotated", "opened", "sim", blob)
	p.Reload(with(keyB))
	try("rotated out", "stale", "sim", blob)
	if log := p.Log.String(); strings.Contains(log, blob[:40]) || strings.Contains(log, "a-key-that-seals") {
		t.Error("a key or a blob is in the log")
	}
}
