package responses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"penstock/translate/dialects"
)

const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg=="

// drawnConversation draws the items of an agent's conversation, turn by turn.
type drawnConversation struct {
	*rapid.T
	inPlace bool
	items   []string
	calls   int
}

func (c *drawnConversation) text(label string) string {
	s, _ := json.Marshal(rapid.StringOfN(rapid.RuneFrom([]rune("ab \n\"\\é😀")), 0, 6, -1).Draw(c.T, label))
	return string(s)
}

func (c *drawnConversation) add(format string, args ...any) {
	c.items = append(c.items, fmt.Sprintf(format, args...))
}

// arguments draws tool call arguments: an object, or text that is not an object.
func (c *drawnConversation) arguments() string {
	said := c.text("arguments")
	if rapid.Bool().Draw(c.T, "object") {
		object, _ := json.Marshal(`{"a": ` + said + `}`)
		return string(object)
	}
	return said
}

func (c *drawnConversation) content(kind string, images bool) string {
	if rapid.Bool().Draw(c.T, "string") {
		return c.text("content")
	}
	var parts []string
	for range rapid.IntRange(0, 3).Draw(c.T, "parts") {
		if images && rapid.Bool().Draw(c.T, "image") {
			parts = append(parts, `{"type":"input_image","image_url":"`+pixel+`"}`)
			continue
		}
		parts = append(parts, fmt.Sprintf(`{"type":%q,"text":%s}`, kind, c.text("part")))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (c *drawnConversation) user() {
	c.add(`{"role":"user","content":%s}`, c.content("input_text", true))
}

// turn adds the items of an assistant turn and the tool results.
func (c *drawnConversation) turn() {
	var open []int
	for range rapid.IntRange(1, 5).Draw(c.T, "acts") {
		switch rapid.IntRange(0, 2).Draw(c.T, "act") {
		case 0:
			c.add(`{"type":"message","id":"msg_%d","role":"assistant","content":%s}`, len(c.items), c.content("output_text", false))
		case 1:
			c.calls++
			open = append(open, c.calls)
			space := rapid.SampledFrom([]string{"null", `"s"`, `"gone"`}).Draw(c.T, "namespace")
			c.add(`{"type":"function_call","call_id":"call_%d","name":"f","namespace":%s,"arguments":%s}`, c.calls, space, c.arguments())
		case 2:
			c.add(`{"type":"reasoning","summary":[]}`)
		}
	}
	for _, i := range open {
		c.add(`{"type":"function_call_output","call_id":"call_%d","output":%s}`, i, c.content("input_text", true))
	}
	if c.inPlace && rapid.Bool().Draw(c.T, "system") {
		c.add(`{"role":"developer","content":%s}`, c.content("input_text", false))
	}
	if len(open) == 0 || rapid.Bool().Draw(c.T, "and a word") {
		c.user()
	}
}

func (c *drawnConversation) body() []byte {
	return []byte(`{"model":"m","instructions":"Be brief.","tools":[{"type":"function","name":"f"},{"type":"web_search"},{"type":"namespace","name":"s","tools":[{"type":"function","name":"f"}]},{"type":"function","name":"a"}],"input":[` +
		strings.Join(c.items, ",\n ") + `]}`)
}

// TestPrefixStable checks that the messages of a turn are a byte prefix of the next turn's
// messages, so that engines find them in their prefix caches.
func TestPrefixStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &drawnConversation{T: t, inPlace: rapid.Bool().Draw(t, "in place")}
		if rapid.Bool().Draw(t, "leading system") {
			c.add(`{"role":"system","content":%s}`, c.content("input_text", false))
		}
		c.user()
		var before, tools []byte
		for range rapid.IntRange(2, 5).Draw(t, "turns") {
			tr, err := translateBody(c.body(), dialects.Options{InPlace: func([]byte) bool { return c.inPlace }})
			if err != nil {
				t.Fatalf("got the error %v, want none:\n%s", err, c.body())
			}
			messages := tr.chat.Messages().Raw()
			if elements := bytes.TrimSuffix(before, []byte("]")); !bytes.HasPrefix(messages, elements) {
				t.Fatalf("the conversation went on, and its beginning is another:\n%s\n%s\nof %s", before, messages, c.body())
			}
			_, rest, _ := bytes.Cut(tr.body, messages)
			if tools != nil && !bytes.Equal(rest, tools) {
				t.Fatalf("everything else changed:\n%s\n%s", tools, rest)
			}
			before, tools = bytes.Clone(messages), bytes.Clone(rest)
			c.turn()
		}
	})
}

