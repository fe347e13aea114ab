package resume

import (
	"fmt"
	"strings"
	"testing"

	"penstock/proxy/access/limit"
	"penstock/proxy/request/endpoint"
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/sse"
)

type chatCodec struct {
	*answer.Stream
}

func (c chatCodec) Translator() translate.Stream                                 { return c.Stream }
func (chatCodec) MarkEnded()                                                     {}
func (chatCodec) AppendBody(dst, _ []byte, _ endpoint.ReplyHead) ([]byte, error) { return dst, nil }
func (chatCodec) MediaType() string                                              { return "" }
func (chatCodec) HasInBandErrors() bool                                          { return true }
func record(m *limit.MemoryBudget) *PartialAnswerRecorder {
	s := new(answer.Stream)
	s.Reset(&answer.WriteOptions{Model: "m", ID: "c", IncludeUsage: true, PromptTokens: 9})
	return NewPartialAnswerRecorder(chatCodec{s}, m)
}

func deltaEvent(delta string) sse.Event {
	return sse.Event{Data: []byte(`{"id":"c","object":"chat.completion.chunk","created":1,"model":"x","choices":[{"index":0,"delta":{` + delta + `}}]}`)}
}

func appendDeltas(t *testing.T, s *PartialAnswerRecorder, deltas ...string) (out string) {
	t.Helper()
	for _, d := range deltas {
		b, err := s.Translator().Append(nil, deltaEvent(d)) // as an attempt does
		if err != nil {
			t.Fatal(err)
		}
		out += string(b)
	}
	return out
}

// partial returns the answer that the next engine would continue.
func partial(s *PartialAnswerRecorder) *chat.PartialAnswer {
	s.AddToRequest(new(chat.Request))
	return &s.partial
}

// TestRecording checks that a stream stores the text that the client has received. The stored text
// must equal the engine's text, must end with a complete character, and must not contain the
// reasoning.
func TestRecording(t *testing.T) {
	s := record(limit.NewMemoryBudget(1 << 20))
	appendDeltas(t, s, `"role":"assistant","content":""`, `"reasoning_content":"hm"`, `"reasoning_content":";"`)
	if s.HasNewText() {
		t.Error("reasoning alone counts as text")
	}
	// The last delta ends with half of a surrogate pair.
	appendDeltas(t, s, `"content":"The"`, `"content":" \"mill\""`, `"content":" 🚲"`, `"content":" \ud83d"`)
	b := partial(s)
	if string(b.Text) != `The \"mill\" 🚲 ` || string(b.Reasoning) != "hm;" || b.Tokens != 6 || !s.HasReasoning() || s.HasNewText() || !s.IsNextEngineSilent() {
		t.Errorf("recorded %q and %q, %d tokens", b.Text, b.Reasoning, b.Tokens)
	}
	s.PrepareForNextEngine()
	out := appendDeltas(t, s, `"role":"assistant","content":null`, `"content":"\ud83d\ude97 goes"`)
	if !strings.Contains(out, `"content":"\ud83d\ude97 goes"`) || strings.Contains(out, "role") || !s.HasNewText() {
		t.Errorf("the client gets %s", out)
	}
	if b := partial(s); string(b.Text) != `The \"mill\" 🚲 \ud83d\ude97 goes` {
		t.Errorf("recorded %q, want the text without the cut escape", b.Text)
	}
	u := s.Usage()
	if u.Resumed != 1 || u.Completion != 12 || u.Prompt != 9 || u.ResumedPrompt != 9+7 { // 27 and 17 bytes
		t.Errorf("got the usage %+v, want 1 resumed, 12 completion and 9 prompt tokens", u)
	}
}

// TestNotRecorded checks that a stream stores no text if memory is exhausted, or if no engine could
// continue the answer. In both cases, it must release all memory.
func TestNotRecorded(t *testing.T) {
	for name, deltas := range map[string][]string{
		"a tool call":             {`"content":"I look"`, `"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]`},
		"a refusal":               {`"content":"I"`, `"refusal":"cannot"`},
		"reasoning in the middle": {`"content":"I"`, `"reasoning_content":"hm"`},
		"too long":                {`"content":"` + strings.Repeat("w", 3<<10) + `"`, `"content":"` + strings.Repeat("x", 80<<10) + `"`},
	} {
		m := limit.NewMemoryBudget(64 << 10)
		s := record(m)
		if out := appendDeltas(t, s, deltas...); strings.Count(out, "data: ") != len(deltas) {
			t.Errorf("%s: the client gets %.300s", name, out)
		}
		if s.CanContinue() || s.HasNewText() || s.IsNextEngineSilent() || m.UsedBytes() != 0 {
			t.Errorf("%s: recorded, %d bytes", name, m.UsedBytes())
		}
		s.Release()
		if out := appendDeltas(t, s, `"content":"on"`); !strings.Contains(out, `"on"`) {
			t.Errorf("%s: then the client gets %q", name, out)
		}
	}
}

// TestCanContinue checks that streams release their stored text if more than half of the budget is
// in use.
func TestCanContinue(t *testing.T) {
	m := limit.NewMemoryBudget(64 << 10)
	s := record(m)
	appendDeltas(t, s, `"content":"The"`)
	if !s.CanContinue() || m.UsedBytes() == 0 {
		t.Errorf("not recorded, %d bytes", m.UsedBytes())
	}
	m.Reserve(40 << 10)
	if s.CanContinue() || m.UsedBytes() != 40<<10 {
		t.Errorf("recorded: %d bytes", m.UsedBytes())
	}
}

