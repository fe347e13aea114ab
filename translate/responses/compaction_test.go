package responses

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/seal"
)

// keyOpener opens an owner's blobs for any model.
type keyOpener struct{ box seal.Box }

func (b keyOpener) OpenReasoning(dst, model, blob []byte) ([]byte, bool) {
	return b.box.WithModel(string(model)).Open(dst, blob)
}

// newSummaryStream returns the stream of a summary, which is requested either by an item in body or
// by the endpoint.
func newSummaryStream(t *testing.T, body string, o dialects.Options) *Stream {
	t.Helper()
	o.MayCompact = true
	tr, err := translateBody([]byte(body), o)
	if err != nil {
		t.Fatal(err)
	}
	identity := testIdentity
	identity.Seal = testBox
	tr.answer.Reset(&identity)
	return &tr.answer
}

const compactionBody = `{"model":"model","stream":true,"include":["reasoning.encrypted_content"],"input":[{"role":"user","content":"x"},{"type":"compaction_trigger"}]}`

// summaryStream returns an engine's stream with the given text and finish_reason.
func summaryStream(text, reason string) string {
	var b strings.Builder
	for _, delta := range []string{`{"role":"assistant","reasoning_content":"HIDDEN"}`, `{"content":"` + text[:len(text)/2] + `"}`, `{"content":"` + text[len(text)/2:] + `"}`} {
		b.WriteString(`data: {"choices":[{"index":0,"delta":` + delta + `}]}` + "\n\n")
	}
	return b.String() + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}` + "\n\ndata: [DONE]\n\n"
}

const summaryText = `The HIDDEN number is 42.`

// TestCompaction checks that the text of a summary never appears in a response. It also checks that
// the item can be opened in the next turn, even with another model, but not for another owner.
func TestCompaction(t *testing.T) {
	stream := newSummaryStream(t, compactionBody, dialects.Options{})
	half := []byte(summaryStream(summaryText, "stop"))
	out, err := relay(stream, bytes.NewReader(half))
	if err != nil {
		t.Fatal(err)
	}
	alive := newSummaryStream(t, compactionBody, dialects.Options{})
	cut := bytes.Index(half, []byte(`data: {"choices":[{"index":0,"delta":{},"finish`))
	begun, _ := relay(alive, bytes.NewReader(half[:cut]))
	completion, err := assemble(strings.NewReader(summaryStream(summaryText, "stop")), true)
	if err != nil {
		t.Fatal(err)
	}
	inBand, err := translateWhole(newSummaryStream(t, compactionBody, dialects.Options{}), completion)
	if err != nil {
		t.Fatal(err)
	}
	var c answer.ChatCompletion
	if err := c.Parse(completion); err != nil {
		t.Fatal(err)
	}
	compacted, err := newSummaryStream(t, `{"model":"model","input":"x"}`, dialects.Options{Compact: true}).AppendCompaction(nil, &c)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range [][]byte{out, begun, alive.AppendKeepalive(nil), inBand, compacted} {
		if bytes.Contains(out, []byte(sentinel)) {
			t.Errorf("the summary is shown: %s", out)
		}
	}
	var object struct {
		ID, Object string
		Usage      map[string]any
	}
	if err := json.Unmarshal(compacted, &object); err != nil || object.Object != "response.compaction" || object.ID != "resp_0123456789" || object.Usage["output_tokens"] != 4.0 {
		t.Errorf("error %v, want a response.compaction with 4 output tokens: %s", err, compacted)
	}
	for name, response := range map[string][]byte{"stream": finalResponse(t, out), "whole": inBand, "compact": compacted} {
		items := itemsOf(t, response)
		if len(items) != 1 || items[0]["type"] != "compaction" {
			t.Fatalf("%s: error %v, want one compaction item: %v", name, err, items)
		}
		next, err := json.Marshal(map[string]any{"model": "other", "input": []any{items[0], map[string]any{"role": "user", "content": "?"}}})
		if err != nil {
			t.Fatal(err)
		}
		tr, err := translateBody(next, dialects.Options{Opener: keyOpener{testBox}})
		if err != nil || !strings.Contains(string(tr.body), summaryText) {
			t.Errorf("%s: error %v, want the summary in %s", name, err, tr.body)
		}
		stranger := seal.NewKeys(strings.Repeat("k", 32)).NewBox("team-b", func(seal.Result) {})
		if _, err = translateBody(next, dialects.Options{Opener: keyOpener{stranger}}); err == nil || !strings.Contains(err.Error(), "compaction") {
			t.Errorf("%s: another key reads it: %v", name, err)
		}
	}
}

// TestCompaction_NotASummary checks that an answer that is not a complete summary counts as an
// engine failure, because the client will discard the conversation.
func TestCompaction_NotASummary(t *testing.T) {
	toolCall := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}` + "\n\n" +
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"
	for name, upstream := range map[string]string{
		"cut": summaryStream(summaryText, "length"), "filtered": summaryStream(summaryText, "content_filter"),
		"empty": summaryStream("", "stop"), "blank": summaryStream("  ", "stop"), "a tool call": toolCall,
		"too long": summaryStream(strings.Repeat("a", seal.MaxText+1), "stop"),
	} {
		out, err := relay(newSummaryStream(t, compactionBody, dialects.Options{}), strings.NewReader(upstream))
		if bad := (*translate.BadAnswerError)(nil); !errors.As(err, &bad) {
			t.Errorf("%s, streamed: got %v, want a BadAnswerError", name, err)
		}
		if bytes.Contains(out, []byte("response.completed")) || bytes.Contains(out, []byte(sentinel)) {
			t.Errorf("%s: the stream completed or shows the summary: %.300s", name, out)
		}
		completion, err := assemble(strings.NewReader(upstream), true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = translateWhole(newSummaryStream(t, compactionBody, dialects.Options{}), completion); err == nil {
			t.Errorf("%s passes as a whole", name)
		}
	}
}

// TestCompaction_PrefixStays checks that the conversation in a request for a summary has the same
// bytes as in the previous turn. The engine can then find these bytes in its cache.
func TestCompaction_PrefixStays(t *testing.T) {
	const talk = `{"model":"model","tools":[{"type":"function","name":"f"}],"input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}`
	messages := func(body string) (list, tools string) {
		var c chat.Request
		var r Request
		if _, err := r.Decode(nil, []byte(body), &c, new(RequestInfo), dialects.Options{MayCompact: true}); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSuffix(string(c.Messages().Raw()), "]"), string(c.Tools().Raw())
	}
	turn, tools := messages(talk + `]}`)
	compacted, sameTools := messages(talk + `,{"type":"compaction_trigger"}]}`)
	if !strings.HasPrefix(compacted, turn) || tools != sameTools {
		t.Errorf("%s %s is not the beginning of %s %s", turn, tools, compacted, sameTools)
	}
}
