package messages

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/seal"
	"penstock/translate/sse"
)

// reasoningChunks is an answer that consists of reasoning in pieces, a tool call, and more
// reasoning.
var reasoningChunks = []string{
	`{"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"The number \u0037 "}}]}`,
	`{"choices":[{"index":0,"delta":{"reasoning_content":"is SECRET."}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"I have one."}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}`,
	`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
	`[DONE]`,
}

const reasoningCompletion = `{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"I have one.",` +
	`"reasoning":"The number \u0037 is SECRET.","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}`

var testBox = seal.NewKeys(strings.Repeat("k", 32)).NewBox("team-a", func(seal.Result) {}).WithModel("public")

// decodeRequest decodes a request with the given members and returns the echo for the answer.
func decodeRequest(t *testing.T, more string, redact bool) (e *echo) {
	t.Helper()
	e = &echo{RequestInfo{}, dialects.AnswerIdentity{Model: "public", ID: "msg_1", Seal: testBox}}
	var r Request
	var c chat.Request
	body := []byte(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]` + more + `}`)
	if _, err := r.Decode(nil, body, &c, &e.RequestInfo, dialects.Options{RedactThinking: redact}); err != nil {
		t.Fatal(err)
	}
	return e
}

func streamChunks(t *testing.T, e *echo, chunks ...string) []byte {
	t.Helper()
	var s Stream
	e.reset(&s)
	var out []byte
	for _, c := range chunks {
		var err error
		if out, err = s.Append(out, sse.Event{Data: []byte(c)}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := s.Finish(out)
	if err != nil {
		t.Fatal(err)
	}
	if !checkGrammar(t, out) {
		t.Errorf("no good end: %s", out)
	}
	return out
}

func blocksOf(t *testing.T, whole []byte) []map[string]any {
	t.Helper()
	var m struct{ Content []map[string]any }
	if err := json.Unmarshal(whole, &m); err != nil {
		t.Fatalf("Unmarshal = %v, want success: %s", err, whole)
	}
	return m.Content
}

// TestSealedThinking checks that thinking that the client must not read is sealed in its block, and
// that the engine receives the original reasoning in the next request.
func TestSealedThinking(t *testing.T) {
	for _, c := range []struct {
		name, more, block string
		redact            bool
	}{
		{"omitted", `,"thinking":{"type":"enabled","budget_tokens":9,"display":"omitted"}`, "thinking", false},
		{"omitted in spite of the beta", `,"thinking":{"type":"adaptive","display":"omitted"}`, "thinking", true},
		{"redacted", `,"thinking":{"type":"adaptive"}`, "redacted_thinking", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := decodeRequest(t, c.more, c.redact)
			whole, err := translateAnswer(e, []byte(reasoningCompletion))
			if err != nil {
				t.Fatal(err)
			}
			events := streamChunks(t, e, reasoningChunks...)
			for way, out := range map[string][]byte{"whole": whole, "streamed": collect(t, events)} {
				blocks := blocksOf(t, out)
				if len(blocks) != 3 || blocks[0]["type"] != c.block || bytes.Contains(events, []byte("SECRET")) || bytes.Contains(out, []byte("SECRET")) {
					t.Fatalf("%s: got %s, want three blocks, %s first, without the secret:\n%s", way, out, c.block, events)
				}
				if c.block == "thinking" && blocks[0]["thinking"] != "" {
					t.Errorf("%s: got the thinking %q, want none", way, blocks[0]["thinking"])
				}
				history, err := json.Marshal(map[string]any{"model": "m", "max_tokens": 9, "messages": []any{
					map[string]any{"role": "user", "content": "x"},
					map[string]any{"role": "assistant", "content": blocks},
					map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": "c", "content": "ok"}}},
				}})
				if err != nil {
					t.Fatal(err)
				}
				var r Request
				var q chat.Request
				chatBody, err := r.Decode(nil, history, &q, new(RequestInfo), dialects.Options{Opener: boxOpener{testBox}})
				if err != nil || !bytes.Contains(chatBody, []byte(`"content":"I have one.","reasoning_content":"The number \u0037 is SECRET.","tool_calls"`)) {
					t.Errorf("%s: %v, the engine gets %s", way, err, chatBody)
				}
			}
		})
	}
}

// boxOpener opens blobs with a box. It ignores the model's name.
type boxOpener struct{ seal.Box }

func (o boxOpener) OpenReasoning(dst, _, blob []byte) ([]byte, bool) { return o.Box.Open(dst, blob) }

// TestThinkingIsShownOnRequest checks that only clients that request thinking receive it as text.
// The beta that redacts thinking does not change this.
func TestThinkingIsShownOnRequest(t *testing.T) {
	for more, blocks := range map[string]int{
		``: 2, `,"thinking":{"type":"disabled"}`: 2, `,"thinking":{"type":"adaptive","display":"summarized"}`: 3,
	} {
		e := decodeRequest(t, more, true)
		whole, err := translateAnswer(e, []byte(reasoningCompletion))
		if err != nil {
			t.Fatal(err)
		}
		for _, out := range [][]byte{whole, collect(t, streamChunks(t, e, reasoningChunks...))} {
			if got := blocksOf(t, out); len(got) != blocks || bytes.Contains(out, []byte("SECRET")) != (blocks == 3) {
				t.Errorf("%s: got %s, want %d blocks", more, out, blocks)
			}
		}
	}
}

// TestLongThinking checks that a thinking block that is too long to be sealed is omitted and does
// not occupy memory.
func TestLongThinking(t *testing.T) {
	piece := `{"choices":[{"index":0,"delta":{"reasoning":"` + strings.Repeat("r", 100_000) + `"}}]}`
	for _, redact := range []bool{false, true} {
		more := `,"thinking":{"type":"adaptive"}`
		if !redact {
			more = `,"thinking":{"type":"adaptive","display":"omitted"}`
		}
		e := decodeRequest(t, more, redact)
		var s Stream
		e.reset(&s)
		for range 20 {
			if _, err := s.Append(nil, sse.Event{Data: []byte(piece)}); err != nil {
				t.Fatal(err)
			}
		}
		if s.BufferedBytes() < seal.MaxText || s.BufferedBytes() > 2*seal.MaxText {
			t.Errorf("holds %d bytes", s.BufferedBytes())
		}
		out := collect(t, streamChunks(t, e, piece, piece, piece, `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`))
		blocks := blocksOf(t, out)
		if redact && len(blocks) != 1 || !redact && (len(blocks) != 2 || blocks[0]["signature"] != placeholderSignature) {
			t.Errorf("redact %t: got the wrong blocks: %.300s", redact, out)
		}
	}
}

// TestSealedThinkingBetween checks that thinking after text is a separate block at the right
// position.
func TestSealedThinkingBetween(t *testing.T) {
	e := decodeRequest(t, `,"thinking":{"type":"adaptive","display":"omitted"}`, false)
	out := streamChunks(t, e, `{"choices":[{"index":0,"delta":{"content":"a"}}]}`, `{"choices":[{"index":0,"delta":{"reasoning":"b"}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"c"}}]}`, `{"choices":[{"index":0,"delta":{"reasoning":"d"},"finish_reason":"stop"}]}`)
	var kinds []string
	for _, b := range blocksOf(t, collect(t, out)) {
		kinds = append(kinds, b["type"].(string))
		if blob, sealed := b["signature"].(string); sealed {
			text, ok := testBox.Open(nil, []byte(blob))
			kinds = append(kinds, string(text))
			if !ok {
				t.Errorf("%q does not open", blob)
			}
		}
	}
	if got := strings.Join(kinds, " "); got != "text thinking b text thinking d" {
		t.Errorf("the blocks are %s, want text, thinking b, text and thinking d: %s", got, out)
	}
}

// TestSealedThinkingNotStarted checks that a stream counts as not started while it only collects
// thinking to be sealed, so that another engine can start the answer again.
func TestSealedThinkingNotStarted(t *testing.T) {
	e := decodeRequest(t, `,"thinking":{"type":"adaptive"}`, true)
	var s Stream
	e.reset(&s)
	out, err := s.Append(nil, sse.Event{Data: []byte(reasoningChunks[0])})
	if err != nil || s.HasStarted() {
		t.Fatalf("error %v, started %t, want neither: %s", err, s.HasStarted(), out)
	}
	s.PrepareForNextEngine()
	for _, c := range reasoningChunks[1:] {
		if out, err = s.Append(out, sse.Event{Data: []byte(c)}); err != nil {
			t.Fatal(err)
		}
	}
	if out, err = s.Finish(out); err != nil || !checkGrammar(t, out) {
		t.Fatal(err)
	}
	blob, _ := blocksOf(t, collect(t, out))[0]["data"].(string)
	if text, _ := testBox.Open(nil, []byte(blob)); string(text) != "is SECRET." {
		t.Errorf("the thinking of both engines: %q", text)
	}
}

// TestAppliedEdits checks that the end of the answer reports the edits that the client requested,
// even if they cleared no thinking.
func TestAppliedEdits(t *testing.T) {
	t.Parallel()
	const history = `"messages":[{"role":"user","content":"a"},` +
		`{"role":"assistant","content":[{"type":"thinking","thinking":"12345678","signature":"s"},{"type":"tool_use","id":"t","name":"f","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]},` +
		`{"role":"assistant","content":[{"type":"redacted_thinking","data":"1234"},{"type":"text","text":"b"}]},{"role":"user","content":"c"},` +
		`{"role":"assistant","content":"no thought"},{"role":"user","content":"d"},` +
		`{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"1234"},{"type":"text","text":"e"}]},{"role":"user","content":"f"}]`
	const chunk = `{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`
	const none = "[]"
	for edit, want := range map[string]string{
		``:                                     "",
		`,"context_management":null`:           "",
		`,"context_management":{}`:             none,
		`,"context_management":{"edits":null}`: none,
		`,"context_management":{"edits":[]}`:   none,
		`,"context_management":{"edits":[{"type":"clear_tool_uses_20250919","clear_tool_inputs":["f"],"trigger":{"type":"input_tokens","value":1}}]}`: none,
		`,"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}`:                                                           none,
		`,"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":9}}]}`:                             none,
		`,"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":1}}]}`:                             `"cleared_thinking_turns":1,"cleared_input_tokens":3`,
		`,"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":2}}]}`:                             `"cleared_thinking_turns":1,"cleared_input_tokens":3`,
		`,"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":1}},{"type":"odd"}]}`:              `"cleared_thinking_turns":1,"cleared_input_tokens":3`,
	} {
		var s Stream
		body := `{"model":"m","max_tokens":9,` + history + edit + `}`
		if _, err := new(Request).Decode(nil, []byte(body), new(chat.Request), &s.RequestInfo, dialects.Options{}); err != nil {
			t.Fatal(err)
		}
		switch want {
		case "":
		case none:
			want = `,"context_management":{"applied_edits":[]}`
		default:
			want = `,"context_management":{"applied_edits":[{"type":"clear_thinking_20251015",` + want + `}]}`
		}
		info := s.RequestInfo
		s.Reset(&dialects.AnswerIdentity{Model: "m", ID: "msg_1"})
		out, err := s.Append(nil, sse.Event{Data: []byte(chunk)})
		if err == nil {
			out, err = s.Finish(out)
		}
		_, end, _ := strings.Cut(string(out), `"output_tokens":1}`)
		if err != nil || !strings.HasPrefix(end, want+"}\n\n") || want == "" && strings.Contains(end, "context_management") {
			t.Errorf("%s: error %v, want the end %s:\n%s", edit, err, want, out)
		}
		s.RequestInfo = info
		s.Reset(&dialects.AnswerIdentity{Model: "m", ID: "msg_1"})
		var c answer.ChatCompletion
		if err = c.Parse([]byte(strings.Replace(chunk, "delta", "message", 1))); err == nil {
			out, err = s.AppendCompletion(nil, &c)
		}
		if err != nil || !strings.HasSuffix(string(out), `"output_tokens":1}`+want+`}`) {
			t.Errorf("%s: error %v, want the end %s:\n%s", edit, err, want, out)
		}
	}
}

func translateAnswer(e *echo, completion []byte) ([]byte, error) {
	var c answer.ChatCompletion
	if err := c.Parse(completion); err != nil {
		return nil, err
	}
	return appendWhole(nil, &c, e)
}
