package answer

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"penstock/translate"
	"penstock/translate/chat/toolcall"
	"penstock/translate/sse"
)

type answerTexts struct {
	Content, Refusal, Reasoning string
	Calls                       []string
	Finish                      Finish
	Stop                        string
	Usage                       translate.Usage
	Err                         string
}

func readWithReader(s *Reader, src []byte, forget bool) (out answerTexts) {
	s.Reset("fallback", 0)
	r := sse.NewReader(bytes.NewReader(src), 8<<20)
	for !s.IsDone() {
		ev, err := r.NextEvent()
		if err != nil {
			break
		}
		if forget {
			s.template.forget()
		}
		if _, err := s.Read(ev); err != nil {
			out.Err = err.Error()
			return out
		}
		out.Content += string(s.Content)
		out.Refusal += string(s.Refusal)
		out.Reasoning += string(s.Reasoning)
	}
	out.addFinal(s)
	if err := s.CheckFinished(); err != nil {
		out.Err = err.Error()
	}
	return out
}

func (out *answerTexts) addFinal(s *Reader) {
	for i := range s.ToolCalls.List {
		args := string(s.ToolCalls.List[i].Args)
		if toolcall.IsBlank([]byte(args)) && !isTruncated(s.Finish) {
			args += "{}" // as the translators do
		}
		out.Calls = append(out.Calls, string(s.ToolCalls.ID(i))+" "+string(s.ToolCalls.List[i].Name)+" "+args)
	}
	out.Finish, out.Stop, out.Usage = s.Finish, string(s.StopSequence), s.Usage()
}

// TestReader checks that the fast path yields the same result as parsing, and that a stream yields
// the same result as the answer assembled from it.
func TestReader(t *testing.T) {
	names, streams, _ := upstreams(t)
	var s, long Reader
	var c ChatCompletion
	compared := 0
	for _, name := range names {
		src := streams[name]
		got := readWithReader(&s, src, false)
		if want := readWithReader(&long, src, true); !cmp.Equal(got, want, cmp.AllowUnexported(translate.Usage{})) {
			t.Errorf("%s: the short cut shows: %s", name, cmp.Diff(want, got, cmp.AllowUnexported(translate.Usage{})))
		}
		var a Assembler
		whole := assemble(&a, &WriteOptions{Model: "m", ID: "fallback"}, bytes.NewReader(src))
		if got.Err != "" || bytes.HasPrefix(whole, []byte("!! ")) {
			continue
		}
		if err := c.Parse(whole); err != nil || c.Choices().Len() > 1 {
			continue
		}
		s.Reset("fallback", 0)
		if err := s.ReadCompletion(&c); err != nil {
			t.Fatalf("%s: ReadCompletion = %v, want success", name, err)
		}
		want := answerTexts{Content: string(s.Content), Refusal: string(s.Refusal), Reasoning: string(s.Reasoning)}
		want.addFinal(&s)
		// May differ: an assembled answer counts differently and has only the last stop reason.
		want.Usage, want.Stop = got.Usage, got.Stop
		if !cmp.Equal(got, want, cmp.AllowUnexported(translate.Usage{})) {
			t.Errorf("%s: whole and stream differ: %s", name, cmp.Diff(want, got, cmp.AllowUnexported(translate.Usage{})))
		}
		compared++
	}
	if compared < 10 {
		t.Errorf("only %d answers were compared", compared)
	}
}

