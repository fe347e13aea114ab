package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestJoinTurns checks how consecutive messages with the same role are joined.
func TestJoinTurns(t *testing.T) {
	const reasons = `{"role":"assistant","reasoning_content":"so","content":"x"}`
	for _, c := range []struct{ name, messages, want string }{
		{
			"texts", `[{"role":"user","content":"a"},{"content":"b","role":"user"}]`,
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
		},
		{
			"between others", `[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"user","content":"b"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]`,
			`[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]`,
		},
		{
			"parts and texts", `[{"role":"user","content":[{"type":"text","text":"a"}, {"type":"image_url","image_url":"https://a.b/c.png"} ]},{"role":"user","content":"b"},{"role":"user","content":[{"type":"text","text":"c"}]}]`,
			`[{"role":"user","content":[{"type":"text","text":"a"}, {"type":"image_url","image_url":{"url":"https://a.b/c.png"}},{"type":"text","text":"b"},{"type":"text","text":"c"}]}]`,
		},
		{
			"developer and system", `[{"role":"developer","content":"a"},{"role":"developer","content":"b"},{"role":"user","content":"c"},{"role":"user","content":"d"}]`,
			`[{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":[{"type":"text","text":"c"},{"type":"text","text":"d"}]}]`,
		},
		{
			"nothing said", `[{"role":"user","content":""},{"role":"user","content":"b"},{"role":"user"},{"role":"user","content":null}]`,
			`[{"role":"user","content":[{"type":"text","text":"b"}]}]`,
		},
		{"nothing said at all", `[{"role":"user","content":""},{"role":"user"}]`, `[{"role":"user","content":""}]`},
		{
			"results of tools", `[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"x"},{"role":"tool","tool_call_id":"1","content":"y"},{"role":"user","content":"b"},{"role":"user","content":"c"}]`,
			`[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"x"},{"role":"tool","tool_call_id":"1","content":"y"},{"role":"user","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]}]`,
		},
		{
			"tool calls stay", `[{"role":"assistant","content":"a"},{"role":"assistant","content":"b","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}]`,
			`[{"role":"assistant","content":"a"},{"role":"assistant","content":"b","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}]`,
		},
		{"reasoning stays", `[{"role":"assistant","content":"a"},` + reasons + `]`, `[{"role":"assistant","content":"a"},` + reasons + `]`},
		{"names stay", `[{"role":"user","name":"ann","content":"a"},{"role":"user","content":"b"}]`, `[{"role":"user","name":"ann","content":"a"},{"role":"user","content":"b"}]`},
		{
			"a refusal", `[{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},{"role":"assistant","content":"b"}]`,
			`[{"role":"assistant","content":[{"type":"text","text":"no"},{"type":"text","text":"b"}]}]`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := sentMessages(t, c.messages, &EngineFormat{Served: "m", JoinTurns: true}); got != c.want {
				t.Errorf("%s\nbecomes\n%s\nnot\n%s", c.messages, got, c.want)
			}
			if strings.Contains(c.messages, "image_url") || strings.Contains(c.messages, "refusal") {
				return // joinRun always rewrites such messages
			}
			if got := sentMessages(t, c.messages, &EngineFormat{Served: "m"}); got != c.messages {
				t.Errorf("without being asked to, %s becomes %s", c.messages, got)
			}
		})
	}
	for messages, want := range map[string]string{
		`[{"role":"developer","content":"a"},{"role":"developer","content":"b"}]`: `[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
		`[{"role":"system","content":"a"},{"role":"developer","content":"b"}]`:    `[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
	} {
		format := &EngineFormat{Served: "m", JoinTurns: true, DeveloperAsSystem: true, NullContent: NullEmpty}
		if got := sentMessages(t, messages, format); got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
	}
}

// sentMessages returns the messages for an engine with the given format.
func sentMessages(t testing.TB, messages string, format *EngineFormat) string {
	t.Helper()
	var r Request
	if err := r.Decode([]byte(`{"model":"m","messages":` + messages + `}`)); err != nil {
		t.Fatal(err)
	}
	out := string(r.AppendEngineRequest(nil, format))
	var sent struct{ Messages json.RawMessage }
	if err := json.Unmarshal([]byte(out), &sent); err != nil {
		t.Fatalf("Unmarshal = %v, want success: %s", err, out)
	}
	return string(sent.Messages)
}

