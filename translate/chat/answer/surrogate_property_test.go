package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// parseStrictly parses JSON like a parser that rejects lone surrogates.
func parseStrictly(t *rapid.T, text []byte, into any) {
	t.Helper()
	var d jsonx.Doc
	if err := d.Parse(text, jsonx.Options{Paired: true}); err != nil {
		t.Fatalf("Parse of %[2]s = %[1]v, want success", err, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("Unmarshal of %[2]s = %[1]v, want success", err, text)
	}
}

type texts struct {
	Content   string
	Refusal   string
	Reasoning string `json:"reasoning_content"`
	Calls     []struct {
		Index    int
		Function struct{ Arguments string }
	} `json:"tool_calls"`
}

func (x *texts) add(more *texts) {
	x.Content += more.Content
	x.Refusal += more.Refusal
	x.Reasoning += more.Reasoning
	for _, c := range more.Calls {
		for len(x.Calls) <= c.Index {
			x.Calls = append(x.Calls, c)
			x.Calls[len(x.Calls)-1].Function.Arguments = ""
		}
		x.Calls[c.Index].Function.Arguments += c.Function.Arguments
	}
}

func (x *texts) all() [5]string {
	out := [5]string{x.Content, x.Refusal, x.Reasoning}
	for i, c := range x.Calls {
		out[3+i] = c.Function.Arguments
	}
	return out
}

// textMembers lists deltas in which %s marks the position of a text.
var textMembers = [5]string{
	`"content":"%s"`, `"refusal":"%s"`, `"reasoning_content":"%s"`,
	`"tool_calls":[{"index":0,"function":{"arguments":"%s"}}]`, `"tool_calls":[{"index":1,"function":{"arguments":"%s"}}]`,
}

// TestHalfSurrogates checks that clients receive only whole surrogate pairs and U+FFFD, whatever
// halves an engine sends. The text must be identical in a stream, in a whole answer, and in the
// other dialects.
func TestHalfSurrogates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		choices := rapid.IntRange(1, 2).Draw(t, "choices")
		var units [2][5][]uint16
		var chunks []string
		for n := range choices {
			chunks = append(chunks, fmt.Sprintf(`{"id":"c","choices":[{"index":%d,"delta":{"role":"assistant","tool_calls":[`+
				`{"index":0,"id":"a","function":{"name":"f","arguments":""}},{"index":1,"id":"b","function":{"name":"g","arguments":""}}]}}]}`, n))
		}
		for range rapid.IntRange(1, 12).Draw(t, "chunks") {
			n, member := rapid.IntRange(0, choices-1).Draw(t, "choice"), rapid.IntRange(0, 4).Draw(t, "member")
			piece := rapid.SliceOfN(rapid.SampledFrom([]uint16{'x', 'x', '\n', 0xd83d, 0xde00, 0xdbff}), 0, 3).Draw(t, "piece")
			units[n][member] = append(units[n][member], piece...)
			var text strings.Builder
			for _, u := range piece {
				if u == 'x' {
					text.WriteByte('x')
				} else {
					fmt.Fprintf(&text, `\u%04x`, u)
				}
			}
			chunks = append(chunks, fmt.Sprintf(`{"id":"c","choices":[{"index":%d,"delta":{`+textMembers[member]+`}}]}`, n, text.String()))
		}
		for n := range choices {
			end := rapid.SampledFrom([]string{
				`,"delta":{}`, ``, `,"delta":null`, `,"delta":{"content":""}`, `,"delta":{"content":null,"refusal":null,"reasoning_content":null,"tool_calls":null}`,
				`,"delta":{"tool_calls":[]}`,
			}).Draw(t, "end")
			chunks = append(chunks, fmt.Sprintf(`{"id":"c","choices":[{"index":%d%s,"finish_reason":"stop"}]}`, n, end))
		}
		var want [2][5]string
		for n := range units {
			for member := range units[n] {
				want[n][member] = string(utf16.Decode(units[n][member]))
				if n < choices && member >= 3 && strings.TrimSpace(want[n][member]) == "" {
					want[n][member] += "{}" // the arguments of a tool call
				}
			}
		}

		var (
			s        Stream
			a        Assembler
			source   Reader
			streamed [2]texts
			heard    texts
		)
		s.Reset(&WriteOptions{Model: "m"})
		source.Reset("id", 0)
		var out []byte
		for _, chunk := range chunks {
			var err error
			if out, err = s.Append(out, sse.Event{Data: []byte(chunk)}); err != nil {
				t.Fatal(err)
			}
		}
		out, err := s.Finish(out)
		if err != nil {
			t.Fatal(err)
		}
		for event := range bytes.SplitSeq(out, []byte("\n\n")) {
			if data, ok := bytes.CutPrefix(event, []byte("data: {")); ok {
				var got struct {
					Choices []struct {
						Index int
						Delta texts
					}
				}
				parseStrictly(t, append([]byte{'{'}, data...), &got)
				for i := range got.Choices {
					streamed[got.Choices[i].Index].add(&got.Choices[i].Delta)
				}
			}
		}
		for _, chunk := range chunks {
			ev := sse.Event{Data: []byte(chunk)}
			if err := a.AddEvent(ev); err != nil {
				t.Fatal(err)
			}
			if _, err := source.Read(ev); err != nil {
				t.Fatal(err)
			}
			for text, to := range map[*[]byte]*string{&source.Content: &heard.Content, &source.Refusal: &heard.Refusal, &source.Reasoning: &heard.Reasoning} {
				var piece string
				parseStrictly(t, []byte(`"`+string(*text)+`"`), &piece)
				*to += piece
			}
		}
		if got := streamed[0].all(); got != want[0] {
			t.Fatalf("streamed %q, want %q", got, want[0])
		}
		if got := streamed[1].all(); got != want[1] {
			t.Fatalf("streamed %q, want %q", got, want[1])
		}

		whole, err := a.AppendCompletion(nil, &WriteOptions{Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Choices []struct{ Message texts } }
		parseStrictly(t, whole, &got)
		for n := range got.Choices {
			if got := got.Choices[n].Message.all(); got != want[n] {
				t.Fatalf("whole %q, want %q", got, want[n])
			}
		}

		texts := [5]string{heard.Content, heard.Refusal, heard.Reasoning}
		for i := range source.ToolCalls.List {
			parseStrictly(t, []byte(`"`+string(source.ToolCalls.List[i].Args)+`"`), &texts[3+i])
			if strings.TrimSpace(texts[3+i]) == "" {
				texts[3+i] += "{}" // as the translators do
			}
		}
		if texts != want[0] {
			t.Fatalf("other dialects %q, want %q", texts, want[0])
		}
	})
}

