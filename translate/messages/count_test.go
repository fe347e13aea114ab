package messages

import (
	"bytes"
	"testing"

	"penstock/translate/chat"
	"penstock/translate/dialects"
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
	got := bytes.Join(CountSegments(nil, body, &chat.NativeRequest{Served: `org/"served"`}), nil)
	want := `{"tools":[{"name":"f","input_schema":{"z":1.0}}],"mod\u0065l":"org/\"served\"","system":[{"type":"text","text":"rules"}],` +
		`"messages":[{"role":"user","content":"é\n"},{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"f","input":{}}]}],"thinking":{"type":"disabled"}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A counter counts what the engine would be sent: thinking opened or gone, and nothing sealed.
func TestCountSegments_History(t *testing.T) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":[` +
		`{"type":"thinking","thinking":"","signature":"blob:open"},{"type":"redacted_thinking","data":"SECRET"},{"type":"server_tool_use","id":"SECRET"},` +
		`{"type":"compaction","content":"so far"},{"type":"compaction","content":null},{"type":"text","text":"b"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"web_search_tool_result","content":"SECRET"}]}]}]}`)
	if _, err := new(Request).Decode(nil, body, new(chat.Request), new(RequestInfo), dialects.Options{Count: true, Opener: fakeOpener{}}); err != nil {
		t.Fatal(err)
	}
	got := string(bytes.Join(CountSegments(nil, body, &chat.NativeRequest{Served: "s", Model: []byte("m"), Opener: fakeOpener{}}), nil))
	want := `{"model":"s","messages":[{"role":"user","content":"a"},{"role":"assistant","content":[` +
		`{"type":"thinking","thinking":"open","signature":"` + signature + `"},{"type":"text","text":"so far"},{"type":"text","text":"b"}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":""}]}]}]}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
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
