package messages

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"penstock/config/testkit/golden"
	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

func TestCountSegments(t *testing.T) {
	body := []byte(`{"stream":true,"tools":[{"type":"web_search_20250305","name":"SECRET"},{"name":"f","input_schema":{"z":1.0}}],"lora":["SECRET"],` +
		`"mod\u0065l":"public","system":[{"type":"text","text":"x-anthropic-billing-header: SECRET"},{"type":"text","text":"rules"}],"max_tokens":5,` +
		`"messages":[{"role":"user","content":"é\n"},{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"f","input":"{}"}]}],` +
		`"tool_choice":null,"mcp_servers":["SECRET"],"thinking":{"type":"disabled"}}`)
	var (
		r Request
		c chat.Request
	)
	if _, err := r.Decode(nil, body, &c, new(RequestInfo), dialects.Options{Count: true}); err != nil {
		t.Fatal(err)
	}
	got := bytes.Join(AppendCountSegments(nil, body, &chat.CountRequest{Served: `org/"served"`}), nil)
	want := `{"tools":[{"name":"f","input_schema":{"z":1.0}}],"mod\u0065l":"org/\"served\"","system":[{"type":"text","text":"rules"}],` +
		`"messages":[{"role":"user","content":"é\n"},{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"f","input":{}}]}],"thinking":{"type":"disabled"}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestCountSegments_History checks that a token counter receives the same text as an engine. Sealed
// thinking must be opened or removed.
func TestCountSegments_History(t *testing.T) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":[` +
		`{"type":"thinking","thinking":"","signature":"blob:open"},{"type":"redacted_thinking","data":"SECRET"},{"type":"server_tool_use","id":"SECRET"},` +
		`{"type":"compaction","content":"so far"},{"type":"compaction","content":null},{"type":"text","text":"b"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"web_search_tool_result","content":"SECRET"}]}]}]}`)
	if _, err := new(Request).Decode(nil, body, new(chat.Request), new(RequestInfo), dialects.Options{Count: true, Opener: fakeOpener{}}); err != nil {
		t.Fatal(err)
	}
	got := string(bytes.Join(AppendCountSegments(nil, body, &chat.CountRequest{Served: "s", Model: []byte("m"), Opener: fakeOpener{}}), nil))
	want := `{"model":"s","messages":[{"role":"user","content":"a"},{"role":"assistant","content":[` +
		`{"type":"thinking","thinking":"open","signature":"` + placeholderSignature + `"},{"type":"text","text":"so far"},{"type":"text","text":"b"}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":""}]}]}]}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestCountSegments_Archives runs the archives in testdata/count. The engine section says which
// parts of the reasoning history the model's engines receive.
func TestCountSegments_Archives(t *testing.T) {
	golden.RunArchives(t, "testdata/count", func(t *testing.T, ar *golden.Archive) {
		body := bytes.TrimSuffix(ar.Section("request"), []byte("\n"))
		var c chat.Request
		if _, err := new(Request).Decode(nil, body, &c, new(RequestInfo), dialects.Options{}); err != nil {
			t.Fatal(err)
		}
		out := bytes.Join(AppendCountSegments(nil, body, &chat.CountRequest{
			Served: "served", Model: c.Model, Opener: fakeOpener{}, ReasoningHistory: string(bytes.TrimSpace(ar.Section("engine"))),
		}), nil)
		if !json.Valid(out) || bytes.Contains(out, []byte("SECRET")) {
			t.Errorf("the counter is sent %s", out)
		}
		ar.SetSection("engine-request", out)
	})
}

// TestCountSegments_InputsStayInside checks that a tool call's input cannot add members to the
// engine's request.
func TestCountSegments_InputsStayInside(t *testing.T) {
	t.Parallel()
	input, _ := json.Marshal(`{"a":` + strings.Repeat("[", jsonx.DefaultMaxDepth) + strings.Repeat("]", jsonx.DefaultMaxDepth) +
		`}}]}],"priority":-9,"x":[{"content":[{"input":{}`)
	body := []byte(`{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[` +
		`{"type":"tool_use","id":"t","name":"f","input":` + string(input) + `}]},{"role":"user","content":"y"}]}`)
	var sent map[string]any
	if _, err := new(Request).Decode(nil, body, new(chat.Request), new(RequestInfo), dialects.Options{}); err != nil {
		t.Fatal(err)
	}
	counted := bytes.Join(AppendCountSegments(nil, body, &chat.CountRequest{Served: "m"}), nil)
	if err := json.Unmarshal(counted, &sent); err != nil || len(sent) != 2 || len(sent["messages"].([]any)) != 3 {
		t.Errorf("%v: the engine is sent %s", err, counted)
	}
}

func TestReadCount(t *testing.T) {
	for answer, want := range map[string]int{
		`{"input_tokens":12}`: 12, `{"input_tokens":0,"more":1}`: 0, `{"input_tokens":2147483648}`: 1 << 31, `{"input_tokens":2147483649}`: -1, `{"input_tokens":-2}`: -1, `{"input_tokens":"1"}`: -1,
		`{"input_tokens":1e99}`: -1, `{}`: -1, `[]`: -1, `{"input_tokens":1`: -1, ``: -1,
	} {
		n, ok := ReadCount([]byte(answer))
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%s: %d, want %d", answer, n, want)
		}
	}
	if got := string(AppendCount(nil, 7)); got != `{"input_tokens":7}` {
		t.Error(got)
	}
}