// TestNothingIsLost checks that no text is lost, and that results directly follow their tool calls.
func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &drawnConversation{T: t}
		c.user()
		for range rapid.IntRange(1, 4).Draw(t, "turns") {
			c.turn()
		}
		tr, err := translateBody(c.body(), dialects.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var body struct {
			Messages []struct {
				Role       string
				Content    any
				ToolCallID string                `json:"tool_call_id"`
				ToolCalls  []struct{ ID string } `json:"tool_calls"`
			}
		}
		if err := json.Unmarshal(tr.body, &body); err != nil {
			t.Fatal(err)
		}
		var waiting []string
		for i, m := range body.Messages {
			if m.Role == "tool" {
				if len(waiting) == 0 || waiting[0] != m.ToolCallID {
					t.Fatalf("message %d answers %s, but %v wait:\n%s", i, m.ToolCallID, waiting, tr.body)
				}
				waiting = waiting[1:]
				continue
			}
			if len(waiting) > 0 {
				t.Fatalf("message %d is %s while %v wait:\n%s", i, m.Role, waiting, tr.body)
			}
			for _, call := range m.ToolCalls {
				waiting = append(waiting, call.ID)
			}
		}
		if got, want := strings.Count(string(tr.body), pixel), strings.Count(string(c.body()), pixel); got != want {
			t.Fatalf("%d images of %d", got, want)
		}
		got, want := visibleLetters(t, tr.body, "messages"), visibleLetters(t, c.body(), "input")
		if got != want {
			t.Fatalf("got %q, want %q of\n%s\n%s", got, want, c.body(), tr.body)
		}
	})
}

// visibleLetters counts the letters of all texts. The separators between them contain no letters.
func visibleLetters(t *rapid.T, body []byte, member string) string {
	var v map[string]any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	counts := map[rune]int{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for name, e := range v {
				switch s, isString := e.(string); {
				case !isString:
					walk(e)
				case name == "arguments" && member == "messages":
					for _, r := range clientArguments(t, s) {
						counts[r]++
					}
				case name == "text", name == "content", name == "output", name == "arguments":
					for _, r := range s {
						counts[r]++
					}
				}
			}
		}
	}
	messages := v[member].([]any)
	if member == "messages" {
		messages = messages[1:] // skips the instructions
	}
	walk(messages)
	return fmt.Sprint(counts['a'], counts['b'], counts['é'], counts['😀'], counts['"'], counts['\\'])
}

// clientArguments converts the arguments in the engine's request (always an object) to the client's
// arguments.
func clientArguments(t *rapid.T, arguments string) string {
	var object map[string]any
	if err := json.Unmarshal([]byte(arguments), &object); err != nil || object == nil {
		t.Fatalf("no engine can read %q: %v", arguments, err)
	}
	if text, ok := object["malformed_arguments"].(string); ok {
		return text
	}
	return arguments
}

