package responses

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"penstock/translate/apierr"
	"penstock/translate/dialects"
	"penstock/translate/seal"
	"penstock/translate/sse"
)

// sentinel is text in the engine's reasoning that must never reach a client.
const sentinel = "HIDDEN"

var testBox = seal.NewKeys(strings.Repeat("k", 32)).NewBox("team-a", func(seal.Result) {}).WithModel("model")

const includeBody = `{"model":"model","input":"x","include":["reasoning.encrypted_content"]}`

// newSealingStream returns a stream for an answer with sealed reasoning.
func newSealingStream(t *testing.T) *Stream {
	t.Helper()
	s := newStream(t, []byte(includeBody))
	identity := testIdentity
	identity.Seal = testBox
	s.Reset(&identity)
	return s
}

const reasoningStream = `data: {"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"The number \u0037 is HID"}}]}

data: {"choices":[{"index":0,"delta":{"reasoning_content":"DEN."}}]}

data: {"choices":[{"index":0,"delta":{"content":"I have "}}]}

data: {"choices":[{"index":0,"delta":{"content":"one."}}]}

data: {"choices":[{"index":0,"delta":{"reasoning":"HIDDEN again"}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: [DONE]

`

func itemsOf(t *testing.T, response []byte) (items []map[string]any) {
	t.Helper()
	var r struct{ Output []map[string]any }
	if err := json.Unmarshal(response, &r); err != nil {
		t.Fatal(err)
	}
	return r.Output
}

// finalResponse returns the response object in a stream's last event.
func finalResponse(t *testing.T, stream []byte) []byte {
	t.Helper()
	var c checker
	events, _ := parseEvents(&c, stream)
	response, err := json.Marshal(events[len(events)-1].data["response"])
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// chatHistory returns the chat body for a request that sends the items of an answer back.
func chatHistory(t *testing.T, items []map[string]any) string {
	t.Helper()
	input := []any{map[string]any{"role": "user", "content": "x"}}
	for _, i := range items {
		input = append(input, i)
	}
	input = append(input, map[string]any{"type": "function_call_output", "call_id": "c", "output": "ok"})
	body, err := json.Marshal(map[string]any{"model": "model", "input": input})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := translateBody(body, dialects.Options{Opener: boxOpener{testBox}})
	if err != nil {
		t.Fatal(err)
	}
	return string(tr.body)
}

// boxOpener opens blobs with a box. It ignores the model's name.
type boxOpener struct{ seal.Box }

func (o boxOpener) OpenReasoning(dst, _, blob []byte) ([]byte, bool) { return o.Box.Open(dst, blob) }

// TestSealedReasoning checks that reasoning is an item without readable text, and that the engine
// receives it unchanged in the next request.
func TestSealedReasoning(t *testing.T) {
	t.Parallel()
	stream, failure := relay(newSealingStream(t), strings.NewReader(reasoningStream))
	if failure != nil {
		t.Fatal(failure)
	}
	checkEvents(t, stream, true)
	completion, err := assemble(strings.NewReader(reasoningStream), false)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := translateWhole(newSealingStream(t), completion)
	if err != nil {
		t.Fatal(err)
	}
	checkResponse(t, answer)
	for _, c := range []struct {
		way       string
		out       []byte
		types     string
		reasoning string // reasoning in the first message of the next request
	}{
		{"streamed", finalResponse(t, stream), "reasoning message reasoning function_call", `The number \u0037 is HIDDEN.HIDDEN again`},
		{"whole", answer, "reasoning message function_call", `The number \u0037 is HIDDEN.HIDDEN again`},
	} {
		var types []string
		items := itemsOf(t, c.out)
		for _, i := range items {
			types = append(types, i["type"].(string))
		}
		if got := strings.Join(types, " "); got != c.types {
			t.Errorf("%s: got the items %s, want %s", c.way, got, c.types)
		}
		if got := chatHistory(t, items); !strings.Contains(got, `"content":"I have one.","reasoning_content":"`+c.reasoning+`","tool_calls"`) {
			t.Errorf("%s: the engine gets %s", c.way, got)
		}
	}
}

// TestReasoningIsNeverReadable checks that no response contains the sentinel text.
func TestReasoningIsNeverReadable(t *testing.T) {
	t.Parallel()
	chunks := strings.SplitAfter(reasoningStream, "\n\n")
	requests := map[string]string{
		"plain":    `{"model":"model","input":"x"}`,
		"sealed":   includeBody,
		"logprobs": `{"model":"model","input":"x","top_logprobs":2,"include":["message.output_text.logprobs","reasoning.encrypted_content"]}`,
		"summary":  `{"model":"model","input":"x","reasoning":{"effort":"high","summary":"detailed"},"include":["reasoning.encrypted_content"]}`,
	}
	for name, request := range requests {
		for cut := range len(chunks) {
			for _, end := range []string{"", `data: {"error":{"message":"no","code":500}}` + "\n\n", `data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}` + "\n\n"} {
				s := newStream(t, []byte(request))
				identity := testIdentity
				identity.Seal = testBox
				s.Reset(&identity)
				src := strings.Join(chunks[:cut], "") + end
				out, _ := relay(s, strings.NewReader(src))
				if bytes.Contains(out, []byte(sentinel)) || bytes.Contains(out, []byte("DEN.")) || bytes.Contains(out, []byte("The number")) {
					t.Errorf("%s, cut at %d, end %q: the client reads %s", name, cut, end, out)
				}
				checkEvents(t, out, true)
				completion, err := assemble(strings.NewReader(src), false)
				if err != nil {
					continue
				}
				s.Reset(&identity)
				if out, err = translateWhole(s, completion); err != nil || bytes.Contains(out, []byte(sentinel)) || bytes.Contains(out, []byte("The number")) {
					t.Errorf("%s, whole, cut at %d: %v, %s", name, cut, err, out)
				}
			}
		}
	}
}

// TestReasoningFails checks that an item that is open when a stream fails has no blob.
func TestReasoningFails(t *testing.T) {
	t.Parallel()
	s := newSealingStream(t)
	out, err := s.Append(nil, sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{"reasoning":"HIDDEN"}}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	out = s.AppendFailure(out, apierr.InternalError(nil))
	checkEvents(t, out, true)
	items := itemsOf(t, finalResponse(t, out))
	if len(items) != 1 || items[0]["encrypted_content"] != nil || bytes.Contains(out, []byte(sentinel)) {
		t.Errorf("got %s, want one item without encrypted content", out)
	}
}

// TestLongReasoning checks that reasoning too long to be sealed is omitted and does not occupy
// memory.
func TestLongReasoning(t *testing.T) {
	t.Parallel()
	s := newSealingStream(t)
	piece := []byte(`{"choices":[{"index":0,"delta":{"reasoning":"` + strings.Repeat("r", 100_000) + `"}}]}`)
	var out []byte
	var err error
	for range 20 {
		if out, err = s.Append(out, sse.Event{Data: piece}); err != nil {
			t.Fatal(err)
		}
	}
	if s.BufferedBytes() <= seal.MaxText || s.BufferedBytes() > seal.MaxText+1 {
		t.Errorf("holds %d bytes", s.BufferedBytes())
	}
	if out, err = s.Append(out, sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`)}); err == nil {
		out, err = s.Finish(out)
	}
	if err != nil {
		t.Fatal(err)
	}
	checkEvents(t, out, true)
	if items := itemsOf(t, finalResponse(t, out)); len(items) != 2 || items[0]["encrypted_content"] != nil {
		t.Errorf("got %.500s, want two items without encrypted content", out)
	}
}