// TestRecordingGrows checks that a long answer reserves more memory only when its buffer doubles.
func TestRecordingGrows(t *testing.T) {
	m := limit.NewMemoryBudget(8 << 20)
	s := record(m)
	want := ""
	for i := range 20_000 {
		piece := fmt.Sprintf(" %d", i)
		appendDeltas(t, s, `"content":"`+piece+`"`)
		want += piece
	}
	if b := partial(s); string(b.Text) != want || m.UsedBytes() > 4*int64(len(want)) {
		t.Errorf("%d of %d bytes are recorded in %d", len(b.Text), len(want), m.UsedBytes())
	}
	s.Release()
	if m.UsedBytes() != 0 {
		t.Errorf("%d bytes are left", m.UsedBytes())
	}
}

// countedEvent returns a piece of text with the engine's token count so far.
func countedEvent(text string, tokens int) sse.Event {
	return sse.Event{Data: fmt.Appendf(nil, `{"id":"c","object":"chat.completion.chunk","created":1,"model":"x",`+
		`"choices":[{"index":0,"delta":{"content":"%s"}}],"usage":{"prompt_tokens":9,"completion_tokens":%d,"total_tokens":%d}}`, text, tokens, 9+tokens)}
}

// TestTokens checks that a PartialAnswerRecorder caps an engine's token counts at the number that the client
// can have received.
func TestTokens(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		counts []int
		want   int
	}{
		"one per event":           {"word", []int{1, 2, 3, 4}, 4},
		"several per event":       {"four words", []int{3, 7, 8}, 8},
		"more than received":      {"one", []int{1_000_000, 1_000_000, 1_000_000}, 3},
		"ever more than received": {"one", []int{1000, 2000, 3000}, 9},
		"up and down":             {"one", []int{1000, 0, 1000, 0}, 3},
	} {
		s := record(limit.NewMemoryBudget(1 << 20))
		for _, n := range c.counts {
			if _, err := s.Append(nil, countedEvent(c.text, n)); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.engineTokens; got != c.want || partial(s).Tokens != c.want {
			t.Errorf("%s: %d tokens, want %d", name, got, c.want)
		}
	}
}

// TestTokensOfNextEngine checks that the token counts of each engine are added, even if there are
// fewer tokens than the bytes suggest.
func TestTokensOfNextEngine(t *testing.T) {
	s := record(limit.NewMemoryBudget(1 << 20))
	for engine := range 3 {
		if engine > 0 {
			s.PrepareForNextEngine()
		}
		if u := s.Usage(); u.Completion != 10*engine {
			t.Errorf("%d engines were lost: %d completion tokens in the usage, want %d", engine, u.Completion, 10*engine)
		}
		for n := range 10 {
			if _, err := s.Append(nil, countedEvent("a token of 20 bytes.", n+1)); err != nil {
				t.Fatal(err)
			}
		}
		if want := 10 * (engine + 1); s.engineTokens != want || s.Usage().Completion != want {
			t.Errorf("engine %d: %d tokens, %d in the usage, want %d", engine, s.engineTokens, s.Usage().Completion, want)
		}
	}
}

// TestTokensAfterCount checks that an event after the engine's counts counts as one token, and that
// a later count includes these tokens.
func TestTokensAfterCount(t *testing.T) {
	s := record(limit.NewMemoryBudget(1 << 20))
	for _, c := range []struct {
		event sse.Event
		want  int
	}{
		{countedEvent("", 0), 0},
		{deltaEvent(`"content":"\u4f60\u597d"`), 1},
		{deltaEvent(`"content":"\u4f60\u597d"`), 2},
		{countedEvent("four words", 6), 6},
		{deltaEvent(`"content":"\u4f60\u597d"`), 7},
		{countedEvent("", 7), 7},
	} {
		if _, err := s.Append(nil, c.event); err != nil {
			t.Fatal(err)
		}
		if s.engineTokens != c.want {
			t.Errorf("after %s: %d tokens, want %d", c.event.Data, s.engineTokens, c.want)
		}
	}
}

// TestFinishFull checks that the edge itself can end an answer that has reached its token limit. No
// other answer may count as having reached its limit.
func TestFinishFull(t *testing.T) {
	var limited, unlimited chat.Request
	const request = `{"model":"m","messages":[{"role":"user","content":"hi"}]`
	if limited.Decode([]byte(request+`,"max_tokens":2}`)) != nil || unlimited.Decode([]byte(request+`}`)) != nil {
		t.Fatal("the requests are wrong")
	}
	s := record(limit.NewMemoryBudget(1 << 20))
	appendDeltas(t, s, `"content":"The"`)
	if s.HasReachedTokenLimit(&limited.Tokens) {
		t.Error("one token of two: the answer is full")
	}
	appendDeltas(t, s, `"content":" mill"`)
	if !s.HasReachedTokenLimit(&limited.Tokens) || s.HasReachedTokenLimit(&unlimited.Tokens) {
		t.Error("two tokens: the answer must be full with a limit of 2, and not without a limit")
	}
	out, err := s.FinishAtTokenLimit(nil)
	if err != nil || !strings.Contains(string(out), `"finish_reason":"length"`) || !strings.HasSuffix(string(out), "data: [DONE]\n\n") {
		t.Errorf("FinishAtTokenLimit = %s, %v, want a finish_reason and the end of the stream", out, err)
	}
}