// drawTools draws a list of functions and of tools in namespaces. Some names clash with each other
// and with joined names.
func drawTools(t *rapid.T) (list []map[string]any) {
	long := strings.Repeat("n", 60)
	name := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "b", "a__b", "a__b_10f3abd2", hashName("a", "b", "\x000"), "a b", "a.b", "a\r\nX: y", `a"b`, "\x00", "b\x00b", long, long + "1", "é"}),
		rapid.StringN(1, 5, -1),
	)
	for range rapid.IntRange(1, 8).Draw(t, "tools") {
		tool := map[string]any{"type": rapid.SampledFrom([]string{"function", "namespace", "custom"}).Draw(t, "type"), "name": name.Draw(t, "name")}
		if tool["type"] == "namespace" {
			var within []any
			for range rapid.IntRange(0, 4).Draw(t, "tools within") {
				within = append(within, map[string]any{"type": rapid.SampledFrom([]string{"function", "custom"}).Draw(t, "type"), "name": name.Draw(t, "name")})
			}
			tool["tools"] = within
		}
		list = append(list, tool)
	}
	return list
}

// TestEngineNames checks that every tool that is changed for the engine has a unique name that
// engines accept. The history must use this name, and the edge must map it back to the client's
// name.
func TestEngineNames(t *testing.T) {
	form := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	rapid.Check(t, func(t *rapid.T) {
		list := drawTools(t)
		var want []clientTool // as the client sent them, in the client's order
		var items []any
		for _, tool := range list {
			within, space := []any{tool}, ""
			if tool["type"] == "namespace" {
				within, space = tool["tools"].([]any), tool["name"].(string)
			}
			for _, x := range within {
				x := x.(map[string]any)
				c := clientTool{name: x["name"].(string), namespace: space, custom: x["type"] == "custom"}
				want = append(want, c)
				call := map[string]any{"type": "function_call", "call_id": "c", "name": c.name, "arguments": "{}"}
				if c.custom {
					call = map[string]any{"type": "custom_tool_call", "call_id": "c", "name": c.name, "input": ""}
				}
				if space != "" {
					call["namespace"] = space
				}
				items = append(items, call)
			}
		}
		body, err := json.Marshal(map[string]any{"model": "m", "tools": list, "input": append([]any{map[string]any{"role": "user", "content": "x"}}, items...)})
		if err != nil {
			t.Fatal(err)
		}
		tr, err := translateBody(body, dialects.Options{})
		if err != nil {
			if len(want) == 0 {
				return // all namespaces are empty
			}
			t.Fatal(err)
		}
		type function struct{ Function struct{ Name string } }
		var sent struct {
			Tools    []function
			Messages []struct {
				ToolCalls []function `json:"tool_calls"`
			}
		}
		if err := json.Unmarshal(tr.body, &sent); err != nil || len(sent.Tools) != len(want) {
			t.Fatalf("error %v, want %d tools: %s", err, len(want), tr.body)
		}
		own, first, calls := map[string]bool{}, map[clientTool]string{}, []function(nil)
		for _, m := range sent.Messages {
			calls = append(calls, m.ToolCalls...)
		}
		for _, c := range want {
			own[c.name] = own[c.name] || c.namespace == "" && !c.custom
		}
		used := map[string]bool{}
		for i, c := range want {
			name := sent.Tools[i].Function.Name
			contents, _ := json.Marshal(name)
			found := tr.answer.RequestInfo.tools.find(contents[1 : len(contents)-1])
			if c.namespace == "" && !c.custom {
				if name != c.name || found != nil {
					t.Errorf("the client's own %q is shown as %q, and found as %v", c.name, name, found)
				}
			} else {
				if found == nil || found.name != c.name || found.namespace != c.namespace || found.custom != c.custom {
					t.Errorf("%+v is shown as %q, which is %+v", c, name, found)
				}
				if !form.MatchString(name) || own[name] || used[name] {
					t.Errorf("%+v is shown as %q; taken by its like: %t", c, name, used[name])
				}
				used[name] = true
			}
			if _, again := first[c]; !again {
				first[c] = name
			}
			if got := calls[i].Function.Name; got != first[c] {
				t.Errorf("%+v is shown as %q, and in the history as %q", c, first[c], got)
			}
		}
	})
}