// TestJoinTurns_Property checks that an engine receives the same texts in the same order, and no
// two adjacent messages that could be joined. It also checks that all bytes before the last turn
// stay the same while a conversation grows.
func TestJoinTurns_Property(t *testing.T) {
	roles := rapid.SampledFrom([]string{"system", "developer", "user", "assistant", "tool"})
	rapid.Check(t, func(t *rapid.T) {
		var all []string
		var texts []string
		for i := range rapid.IntRange(1, 8).Draw(t, "messages") {
			text := fmt.Sprint("t", i)
			content := rapid.SampledFrom([]string{`"` + text + `"`, `[{"type":"text","text":"` + text + `"}]`, `[ {"type":"text","text":"` + text + `"} ]`, `""`, `null`}).Draw(t, "content")
			role := roles.Draw(t, "role")
			m := fmt.Sprintf(`{"role":%q,"content":%s}`, role, content)
			if rapid.Bool().Draw(t, "content first") {
				m = fmt.Sprintf(`{"content":%s , "role":%q,"x":1}`, content, role)
			}
			all = append(all, m)
			if strings.Contains(content, text) {
				texts = append(texts, text)
			}
		}
		format := &EngineFormat{Served: "m", JoinTurns: true, DeveloperAsSystem: rapid.Bool().Draw(t, "as system")}
		send := func(messages []string) (sent []map[string]any) {
			var r Request
			if err := r.Decode([]byte(`{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`)); err != nil {
				t.Fatal(err)
			}
			var body struct{ Messages []map[string]any }
			out := r.AppendEngineRequest(nil, format)
			if err := json.Unmarshal(out, &body); err != nil {
				t.Fatalf("Unmarshal = %v, want success: %s", err, out)
			}
			return body.Messages
		}
		whole := send(all)
		var got []string
		last := ""
		for _, m := range whole {
			role, _ := m["role"].(string)
			if role == "developer" {
				role = "system"
			}
			said := len(got)
			switch content := m["content"].(type) {
			case string:
				if content != "" {
					got = append(got, content)
				}
			case []any:
				for _, part := range content {
					got = append(got, part.(map[string]any)["text"].(string))
				}
			}
			if role == last && role != "tool" && len(got) > said {
				t.Fatalf("two of %s in a row: %v", role, whole)
			}
			last = role
		}
		if !slices.Equal(got, texts) {
			t.Fatalf("%v became %v, want the same texts", texts, got)
		}
		cut := rapid.IntRange(1, len(all)).Draw(t, "earlier turn")
		for i, m := range send(all[:cut]) {
			if i < len(send(all[:cut]))-1 && fmt.Sprint(m) != fmt.Sprint(whole[i]) {
				t.Fatalf("message %d of an earlier turn was %v and is %v", i, m, whole[i])
			}
		}
	})
}

// TestToolChoiceForms checks tools and tool_choice for engines that do not read every kind of
// tool_choice.
func TestToolChoiceForms(t *testing.T) {
	tool := func(name string) string { return `{"type":"function","function":{"name":"` + name + `"}}` }
	const named = `{"type":"function","function":{"name":"f"}}`
	both := "[" + tool("f") + "," + tool("g") + "]"
	for _, c := range []struct {
		choice string
		form   ToolChoiceForm
		want   string
	}{
		{named, ToolChoiceAsSent, `"tools":` + both + `,"tool_choice":` + named},
		{named, ToolChoiceWords, `"tools":[` + tool("f") + `],"tool_choice":"required"`},
		{named, ToolChoiceIgnored, `"tools":[` + tool("f") + `],"tool_choice":"required"`},
		{strings.Replace(named, "f\"}", "absent\"}", 1), ToolChoiceWords, `"tools":` + both + `,"tool_choice":` + strings.Replace(named, "f\"}", "absent\"}", 1)},
		{`"none"`, ToolChoiceAsSent, `"tools":` + both + `,"tool_choice":"none"`},
		{`"none"`, ToolChoiceWords, `"tools":` + both + `,"tool_choice":"none"`},
		{`"none"`, ToolChoiceIgnored, ``},
		{`"auto"`, ToolChoiceIgnored, `"tools":` + both + `,"tool_choice":"auto"`},
		{`"any"`, ToolChoiceWords, `"tools":` + both + `,"tool_choice":"required"`},
		{`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[` + tool("g") + `]}}`, ToolChoiceWords, `"tools":[` + tool("g") + `],"tool_choice":"required"`},
		{`{"type":"allowed_tools","allowed_tools":{"mode":"none","tools":[` + tool("g") + `]}}`, ToolChoiceIgnored, ``},
	} {
		const head = `{"model":"m","messages":[{"role":"user","content":"a"}]`
		var r Request
		if err := r.Decode([]byte(head + `,"tools":` + both + `,"tool_choice":` + c.choice + `}`)); err != nil {
			t.Fatal(err)
		}
		want := head
		if c.want != "" {
			want += "," + c.want
		}
		if got := string(r.AppendEngineRequest(nil, &EngineFormat{Served: "m", ToolChoice: c.form})); got != want+"}" {
			t.Errorf("%s in form %d: %s", c.choice, c.form, got)
		}
	}
}

