package messages

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/dialects"
	"penstock/translate/sse"
)

func relayReader(s *Stream, e *echo, src io.Reader) []byte {
	e.reset(s)
	r := sse.NewReader(src, 1<<20)
	var (
		out []byte
		err error
	)
	for !s.IsDone() {
		ev, readErr := r.NextEvent()
		if readErr != nil {
			break
		}
		if out, err = s.Append(out, ev); err != nil {
			return s.AppendFailure(out, errTest)
		}
	}
	if out, err = s.Finish(out); err != nil {
		out = s.AppendFailure(out, errTest)
	}
	return out
}

// TestSplits checks that the output does not depend on how the engine's bytes are split into reads.
func TestSplits(t *testing.T) {
	t.Parallel()
	e := &echo{RequestInfo{thinking: thinkingShown, stopSequences: []string{"END"}}, dialects.AnswerIdentity{Model: "public", ID: "msg_1"}}
	var s Stream
	for _, upstream := range seeds(t, "answer", "upstream-response") {
		want := relayReader(&s, e, bytes.NewReader(upstream))
		for at := range upstream {
			got := relayReader(&s, e, io.MultiReader(bytes.NewReader(upstream[:at]), bytes.NewReader(upstream[at:])))
			if !bytes.Equal(got, want) {
				t.Fatalf("cut at %d: %s\nwant %s", at, got, want)
			}
		}
	}
}

// TestCuts checks that the client's stream is well-formed wherever the engine's stream breaks off.
// The stream may be complete only if the engine has sent a finish_reason.
func TestCuts(t *testing.T) {
	t.Parallel()
	e := &echo{RequestInfo{thinking: thinkingShown}, dialects.AnswerIdentity{Model: "public", ID: "msg_1"}}
	var s Stream
	well := map[string]bool{} // whether each output is complete; many truncated streams have the same output
	for _, upstream := range seeds(t, "answer", "upstream-response") {
		for at := range upstream {
			out := relayReader(&s, e, bytes.NewReader(upstream[:at]))
			ended, known := well[string(out)]
			if !known {
				ended = checkGrammar(t, out)
				well[string(out)] = ended
			}
			if ended && !bytes.Contains(upstream[:at], []byte(`"finish_reason"`)) {
				t.Fatalf("ended well after %q", upstream[:at])
			}
		}
	}
}

// FuzzStream checks that no input makes a Stream panic, break the order of events, or depend on how
// the input is split.
func FuzzStream(f *testing.F) {
	for _, s := range seeds(f, "answer", "upstream-response") {
		f.Add(s, true)
	}
	var s Stream
	f.Fuzz(func(t *testing.T, upstream []byte, shown bool) {
		if shown {
			fuzzStream(t, &s, upstream, thinkingShown)
			return
		}
		for _, how := range []thinkingDisplay{thinkingHidden, thinkingOmitted, thinkingRedacted} {
			fuzzStream(t, &s, upstream, how)
		}
	})
}

func fuzzStream(t *testing.T, s *Stream, upstream []byte, how thinkingDisplay) {
	e := &echo{RequestInfo{thinking: how, stopSequences: []string{"END"}}, dialects.AnswerIdentity{Model: `pub"lic`, ID: "msg_1"}}
	out := relayReader(s, e, bytes.NewReader(upstream))
	ended := checkGrammar(t, out)
	if cut := relayReader(s, e, iotest.OneByteReader(bytes.NewReader(upstream))); !bytes.Equal(cut, out) {
		t.Fatalf("byte by byte:\n%s\nat once:\n%s", cut, out)
	}
	// Joining two texts may turn surrogate halves into a pair.
	if !ended || bytes.Contains(upstream, []byte(`\u`)) {
		return
	}
	// The whole answer must have the same contents as the stream.
	if whole, err := translateWhole(e, upstream); err == nil {
		streamed := normalizeMessage(t, collect(t, out))
		if diff := cmp.Diff(withoutCounts(normalizeMessage(t, whole)), withoutCounts(streamed)); diff != "" {
			t.Fatalf("-whole +streamed\n%s", diff)
		}
	}
}

// withoutCounts returns m without the counts and tool call ids, which the engine may send too late
// for a stream.
func withoutCounts(m message) message {
	m.Usage = nil
	for _, b := range m.Content {
		delete(b, "id")
	}
	return m
}

