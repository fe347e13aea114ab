package answer

import (
	"bytes"
	"strings"
	"testing"

	"penstock/translate/sse"
)

// TestSingleToolCall checks that clients of every dialect receive only the first tool call if an
// engine makes parallel tool calls despite the request.
func TestSingleToolCall(t *testing.T) {
	t.Parallel()
	const first = `{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}`
	for name, deltas := range map[string][]string{
		"one event": {first + `,{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{\"y\":2}"}}`},
		"one by one": {
			`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}`,
			`{"index":0,"function":{"arguments":"{\"x\""}}`, `{"index":0,"function":{"arguments":":1}"}}`,
			`{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":""}}`,
			`{"index":1,"function":{"arguments":"{\"y\""}}`, `{"index":1,"function":{"arguments":":2"}}`, `{"index":1,"function":{"arguments":"}"}}`,
			`{"index":2,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}`,
		},
		"interleaved": {
			`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\""}}`,
			`{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{\"y\""}}`,
			`{"index":0,"function":{"arguments":":1}"}}`, `{"index":1,"function":{"arguments":":2}"}}`,
		},
		"without indexes": {
			`{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}`,
			`{"id":"b","type":"function","function":{"name":"f","arguments":"{\"y\":2}"}}`,
		},
	} {
		var src bytes.Buffer
		for _, d := range deltas {
			src.WriteString(`data: {"id":"i","created":1,"model":"m","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[` + d + "]}}]}\n\n")
		}
		src.WriteString(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n")
		for _, single := range []bool{true, false} {
			check := func(how string, calls []string, cut bool) {
				t.Helper()
				more := strings.Contains(strings.Join(calls, " "), "y") // only the other tool calls contain y
				if len(calls) == 0 || !strings.HasPrefix(calls[0], `a f {\"x\":1}`) || single != (len(calls) == 1) || single == more || cut != single {
					t.Errorf("%s, %s, single %t: %q, cut %t", name, how, single, calls, cut)
				}
			}
			var r Reader
			r.Reset("id", 0)
			r.SetTools(nil, single)
			visitEvents(t, src.Bytes(), func(ev sse.Event) error { _, err := r.Read(ev); return err })
			var heard answerTexts
			heard.addFinal(&r)
			check("reader", heard.Calls, r.Usage().CutToolCalls)

			var s Stream
			var out []byte
			s.Reset(&WriteOptions{Model: "m", ID: "id", SingleToolCall: single})
			visitEvents(t, src.Bytes(), func(ev sse.Event) (err error) { out, err = s.Append(out, ev); return err })
			var client Reader
			client.Reset("id", 0)
			visitEvents(t, out, func(ev sse.Event) error { _, err := client.Read(ev); return err })
			heard = answerTexts{}
			heard.addFinal(&client)
			check("stream", heard.Calls, s.Usage().CutToolCalls)

			var a Assembler
			visitEvents(t, src.Bytes(), a.AddEvent)
			whole, err := a.AppendCompletion(nil, &WriteOptions{Model: "m", ID: "id"})
			if err != nil {
				t.Fatal(err)
			}
			var c ChatCompletion
			c.SetSingleToolCall(single)
			if err := c.Parse(whole); err != nil {
				t.Fatal(err)
			}
			cut := c.Usage().CutToolCalls
			client.Reset("id", 0)
			client.SetTools(nil, single)
			if err := client.ReadCompletion(&c); err != nil {
				t.Fatal(err)
			}
			heard = answerTexts{}
			heard.addFinal(&client)
			check("whole, in another dialect", heard.Calls, cut)
			whole = c.Append(nil, &WriteOptions{Model: "m", ID: "id"})
			c.SetSingleToolCall(false)
			if err := c.Parse(whole); err != nil {
				t.Fatal(err)
			}
			client.Reset("id", 0)
			if err := client.ReadCompletion(&c); err != nil {
				t.Fatal(err)
			}
			heard = answerTexts{}
			heard.addFinal(&client)
			check("whole", heard.Calls, cut)
		}
	}
}

// visitEvents calls take for every event of a stream.
func visitEvents(t *testing.T, src []byte, take func(ev sse.Event) error) {
	t.Helper()
	r := sse.NewReader(bytes.NewReader(src), 1<<20)
	for ev, err := r.NextEvent(); err == nil; ev, err = r.NextEvent() {
		if err := take(ev); err != nil {
			t.Fatal(err)
		}
	}
}