// TestOtherForms checks how response_format and null contents are sent to engines.
func TestOtherForms(t *testing.T) {
	const object = `{"type":"json_schema","json_schema":{"name":"object","schema":{"type":"object"}}}`
	const schema = `{"type":"json_schema","json_schema":{"name":"s","schema":{}}}`
	for _, c := range []struct {
		sent string
		form ResponseForm
		want string // empty if the member is omitted
	}{
		{`{"type":"json_object"}`, ResponseAsSent, `{"type":"json_object"}`},
		{`{"type":"json_object"}`, ResponseSchemas, object},
		{`{"type":"json_object"}`, ResponseValue, `{"type":"json_object","value":{"type":"object"}}`},
		{`{"type":"json_object","value":{"type":"array"}}`, ResponseValue, `{"type":"json_object","value":{"type":"array"}}`},
		{`{"type":"text"}`, ResponseSchemas, `{"type":"text"}`},
		{`{"type":"text"}`, ResponseValue, ``},
		{schema, ResponseSchemas, schema},
		{schema, ResponseValue, strings.Replace(schema, `"json_schema":`, `"value":`, 1)},
		{`null`, ResponseSchemas, `null`},
	} {
		const head = `{"model":"m","messages":[{"role":"user","content":"a"}]`
		var r Request
		if err := r.Decode([]byte(head + `,"response_format":` + c.sent + `}`)); err != nil {
			t.Fatal(err)
		}
		want := head
		if c.want != "" {
			want += `,"response_format":` + c.want
		}
		if got := string(r.AppendEngineRequest(nil, &EngineFormat{Served: "m", ResponseFormat: c.form})); got != want+"}" {
			t.Errorf("%s in form %d: %s", c.sent, c.form, got)
		}
	}
	const calls = `"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]`
	const sent = `[{"role":"user","content":null},{"role":"assistant"},{"role":"assistant","content":null,` + calls + `},{"role":"assistant",` + calls + `}]`
	for form, want := range map[NullContentForm]string{
		NullAsSent:            sent,
		NullEmptyWithoutCalls: `[{"role":"user","content":""},{"role":"assistant","content":""},{"role":"assistant","content":null,` + calls + `},{"role":"assistant",` + calls + `}]`,
		NullEmpty:             `[{"role":"user","content":""},{"role":"assistant","content":""},{"role":"assistant","content":"",` + calls + `},{"role":"assistant",` + calls + `,"content":""}]`,
	} {
		if got := sentMessages(t, sent, &EngineFormat{Served: "m", NullContent: form}); got != want {
			t.Errorf("form %v: sent %s, want %s", form, got, want)
		}
	}
}

// TestEffortWord checks which word an engine receives for a client's effort, depending on the words
// that the engine accepts.
func TestEffortWord(t *testing.T) {
	var (
		all    = EngineEfforts
		three  = []string{"low", "medium", "high"}
		ollama = []string{"none", "low", "medium", "high", "max"}
	)
	for _, c := range []struct {
		client string
		words  []string
		not    EffortSet
		want   string
	}{
		{"high", nil, 0, "high"},
		{"max", nil, 0, "xhigh"}, // the contract defines only xhigh
		{"none", nil, 0, "none"},
		{"xhigh", three, 0, "high"},
		{"max", three, 0, "high"},
		{"none", three, 0, ""},
		{"minimal", three, 0, "low"},
		{"xhigh", ollama, 0, "max"},
		{"max", ollama, 0, "max"},
		{"none", ollama, 0, "none"},
		{"xhigh", all, 0, "xhigh"},
		{"max", all, 0, "max"},
		{"high", all, NewEffortSet("high"), ""},
		{"medium", all, NewEffortSet("high"), "medium"},
		{"max", all, NewEffortSet("xhigh"), "max"},
		{"max", all, NewEffortSet("max"), ""},
		{"none", all, NewEffortSet("none"), ""},
	} {
		var r Request
		if err := r.Decode([]byte(`{"model":"m","messages":[{"role":"user","content":"a"}],"reasoning_effort":"` + c.client + `"}`)); err != nil {
			t.Fatal(err)
		}
		off := []Member{{"off", []byte("true")}}
		format := &EngineFormat{Served: "m", Reasoning: &ReasoningFormat{Words: c.words, Refused: c.not, Off: off}}
		if got := EffortWord(&r, format); got != c.want {
			t.Errorf("%s of %v without %b: %q, want %q", c.client, c.words, c.not, got, c.want)
		}
		out := string(r.AppendEngineRequest(nil, format))
		if said := strings.Contains(out, `"reasoning_effort":"`+c.want+`"`); said != (c.want != "") || c.want == "" && strings.Contains(out, "reasoning_effort") {
			t.Errorf("the client's effort %s: sent %s, want the effort %q", c.client, out, c.want)
		}
		if strings.Contains(out, `"off":true`) != (c.client == "none") {
			t.Errorf("%s switched off: %s", c.client, out)
		}
	}
}
