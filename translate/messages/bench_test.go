package messages

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"penstock/config/testkit/raced"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/sse"
)

// Typical events from engines.
const (
	textChunk  = `{"id":"chatcmpl-9b0a2e54c1f04d0c8a6d5d0c4f2f8a11","object":"chat.completion.chunk","created":1795227007,"model":"org/served-7b","choices":[{"index":0,"delta":{"content":" harbour"},"logprobs":null,"finish_reason":null}]}`
	usageChunk = `{"id":"chatcmpl-9b0a2e54c1f04d0c8a6d5d0c4f2f8a11","object":"chat.completion.chunk","created":1795227007,"model":"org/served-7b","choices":[{"index":0,"delta":{"content":" harbour"},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":28,"total_tokens":41,"completion_tokens":13}}`
	callChunk  = `{"choices":[{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":" "}}]}}],"created":1795227008,"id":"chatcmpl-7pP2X2WEv86nmj7ncJ6e6BKrac2wrKbC","model":"org/served-7b","system_fingerprint":"b11669-Debian","object":"chat.completion.chunk"}`
	callBegins = `{"choices":[{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,"id":"c0","type":"function","function":{"name":"f","arguments":"{"}}]}}]}`
	thinkChunk = `{"id":"chatcmpl-695","object":"chat.completion.chunk","created":1795227029,"model":"org/served-7b","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"content":"","reasoning":" hm"},"finish_reason":null}]}`
)

var eventCases = []struct {
	name, first, chunk string
	thinking           bool
}{
	{"text", "", textChunk, false},
	{"text/usage", "", usageChunk, false},
	{"call", callBegins, callChunk, false},
	{"thinking", "", thinkChunk, true},
	{"thinking/hidden", "", thinkChunk, false},
}

// feed returns a function that passes one event of the case to s. The function occasionally starts
// a new stream, because a Stream stores all arguments.
func feed(tb testing.TB, s *Stream, first, chunk string, thinking bool) func() {
	e := &echo{RequestInfo{thinking: thinkingIf(thinking)}, dialects.AnswerIdentity{Model: "public", ID: "msg_1"}}
	dst := make([]byte, 0, 4<<10)
	n := 0
	send := func(data []byte) {
		var err error
		if dst, err = s.Append(dst[:0], sse.Event{Data: data}); err != nil {
			tb.Fatal(err)
		}
	}
	begin, event := []byte(first), []byte(chunk)
	return func() {
		if n%1000 == 0 {
			e.reset(s)
			if first != "" {
				send(begin)
			}
		}
		n++
		send(event)
	}
}

// BenchmarkStream measures one event. The benchmark of answer.Stream uses the same chunks.
func BenchmarkStream(b *testing.B) {
	for _, c := range eventCases {
		b.Run("messages/"+c.name, func(b *testing.B) {
			var s Stream
			next := feed(b, &s, c.first, c.chunk, c.thinking)
			b.ReportAllocs()
			b.SetBytes(int64(len(c.chunk)))
			for b.Loop() {
				next()
			}
		})
	}
}

// TestStreamAllocs checks that a stream does not allocate per event.
func TestStreamAllocs(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector allocates")
	}
	for _, c := range eventCases {
		var s Stream
		next := feed(t, &s, c.first, c.chunk, c.thinking)
		for range 3000 {
			next()
		}
		if n := testing.AllocsPerRun(5000, next); n != 0 {
			t.Errorf("%s: %v allocations an event", c.name, n)
		}
	}
	// A Stream reuses its memory even if tool calls are held back.
	var s Stream
	e := &echo{RequestInfo{}, dialects.AnswerIdentity{Model: "public", ID: "msg_1"}}
	for _, upstream := range seeds(t, "answer", "upstream-response") {
		if bytes.Contains(upstream, []byte("error")) || bytes.Contains(upstream, []byte("matched_stop")) || bytes.Contains(upstream, []byte("stop_reason")) {
			continue
		}
		var events []sse.Event
		r := sse.NewReader(bytes.NewReader(upstream), 1<<20)
		for {
			ev, err := r.NextEvent()
			if err != nil {
				break
			}
			events = append(events, sse.Event{Name: bytes.Clone(ev.Name), Data: bytes.Clone(ev.Data)})
		}
		dst := make([]byte, 0, 64<<10)
		run := func() {
			e.reset(&s)
			out := dst
			for _, ev := range events {
				var err error
				if out, err = s.Append(out, ev); err != nil {
					return
				}
			}
			_, _ = s.Finish(out)
		}
		run()
		// The checks of tool calls that overlap or end may allocate memory, but not for every
		// event.
		if n := testing.AllocsPerRun(20, run); n > 60 {
			t.Errorf("%v allocations for %q", n, upstream)
		}
	}
}

// agentRequest returns an agent's request of about n bytes.
func agentRequest(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"m","max_tokens":4096,"stream":true,"system":[{"type":"text","text":"You are an agent.","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"read","description":"Reads.","input_schema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}],"messages":[{"role":"user","content":[{"type":"text","text":"Look at the files."}]}`)
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"type":"text","text":"I read the next one."},{"type":"tool_use","id":"toolu_%d","name":"read","input":{"path":"src/file_%d.go"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":[{"type":"text","text":"%s"}]}]}`, i, i, i, strings.Repeat(`func main() {\n\tprintln(\"hello\")\n}\n`, 12))
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func BenchmarkDecode(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			body := agentRequest(size)
			var (
				r    Request
				c    chat.Request
				info RequestInfo
				dst  []byte
			)
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				var err error
				if dst, err = r.Decode(dst[:0], body, &c, &info, dialects.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendCompletion(b *testing.B) {
	const body = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"served","choices":[{"index":0,"message":{"role":"assistant","content":"I look.","tool_calls":[{"id":"c0","type":"function","function":{"name":"read","arguments":"{\"path\":\"a.go\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`
	var (
		c   answer.ChatCompletion
		s   Stream
		dst []byte
	)
	identity := dialects.AnswerIdentity{Model: "public", ID: "msg_1"}
	b.ReportAllocs()
	for b.Loop() {
		err := c.Parse([]byte(body))
		if s.Reset(&identity); err == nil {
			dst, err = s.AppendCompletion(dst[:0], &c)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
