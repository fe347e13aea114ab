package answer

import (
	"strings"
	"testing"

	"penstock/translate/sse"
)

// TestToolCallsOfWholeAnswer checks that the tool calls of a whole answer are numbered from 0 and
// have JSON arguments, and that the finish_reason is tool_calls. Truncated arguments must not
// change.
func TestToolCallsOfWholeAnswer(t *testing.T) {
	const call = `"id":"a","type":"function"`
	for name, c := range map[string]struct{ calls, finish, want, end string }{
		"by the book": {
			`{` + call + `,"function":{"name":"f","arguments":"{\"a\":1}"}}`, "tool_calls",
			`{` + call + `,"function":{"name":"f","arguments":"{\"a\":1}"}}`, "tool_calls",
		},
		"indexes": {
			`{"index":1,` + call + `,"function":{"name":"f","arguments":"{}"}},{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}`, "tool_calls",
			`{"index":0,` + call + `,"function":{"name":"f","arguments":"{}"}},{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}`, "tool_calls",
		},
		"index null": {
			`{"index":null,` + call + `,"function":{"name":"f","arguments":"{}"}}`, "tool_calls",
			`{"index":0,` + call + `,"function":{"name":"f","arguments":"{}"}}`, "tool_calls",
		},
		"no arguments": {
			`{` + call + `,"function":{"name":"f"}}`, "tool_calls",
			`{` + call + `,"function":{"name":"f","arguments":"{}"}}`, "tool_calls",
		},
		"arguments null": {
			`{` + call + `,"function":{"name":"f","arguments":null}}`, "tool_calls",
			`{` + call + `,"function":{"name":"f","arguments":"{}"}}`, "tool_calls",
		},
		"arguments empty": {
			`{` + call + `,"function":{"name":"f","arguments":""}}`, "tool_calls",
			`{` + call + `,"function":{"name":"f","arguments":"{}"}}`, "tool_calls",
		},
		"arguments blank": {
			`{` + call + `,"function":{"name":"f","arguments":" \n"}}`, "tool_calls",
			`{` + call + `,"function":{"name":"f","arguments":" \n{}"}}`, "tool_calls",
		},
		"cut before its arguments": {
			`{` + call + `,"function":{"name":"f"}}`, "length",
			`{` + call + `,"function":{"name":"f","arguments":""}}`, "length",
		},
		"finish stop": {
			`{` + call + `,"function":{"name":"f","arguments":"{}"}}`, "stop",
			`{` + call + `,"function":{"name":"f","arguments":"{}"}}`, "tool_calls",
		},
		"finish eos_token": {
			`{` + call + `,"function":{"name":"f","arguments":"{}"}}`, "eos_token",
			`{` + call + `,"function":{"name":"f","arguments":"{}"}}`, "tool_calls",
		},
		"none": {``, "stop", ``, "stop"},
	} {
		t.Run(name, func(t *testing.T) {
			var completion ChatCompletion
			body := `{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[` + c.calls + `]},"finish_reason":"` + c.finish + `"}]}`
			if err := completion.Parse([]byte(body)); err != nil {
				t.Fatal(err)
			}
			got := string(completion.Append(nil, &WriteOptions{Model: "m", ID: "x"}))
			if !strings.Contains(got, `"tool_calls":[`+c.want+`]`) || !strings.Contains(got, `"finish_reason":"`+c.end+`"`) {
				t.Errorf("got  %s\nwant %s, %s", got, c.want, c.end)
			}
		})
	}
}

// TestToolCallsOfStream does the same as TestToolCallsOfWholeAnswer for a stream whose client
// concatenates the pieces.
func TestToolCallsOfStream(t *testing.T) {
	for name, c := range map[string]struct {
		pieces, finish string
		want           []string
	}{
		"no arguments": {
			`{"index":0,"id":"a","type":"function","function":{"name":"f"}}`, "stop",
			[]string{`"name":"f","arguments":""`, `"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]`, `"finish_reason":"tool_calls"`},
		},
		"arguments null": {
			`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":null}}`, "tool_calls",
			[]string{`"name":"f","arguments":""`, `"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]`, `"finish_reason":"tool_calls"`},
		},
		"the second is blank": {
			`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":""}}`, "eos_token",
			[]string{`"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]`, `"finish_reason":"tool_calls"`},
		},
		"cut": {
			`{"index":0,"id":"a","type":"function","function":{"name":"f"}}`, "length",
			[]string{`"name":"f","arguments":""`, `"delta":{},"finish_reason":"length"`},
		},
		"none": {``, "stop", []string{`"delta":{},"finish_reason":"stop"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var s Stream
			s.Reset(&WriteOptions{Model: "m", ID: "x"})
			var out []byte
			for _, choice := range []string{`"delta":{"tool_calls":[` + c.pieces + `]}`, `"delta":{},"finish_reason":"` + c.finish + `"`} {
				var err error
				if out, err = s.Append(out, sse.Event{Data: []byte(`{"choices":[{"index":0,` + choice + `}]}`)}); err != nil {
					t.Fatal(err)
				}
			}
			out, err := s.Finish(out)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("got no %s in %s", want, out)
				}
			}
		})
	}
}

// TestBlankPieces checks that empty pieces before the arguments do not hide the start of the
// arguments.
func TestBlankPieces(t *testing.T) {
	var s Stream
	s.Reset(&WriteOptions{Model: "m", ID: "x"})
	var out []byte
	for _, args := range []string{``, ``, ` `, ` `, `{`, `}`} {
		name := ""
		if out == nil {
			name = `"name":"f",`
		}
		var err error
		if out, err = s.Append(out, sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{` + name + `"arguments":"` + args + `"}}]}}]}`)}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := s.Append(out, sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`)})
	if out, err2 := s.Finish(out); err != nil || err2 != nil || strings.Contains(string(out), `{}"`) {
		t.Errorf("got the errors %v and %v, want none and complete arguments: %s", err, err2, out)
	}
}

// TestEmptyIdentity checks that empty members count as absent.
func TestEmptyIdentity(t *testing.T) {
	const head = `"id":"","object":"",`
	var completion ChatCompletion
	if err := completion.Parse([]byte(`{` + head + `"choices":[{"index":0,"message":{"role":null,"content":"x"},"finish_reason":"stop"}]}`)); err != nil {
		t.Fatal(err)
	}
	got := string(completion.Append(nil, &WriteOptions{Model: "m", ID: "ours"}))
	for _, want := range []string{`"id":"ours"`, `"object":"chat.completion"`, `"role":"assistant"`} {
		if strings.Count(got, want) != 1 {
			t.Errorf("want one %s in %s", want, got)
		}
	}
	var (
		s   Stream
		out []byte
	)
	s.Reset(&WriteOptions{Model: "m", ID: "ours", IncludeUsage: true})
	for _, chunk := range []string{head + `"choices":[{"index":0,"delta":{"content":"x"}}]`, `"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]`} {
		var err error
		if out, err = s.Append(out, sse.Event{Data: []byte(`{` + chunk + `}`)}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := s.Finish(out)
	if err != nil || strings.Count(string(out), `"id":"ours"`) != 3 || strings.Count(string(out), `"object":"chat.completion.chunk"`) != 3 {
		t.Errorf("error %v, want the id and the object on 3 chunks: %s", err, out)
	}
}
