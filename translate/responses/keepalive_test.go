package responses

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"penstock/translate/sse"
)

// variableParts matches the text that differs between two answers with the same events.
var variableParts = regexp.MustCompile(`"sequence_number":\d+|"encrypted_content":"[^"]*"`)

// newSealedStream returns a Stream that can seal reasoning.
func newSealedStream(t *testing.T, body string) *Stream {
	t.Helper()
	s, identity := newStream(t, []byte(body)), testIdentity
	identity.Seal = testBox
	s.Reset(&identity)
	return s
}

// relayWithKeepalives is like relay, but sends a keep-alive before and after each engine event.
// answer is the client's output without the keep-alives.
func relayWithKeepalives(t *testing.T, a *Stream, src io.Reader) (out, answer []byte) {
	t.Helper()
	keep := func() {
		sign := a.AppendKeepalive(nil)
		if len(answer) == 0 && len(out) == 0 { // the first keep-alive announces the answer
			answer = append(answer, sign...)
		} else if name, _, _ := strings.Cut(string(sign), "\n"); !strings.HasSuffix(name, ".delta") && name != "event: response.in_progress" {
			t.Errorf("a keep-alive is %s", sign)
		}
		out = append(out, sign...)
	}
	add := func(more []byte) { out, answer = append(out, more...), append(answer, more...) }
	fail := func(err error) ([]byte, []byte) {
		add(a.AppendFailure(nil, testError(err)))
		return out, answer
	}
	r := sse.NewReader(src, 8<<20)
	for keep(); !a.IsDone(); keep() {
		ev, err := r.NextEvent()
		if errors.Is(err, io.EOF) {
			break
		}
		var more []byte
		if err == nil {
			more, err = a.Append(nil, ev)
			add(more)
		}
		if err != nil {
			return fail(err)
		}
	}
	more, err := a.Finish(nil)
	if err != nil {
		return fail(err)
	}
	add(more)
	return out, answer
}

// TestKeepalive checks that a keep-alive is valid at every position in a stream, and that it does
// not change the other events. The test uses every golden stream, with and without sealed
// reasoning.
func TestKeepalive(t *testing.T) {
	t.Parallel()
	streams := archiveSections(t, "answer", "upstream")
	streams["thoughtful"] = []byte(reasoningStream)
	for name, src := range streams {
		for _, body := range []string{"", includeBody} {
			want, _ := relay(newSealedStream(t, body), bytes.NewReader(src))
			out, answer := relayWithKeepalives(t, newSealedStream(t, body), bytes.NewReader(src))
			checkKeptAlive(t, out)
			if got, want := variableParts.ReplaceAll(answer, nil), variableParts.ReplaceAll(want, nil); !bytes.Equal(got, want) {
				t.Errorf("%s: the answer with keep-alives is\n%s\nand without\n%s", name, got, want)
			}
		}
	}
}

// TestKeepalive_Kinds checks the kind of the keep-alive after different events.
func TestKeepalive_Kinds(t *testing.T) {
	t.Parallel()
	const reasons = `{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`
	const inProgress = "event: response.in_progress\n"
	const custom = `{"model":"model","input":"Hello","tools":[{"type":"custom","name":"patch"}]}`
	for name, c := range map[string]struct {
		body   string
		engine []string
		want   string // the expected start of the event
		has    []string
	}{
		"the head alone":    {"", []string{`{"choices":[{"index":0,"delta":{"role":"assistant"}}]}`}, inProgress, []string{`"output":[]`}},
		"thinks":            {"", []string{reasons, reasons}, inProgress, []string{`"output":[]`, `"status":"in_progress"`}},
		"thinks, included":  {includeBody, []string{reasons, reasons}, inProgress, []string{`"output":[{"id":"rs_0123456789_0","type":"reasoning","summary":[],"encrypted_content":null}]`}},
		"pauses in a text":  {"", []string{`{"choices":[{"index":0,"delta":{"content":"A word"}}]}`}, "event: response.output_text.delta\n", []string{`"delta":"","logprobs":[]`, `"output_index":0`}},
		"pauses in refusal": {"", []string{`{"choices":[{"index":0,"delta":{"refusal":"No"}}]}`}, "event: response.refusal.delta\n", []string{`"delta":""}`}},
		"buffers a call": {
			"",
			[]string{`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]}}]}`},
			"event: response.function_call_arguments.delta\n",
			[]string{`"item_id":"fc_`, `"delta":""}`},
		},
		"buffers a custom call": {
			custom,
			[]string{`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"patch","arguments":""}}]}}]}`},
			"event: response.custom_tool_call_input.delta\n",
			[]string{`"item_id":"ctc_`, `"delta":""}`},
		},
		"between a text and a call without a name": {
			"",
			[]string{`{"choices":[{"index":0,"delta":{"content":"A word"}}]}`, `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c"}]}}]}`},
			inProgress,
			[]string{`"text":"A word"`, `"status":"completed","role":"assistant"`},
		},
	} {
		a := newSealedStream(t, c.body)
		for _, data := range c.engine {
			if _, err := a.Append(nil, sse.Event{Data: []byte(data)}); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			number := a.events.seq
			got := string(a.AppendKeepalive(nil))
			if !strings.HasPrefix(got, c.want) || a.events.seq != number+1 {
				t.Errorf("%s: got %s, want %s with the next number", name, got, c.want)
			}
			for _, part := range c.has {
				if !strings.Contains(got, part) {
					t.Errorf("%s: %s is not in %s", name, part, got)
				}
			}
		}
	}
}

// TestKeepalive_Large checks that a keep-alive repeats neither a large request nor a large answer.
func TestKeepalive_Large(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", maxKeepaliveRepeatBytes)
	a := newStream(t, []byte(`{"model":"model","input":"Hello","instructions":"`+large+`"}`))
	if first := a.AppendKeepalive(nil); !bytes.HasPrefix(first, []byte("event: response.created")) || bytes.Count(first, []byte(large)) != 2 {
		t.Errorf("the answer is announced by %.300s", first)
	}
	if again := a.AppendKeepalive(nil); !bytes.HasPrefix(again, []byte("event: response.in_progress")) || len(again) > 1<<10 {
		t.Errorf("got %d bytes, want a short response.in_progress: %.300s", len(again), again)
	}

	a = newStream(t, nil)
	for _, data := range []string{
		`{"choices":[{"index":0,"delta":{"content":"` + large + `y"}}]}`, `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c"}]}}]}`,
	} {
		if _, err := a.Append(nil, sse.Event{Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(a.AppendKeepalive(nil)); got != ": keep-alive\n\n" {
		t.Errorf("got %d bytes, want a comment: %.300s", len(got), got)
	}
}