// TestReaderCallIDOfOneCompletionID checks that the tool calls of two answers have different ids
// even if the engine gives both completions the same id. Some engines number completions from 1
// after each start, or choose ids from a small range.
func TestReaderCallIDOfOneCompletionID(t *testing.T) {
	const calls = `"tool_calls":[{"index":0,"id":"0","function":{"name":"f","arguments":"{}"}},{"index":1,"function":{"name":"g","arguments":"{}"}}]`
	seen := map[string]string{}
	for _, answer := range []string{"msg_1", "msg_2"} {
		var streamed, whole, none Reader
		for _, s := range []*Reader{&streamed, &whole, &none} {
			s.Reset(answer, 0)
		}
		if _, err := streamed.Read(sse.Event{Data: []byte(`{"id":"1","choices":[{"index":0,"delta":{` + calls + `}}]}`)}); err != nil {
			t.Fatal(err)
		}
		var c ChatCompletion
		if err := c.Parse([]byte(`{"id":"1","choices":[{"index":0,"message":{` + calls + `},"finish_reason":"tool_calls"}]}`)); err != nil {
			t.Fatal(err)
		}
		if err := whole.ReadCompletion(&c); err != nil {
			t.Fatal(err)
		}
		if _, err := none.Read(sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{` + calls + `}}]}`)}); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			id := string(streamed.ToolCalls.ID(i))
			if other, found := seen[id]; found {
				t.Errorf("call %d of %s has the id %s of %s", i, answer, id, other)
			}
			seen[id] = fmt.Sprintf("call %d of %s", i, answer)
			if string(whole.ToolCalls.ID(i)) != id || string(none.ToolCalls.ID(i)) != id {
				t.Errorf("call %d of %s: %s in a stream, %s in a whole answer, %s without an id of the completion", i, answer,
					id, whole.ToolCalls.ID(i), none.ToolCalls.ID(i))
			}
		}
	}
}

func TestSourceFinish(t *testing.T) {
	for reason, want := range map[string]Finish{
		`"stop"`: FinishStop, `"length"`: FinishLength, `"max_tokens"`: FinishLength, `"tool_calls"`: FinishToolCalls, `"function_call"`: FinishToolCalls,
		`"content_filter"`: FinishContentFilter, `"eos"`: FinishStop, `""`: FinishNone, `null`: FinishNone,
	} {
		var s Reader
		s.Reset("", 0)
		ev := sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":` + reason + `,"stop_reason":"END"}]}`)}
		if _, err := s.Read(ev); err != nil || s.Finish != want {
			t.Errorf("the reason %s became %v, %v, want %v", reason, s.Finish, err, want)
		}
		if want != FinishNone && string(s.StopSequence) != "END" {
			t.Errorf("%s: stop sequence %q", reason, s.StopSequence)
		}
	}
}