// TestStartAfterBadEvent checks that the client gets message_start from the second engine if the first
// event of the first engine was malformed.
func TestStartAfterBadEvent(t *testing.T) {
	t.Parallel()
	const nameless = `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}},` +
		`{"index":1,"id":"b","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`
	e := &echo{RequestInfo{}, dialects.AnswerIdentity{Model: "public", ID: "msg_1"}}
	var s Stream
	e.reset(&s)
	out := s.AppendKeepalive(nil)
	out, err := s.Append(out, sse.Event{Data: []byte(nameless)})
	if err == nil || s.HasStarted() {
		t.Fatalf("error %v, started %t, want an error before the start", err, s.HasStarted())
	}
	s.PrepareForNextEngine()
	if out, err = s.Append(out, sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`)}); err == nil {
		out, err = s.Finish(out)
	}
	if err != nil || !checkGrammar(t, out) {
		t.Errorf("error %v, want a complete message: %s", err, out)
	}
}

func TestKeepaliveAndEnds(t *testing.T) {
	const ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n"
	e := &echo{RequestInfo{}, dialects.AnswerIdentity{Model: "public", ID: "msg_1", RequestID: "req_1"}}
	var s Stream
	e.reset(&s)
	out := s.AppendKeepalive(nil)
	if string(out) != ping {
		t.Errorf("a ping is %q", out)
	}
	if s.IsFinished() || s.IsDone() {
		t.Error("whole or done before anything came")
	}
	out, err := s.Append(out, sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{"content":"a"}}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	out = s.AppendKeepalive(out)
	if _, err := s.Finish(nil); !errors.Is(err, translate.ErrNoFinish) {
		t.Errorf("Finish: %v, want ErrNoFinish", err)
	}
	out, err = s.Append(out, sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if !s.IsFinished() {
		t.Error("not whole after the finish_reason")
	}
	if u := s.Usage(); u.Prompt != 3 || u.Completion != 1 {
		t.Errorf("got the usage %+v, want 3 prompt and 1 completion tokens", u)
	}
	if out, err = s.Finish(out); err != nil {
		t.Fatal(err)
	}
	if !checkGrammar(t, out) || strings.Count(string(out), ping) != 2 {
		t.Errorf("got %s, want a valid stream with two pings", out)
	}
	after, err := s.Finish(nil)
	if after = s.AppendFailure(after, errTest); err != nil || len(after) > 0 {
		t.Errorf("behind the end: %q, %v", after, err)
	}
	// If the stream fails before any output, the client receives a single error event.
	e.reset(&s)
	out = s.AppendFailure(nil, apierr.New(529, apierr.CodeUpstreamFailed, "The engine failed."))
	want := "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"The engine failed.\",\"type\":\"overloaded_error\",\"code\":\"upstream_failed\",\"param\":null},\"request_id\":\"req_1\"}\n\n"
	if string(out) != want {
		t.Errorf("got  %q\nwant %q", out, want)
	}
	if again := s.AppendFailure(nil, errTest); len(again) > 0 {
		t.Errorf("behind the failure: %q", again)
	}
	s.Release()
}

// TestLargeArguments checks that large arguments stay unchanged and are checked at the end, even
// though they are not checked after every piece.
func TestLargeArguments(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for _, c := range []struct {
		args string
		good bool
	}{{`{\"a\":\"` + long + `\"}`, true}, {`{\"a\":\"` + long, false}} {
		e := &echo{RequestInfo{}, dialects.AnswerIdentity{Model: "public", ID: "msg_1"}}
		var s Stream
		e.reset(&s)
		out, err := s.Append(nil, sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"i","function":{"name":"f","arguments":"` + c.args + `"}}]}}]}`)})
		if err == nil {
			out, err = s.Append(out, sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{"content":"t"},"finish_reason":"stop"}]}`)})
		}
		if err == nil {
			out, err = s.Finish(out)
		}
		if (err == nil) != c.good {
			t.Errorf("got the error %[2]v, want success: %[1]v", c.good, err)
		}
		if c.good && (!bytes.Contains(out, []byte(`"partial_json":"`+c.args+`"`)) || bytes.Count(out, []byte("partial_json")) != 1) {
			t.Error("the arguments are not exact")
		}
	}
}
