package chat

import (
	"bytes"
	"strings"
	"testing"

	"penstock/translate/jsonx"
)

// TestHalfSurrogatesInHistory checks that lone surrogates in message texts are replaced. Otherwise,
// one bad response of an engine would make every later request of the conversation fail. Lone
// surrogates anywhere else must be rejected. A strict edge must always reject them.
func TestHalfSurrogatesInHistory(t *testing.T) {
	const half = `\ud83d`
	history := `{"model":"m","messages":[{"role":"user","content":"a` + half + `b"},{"role":"user","content":[{"type":"text","text":"\ude00"}]},` +
		`{"role":"assistant","content":"\ud83d\ude00","reasoning_content":"` + half + `","tool_calls":[{"id":"i` + half + `","type":"function",` +
		`"function":{"name":"f","arguments":"{\"x\":\"` + half + `\"}"}}]},{"role":"tool","tool_call_id":"i` + half + `","content":"` + half + `"}]}`
	var r Request
	if err := r.Decode([]byte(history)); err == nil {
		t.Error("Decode takes it")
	}
	if err := r.DecodeWithRepair([]byte(history)); err != nil {
		t.Fatal(err)
	}
	got := r.AppendEngineRequest(nil, &EngineFormat{Served: "m"})
	want := strings.ReplaceAll(strings.ReplaceAll(history, half, `\ufffd`), `"\ude00"`, `"\ufffd"`)
	want = strings.ReplaceAll(want, `\ufffd\ude00`, `\ud83d\ude00`)
	if !bytes.Equal(got, []byte(want)) {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	input := `{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"f","input":{"` + half + `":{"name":"` + half + `","x":1}}}]}]}`
	var d jsonx.Doc
	if body := []byte(input); ParseWithRepair(&d, body, parseOptions, "messages") != nil || string(body) != strings.ReplaceAll(input, half, `\ufffd`) {
		t.Errorf("input of a tool call: %s", body)
	}

	const message = `"messages":[{"role":"user","content":"x"}]`
	for name, body := range map[string]string{
		"model":        `{"model":"` + half + `",` + message + `}`,
		"user":         `{"model":"m","user":"` + half + `",` + message + `}`,
		"key":          `{"model":"m","messages":[{"role":"user","content":"x","` + half + `":1}]}`,
		"name":         `{"model":"m","messages":[{"role":"user","content":"x","name":"` + half + `"}]}`,
		"function":     `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"i","type":"function","function":{"name":"` + half + `","arguments":""}}]}]}`,
		"schema":       `{"model":"m",` + message + `,"tools":[{"type":"function","function":{"name":"f","parameters":{"a":"` + half + `"}}}]}`,
		"invalid JSON": `{"model":"m","messages":[{"role":"user","content":"` + half + `"}`,
	} {
		if err := r.DecodeWithRepair([]byte(body)); err == nil || !strings.Contains(err.Error(), "invalid_json") {
			t.Errorf("%s: DecodeWithRepair = %v, want invalid_json", name, err)
		}
	}
}

// TestArgumentsInHistory checks that every dialect turns arguments into a JSON object. Engines
// reject any other arguments in a history, so all later requests of the conversation would fail.
func TestArgumentsInHistory(t *testing.T) {
	for arguments, want := range map[string]string{
		`""`: `"{}"`, `" \n"`: `"{}"`, `"{}"`: `"{}"`, `" {} "`: `" {} "`, `"{\"a\":[1]}"`: `"{\"a\":[1]}"`,
		`"{"`:            `"{\"malformed_arguments\":\"{\"}"`,
		`"{\"a\":1"`:     `"{\"malformed_arguments\":\"{\\\"a\\\":1\"}"`,
		`"nope"`:         `"{\"malformed_arguments\":\"nope\"}"`,
		`"[1]"`:          `"{\"malformed_arguments\":\"[1]\"}"`,
		`"null"`:         `"{\"malformed_arguments\":\"null\"}"`,
		`"\"str\""`:      `"{\"malformed_arguments\":\"\\\"str\\\"\"}"`,
		`"{}{\"b\":1}"`:  `"{\"malformed_arguments\":\"{}{\\\"b\\\":1}\"}"`,
		`"{\"\\\\ud83d"`: `"{\"malformed_arguments\":\"{\\\"\\\\\\\\ud83d\"}"`,
		// The escapes within the arguments contain halves of surrogate pairs.
		`"{\"b\":\"\\ud83d\"}"`:                   `"{\"b\":\"\\ufffd\"}"`,
		`"{\"\\ude00\":\"\\ud83d\\ude00 \\\\\"}"`: `"{\"\\ufffd\":\"\\ud83d\\ude00 \\\\\"}"`,
		`"{\"b\":\"\u005cud83d\"}"`:               `"{\"b\":\"\\ufffd\"}"`,
	} {
		body := `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[` +
			`{"id":"i","type":"function","function":{"name":"f","arguments":` + arguments + `}},` +
			`{"id":"j","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`
		var r Request
		if err := r.Decode([]byte(body)); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a request may be sent more than once
			got := string(r.AppendEngineRequest(nil, &EngineFormat{Served: "m"}))
			if want := strings.Replace(body, `"arguments":`+arguments, `"arguments":`+want, 1); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
	}
}

// TestAnyTool checks that Mistral's tool_choice any is replaced with the word that engines
// recognize. A strict edge rejects it.
func TestAnyTool(t *testing.T) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"any"}`)
	var r Request
	if err := r.Decode(body); err != nil {
		t.Fatal(err)
	}
	if err := r.CheckRules(&ModelRules{}); err != nil {
		t.Error(err)
	}
	if out := r.AppendEngineRequest(nil, &EngineFormat{Served: "m"}); !bytes.Contains(out, []byte(`"tool_choice":"required"`)) {
		t.Errorf("sent %s, want the tool_choice required", out)
	}
	if err := r.CheckRules(&ModelRules{Strict: true}); err == nil {
		t.Error("a strict edge takes it")
	}
}

// TestAllowedTools checks that engines receive only the allowed tools, and the mode as tool_choice.
// Engines do not support lists of allowed tools.
func TestAllowedTools(t *testing.T) {
	tool := func(name string) string {
		return `{"type":"function","function":{"name":"` + name + `","parameters":{"type":"object"}}}`
	}
	for _, c := range []struct{ choice, tools, want string }{
		{`{"mode":"auto","tools":[{"type":"function","function":{"name":"b"}}]}`, tool("b"), "auto"},
		{`{"tools":[{"type":"function","function":{"name":"c"}},{"type":"function","function":{"name":"\u0061"}}]}`, tool("a") + "," + tool("c"), "auto"},
		{`{"mode":"required","tools":[{"type":"function","function":{"name":"a"}}]}`, tool("a"), "required"},
		{`{"mode":"none","tools":[{"type":"function","function":{"name":"c"}}]}`, tool("c"), "none"},
	} {
		const head = `{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[`
		body := head + tool("a") + "," + tool("b") + "," + tool("c") + `],"tool_choice":{"type":"allowed_tools","allowed_tools":` + c.choice + `}}`
		var r Request
		if err := r.Decode([]byte(body)); err != nil {
			t.Fatal(err)
		}
		if got, want := string(r.AppendEngineRequest(nil, &EngineFormat{Served: "m"})), head+c.tools+`],"tool_choice":"`+c.want+`"}`; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