// TestHalfSurrogatesOfWholeAnswers checks that clients receive no lone halves in a whole answer,
// wherever the engine put them.
func TestHalfSurrogatesOfWholeAnswers(t *testing.T) {
	body := []byte(`{"id":"a\ud83d","new\ude00":"\ude00","choices":[{"index":0,"message":{"content":"\ud83d\ude00\ud83d",` +
		`"reasoning_content":"\ude00","tool_calls":[{"id":"\ud83d","type":"function","function":{"name":"f","arguments":"{\"a\":\"\ud83d\"}"}}]},"finish_reason":"stop",` +
		`"logprobs":{"content":[{"token":"\ud83d"}]}}]}`)
	var c ChatCompletion
	if err := c.Parse(body); err != nil {
		t.Fatal(err)
	}
	out := c.Append(nil, &WriteOptions{Model: "m"})
	if err := new(jsonx.Doc).Parse(out, jsonx.Options{Paired: true}); err != nil || !bytes.Contains(out, []byte(`"\ud83d\ude00\ufffd"`)) {
		t.Errorf("error %v, want the pair and a replacement: %s", err, out)
	}
	var s Reader
	s.Reset("id", 0)
	if err := s.ReadCompletion(&c); err != nil {
		t.Fatal(err)
	}
	for _, got := range [][]byte{s.Content, s.Reasoning, s.ToolCalls.List[0].Args, s.ToolCalls.ID(0)} {
		if err := new(jsonx.Doc).Parse([]byte(`"`+string(got)+`"`), jsonx.Options{Paired: true}); err != nil {
			t.Errorf("error %v, want a valid string: %s", err, got)
		}
	}
}