// TestReaderComplete checks that arguments are complete only if they are a whole object.
func TestReaderComplete(t *testing.T) {
	var s Reader
	s.Reset("", 0)
	for _, c := range []struct {
		args string
		want bool
	}{{`{\"a\":`, false}, {`\"}\"`, false}, {`}`, true}, {` `, false}} {
		ev := sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"` + c.args + `"}}]}}]}`)}
		if _, err := s.Read(ev); err != nil {
			t.Fatal(err)
		}
		if got := s.ToolCalls.IsComplete(0); got != c.want {
			t.Errorf("Complete of %s = %v, want %v", s.ToolCalls.List[0].Args, got, c.want)
		}
	}
}

// TestReaderBound checks that text and arguments count towards the size limit of an answer, even on
// the fast path.
func TestReaderBound(t *testing.T) {
	piece := strings.Repeat("x", 1<<20)
	for name, data := range map[string]string{
		"content": `{"choices":[{"index":0,"delta":{"content":"` + piece + `"}}]}`,
		"call":    `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"` + piece + `"}}]}}]}`,
	} {
		var s Reader
		s.Reset("", 0)
		ev := sse.Event{Data: []byte(data)}
		for n := 0; ; n++ {
			_, err := s.Read(ev)
			var bad *translate.BadAnswerError
			if errors.As(err, &bad) && bad.Reason == translate.ReasonTooLarge && n >= 31 {
				break
			}
			if err != nil || n > 40 {
				t.Fatalf("%s: got %d MiB, error %v, want at most 40 MiB", name, n, err)
			}
		}
	}
}

func BenchmarkSource(b *testing.B) {
	for _, c := range []struct{ name, data string }{{"text", vllmChunk}, {"call", callChunk}, {"usage", usageChunk}} {
		b.Run(c.name, func(b *testing.B) {
			var s Reader
			ev := sse.Event{Data: []byte(c.data)}
			n := 0
			b.ReportAllocs()
			b.SetBytes(int64(len(c.data)))
			for b.Loop() {
				if n++; n%1000 == 1 {
					s.Reset("", 0)
				}
				if _, err := s.Read(ev); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestCompletionCalls checks that only the missing members that clients need are added to a tool
// call in a whole answer.
func TestCompletionCalls(t *testing.T) {
	for call, want := range map[string]string{
		`{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}`:        ``,
		`{"type":"function","function":{"name":"f","arguments":"{}"}}`:                 `{"type":"function","function":{"name":"f","arguments":"{}"},"id":"` + string(toolcall.AppendGeneratedID(nil, "i", 0, 0)) + `"}`,
		`{"id":"c","function":{"name":"f","arguments":"{}"}}`:                          `{"id":"c","function":{"name":"f","arguments":"{}"},"type":"function"}`,
		`{"id":"c","type":"function","function":{"name":"f","arguments":{"a":["b"]}}}`: `{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":[\"b\"]}"}}`,
	} {
		var c ChatCompletion
		if err := c.Parse([]byte(`{"choices":[{"index":0,"message":{"tool_calls":[` + call + `]},"finish_reason":"tool_calls"}]}`)); err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = call
		}
		if got := c.Append(nil, &WriteOptions{Model: "m", ID: "i"}); !bytes.Contains(got, []byte(`"tool_calls":[`+want+`]`)) {
			t.Errorf("the call %s became %s, want %s", call, got, want)
		}
	}
}

// TestReader_ToolCallsInSecondChoice checks that the Reader combines text and tool calls from two
// choices. Gateways for Claude and Gemini send such answers. If the choices are alternatives, the
// Reader uses only the first choice.
func TestReader_ToolCallsInSecondChoice(t *testing.T) {
	t.Parallel()
	const (
		text  = `{"index":0,%q:{"role":"assistant","content":"a"},"finish_reason":"stop"}`
		calls = `{"index":%d,%q:{"role":"assistant","content":"b","tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}`
		own   = `{"index":0,%q:{"role":"assistant","content":"a","tool_calls":[{"index":0,"id":"o","type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}`
	)
	both := answerTexts{Content: "a", Calls: []string{"c f {}"}, Finish: FinishToolCalls}
	for _, c := range []struct {
		name    string
		choices [2]func(member string) string
		want    answerTexts
	}{
		{"text and tool calls", [2]func(string) string{
			func(m string) string { return fmt.Sprintf(text, m) },
			func(m string) string { return fmt.Sprintf(calls, 1, m) },
		}, both},
		{"alternatives", [2]func(string) string{
			func(m string) string { return fmt.Sprintf(own, m) },
			func(m string) string { return fmt.Sprintf(calls, 1, m) },
		}, answerTexts{Content: "a", Calls: []string{"o g {}"}, Finish: FinishToolCalls}},
	} {
		var r Reader
		whole := "{\"choices\":[" + c.choices[0]("message") + "," + c.choices[1]("message") + "]}"
		var completion ChatCompletion
		if err := completion.Parse([]byte(whole)); err != nil {
			t.Fatal(err)
		}
		r.Reset("id", 0)
		if err := r.ReadCompletion(&completion); err != nil {
			t.Fatal(err)
		}
		got := answerTexts{Content: string(r.Content)}
		got.addFinal(&r)
		if got.Usage = (translate.Usage{}); !cmp.Equal(got, c.want) {
			t.Errorf("%s, unstreamed (-want +got):\n%s", c.name, cmp.Diff(c.want, got))
		}
		for name, stream := range map[string]string{
			"in one event":  "data: {\"choices\":[" + c.choices[0]("delta") + "," + c.choices[1]("delta") + "]}\n\ndata: [DONE]\n\n",
			"in two events": "data: {\"choices\":[" + c.choices[0]("delta") + "]}\n\ndata: {\"choices\":[" + c.choices[1]("delta") + "]}\n\ndata: [DONE]\n\n",
		} {
			got := readWithReader(&r, []byte(stream), false)
			if got.Usage = (translate.Usage{}); !cmp.Equal(got, c.want) {
				t.Errorf("%s, %s (-want +got):\n%s", c.name, name, cmp.Diff(c.want, got))
			}
		}
	}
	var completion ChatCompletion
	if err := completion.Parse([]byte(fmt.Sprintf("{\"choices\":["+text+","+calls+"]}", "message", 0, "message"))); err != nil {
		t.Fatal(err)
	}
	var r Reader
	r.Reset("id", 0)
	if err := r.ReadCompletion(&completion); err != nil || len(r.ToolCalls.List) != 1 {
		t.Errorf("both numbered 0: %v, %d tool calls", err, len(r.ToolCalls.List))
	}
}