// Arguments are JSON within a string, so they have a second level of escapes.
// TestHalfSurrogatesWithinArguments checks that lone halves at this level are replaced, wherever
// the engine splits the pieces. The result must be identical in a stream, in a whole answer, and in
// the other dialects.
func TestHalfSurrogatesWithinArguments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arguments := `{"a":"` + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			`\ud83d`, `\ude00`, `\uDBFF`, `\\`, `\"`, `\n`, `\u00e4`, `x`, `ud83d`, `\\ud83d`, `😀`,
		}), 0, 6).Draw(t, "arguments"), "") + `"}`
		var want, got map[string]string
		if err := json.Unmarshal([]byte(arguments), &want); err != nil {
			t.Fatal(err)
		}
		chunk := func(members string) sse.Event {
			return sse.Event{Data: []byte(`{"id":"c","created":1,"model":"m","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,` + members + `}]}}]}`)}
		}
		events := []sse.Event{chunk(`"id":"a","type":"function","function":{"name":"f","arguments":""}`)}
		for rest := []rune(arguments); len(rest) > 0; {
			n := rapid.IntRange(1, min(4, len(rest))).Draw(t, "piece")
			piece, _ := json.Marshal(string(rest[:n]))
			events = append(events, chunk(`"function":{"arguments":`+string(piece)+`}`))
			rest = rest[n:]
		}
		events = append(events, sse.Event{Data: []byte(`{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`)})

		var (
			s      Stream
			a      Assembler
			source Reader
			out    []byte
			told   texts
		)
		s.Reset(&WriteOptions{Model: "m"})
		source.Reset("id", 0)
		for _, ev := range events {
			var err error
			if out, err = s.Append(out, ev); err != nil {
				t.Fatal(err)
			}
			if err := a.AddEvent(ev); err != nil {
				t.Fatal(err)
			}
			if _, err := source.Read(ev); err != nil {
				t.Fatal(err)
			}
		}
		out, err := s.Finish(out)
		if err != nil {
			t.Fatal(err)
		}
		for event := range bytes.SplitSeq(out, []byte("\n\n")) {
			if data, ok := bytes.CutPrefix(event, []byte("data: {")); ok {
				var got struct{ Choices []struct{ Delta texts } }
				parseStrictly(t, append([]byte{'{'}, data...), &got)
				told.add(&got.Choices[0].Delta)
			}
		}
		whole, err := a.AppendCompletion(nil, &WriteOptions{Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		var assembled struct{ Choices []struct{ Message texts } }
		parseStrictly(t, whole, &assembled)

		quoted, _ := json.Marshal(arguments)
		var c ChatCompletion
		if err := c.Parse([]byte(`{"choices":[{"index":0,"message":{"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":` + string(quoted) + `}}]},"finish_reason":"stop"}]}`)); err != nil {
			t.Fatal(err)
		}
		var passed struct{ Choices []struct{ Message texts } }
		parseStrictly(t, c.Append(nil, &WriteOptions{Model: "m"}), &passed)
		var heard string
		parseStrictly(t, []byte(`"`+string(source.ToolCalls.List[0].Args)+`"`), &heard)

		for reader, text := range map[string]string{
			"Stream": told.Calls[0].Function.Arguments, "Assembler": assembled.Choices[0].Message.Calls[0].Function.Arguments,
			"Completion": passed.Choices[0].Message.Calls[0].Function.Arguments, "Source": heard,
		} {
			if parseStrictly(t, []byte(text), &got); got["a"] != want["a"] {
				t.Fatalf("%s: %s, want %s", reader, text, arguments)
			}
		}
	})
}
