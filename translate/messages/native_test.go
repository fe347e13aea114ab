package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"penstock/config/testkit/golden"
	"penstock/config/testkit/raced"
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// throughNative runs what an engine says in this dialect through n and s, as the proxy does.
func throughNative(s *Stream, e *echo, src io.Reader) ([]byte, error) {
	var n Native
	e.reset(s)
	r := sse.NewReader(src, 1<<20)
	var out []byte
	for !s.Done() && !n.Done() {
		ev, err := r.Next()
		if err != nil {
			break
		}
		if ev, err = n.Read(ev); err == nil {
			out, err = s.Append(out, ev)
		}
		if err != nil {
			return s.Fail(out, failed), err
		}
	}
	out, err := s.Finish(out)
	if err != nil {
		out = s.Fail(out, failed)
	}
	return out, err
}

// assembleNative makes a whole completion of what an engine says in this dialect in a stream.
func assembleNative(e *echo, src io.Reader) ([]byte, error) {
	var (
		n Native
		a answer.Assembler
	)
	r := sse.NewReader(src, 1<<20)
	for !a.Done() && !n.Done() {
		ev, err := r.Next()
		if err != nil {
			break
		}
		if ev, err = n.Read(ev); err == nil {
			err = a.Add(ev)
		}
		if err != nil {
			return nil, err
		}
	}
	body, err := a.Append(nil, &answer.Options{Model: "public", ID: "msg_1"})
	if err != nil {
		return nil, err
	}
	return answerTo(e, body)
}

func answerTo(e *echo, completion []byte) ([]byte, error) {
	var c answer.Completion
	if err := c.Parse(completion); err != nil {
		return nil, err
	}
	return appendWhole(nil, &c, e)
}

// nativeOf is the engine that the requests of testdata/native are written for.
func nativeOf(t *testing.T, c *chat.Request, options []byte) *chat.NativeRequest {
	t.Helper()
	limits := chat.ModelRules{LowerEffort: true, Efforts: []string{"low", "medium"}, MaxOutputLength: 4096}
	if err := c.Check(&limits); err != nil {
		t.Fatal(err)
	}
	word := string(bytes.TrimSpace(options))
	return &chat.NativeRequest{
		Served: "served", Stream: word == "stream", ReasoningHistory: word, Model: c.Model, Opener: fakeOpener{},
		MaxTokens: c.Tokens.Max, Effort: c.Reasoning.Effort, Refuse: chat.NewRefusedMembers("kv_transfer_params", "bootstrap_*"),
	}
}

// TestNative runs the archives of testdata/native: a request for an engine that speaks the dialect
// itself, or what such an engine answers in a stream (engine-stream) or as a whole (engine-whole).
func TestNative(t *testing.T) {
	golden.Archives(t, "testdata/native", func(t *testing.T, ar *golden.Archive) {
		if body := bytes.TrimSuffix(ar.Section("request"), []byte("\n")); len(body) > 0 {
			var r Request
			var c chat.Request
			if _, err := r.Decode(nil, body, &c, new(RequestInfo), dialects.Options{}); err != nil {
				t.Fatal(err)
			}
			out := bytes.Join(NativeSegments(nil, body, nativeOf(t, &c, ar.Section("engine"))), nil)
			if !json.Valid(out) || bytes.Contains(out, []byte("SECRET")) {
				t.Errorf("the engine is sent %s", out)
			}
			ar.Set("engine-request", out)
			return
		}
		e := echoOf(t, ar.Section("echo"))
		if body := ar.Section("engine-whole"); body != nil {
			var n Native
			completion, err := n.AppendCompletion(nil, body)
			if err == nil {
				completion, err = answerTo(e, completion)
			}
			if err != nil {
				completion = nil
			}
			ar.Set("error", textOf(err))
			ar.Set("whole", completion)
			return
		}
		var s Stream
		out, err := throughNative(&s, e, bytes.NewReader(ar.Section("engine-stream")))
		if ended := grammar(t, out); ended != (err == nil) {
			t.Errorf("ended well: %v, error %v", ended, err)
		}
		for _, bad := range []string{"SECRET", "served"} {
			if bytes.Contains(out, []byte(bad)) {
				t.Errorf("the client is shown %q", bad)
			}
		}
		whole, wholeErr := assembleNative(e, bytes.NewReader(ar.Section("engine-stream")))
		if (err == nil) != (wholeErr == nil) && !streamAlone(err) {
			t.Errorf("the stream ends with %v, the whole answer with %v", err, wholeErr)
		}
		if err == nil {
			if diff := cmp.Diff(normal(t, whole), normal(t, collect(t, out))); diff != "" {
				t.Errorf("whole and streamed answers differ: -whole +streamed\n%s", diff)
			}
		}
		ar.Set("error", textOf(err))
		ar.Set("response", out)
	})
}

// TestNativeRefuses: what an engine says wrong in this dialect is a bad answer, and what it calls
// an error is one. Streams are tried by their events, whole answers by their members.
func TestNativeRefuses(t *testing.T) {
	t.Parallel()
	const stream, whole = true, false
	for _, c := range []struct {
		streamed         bool
		name, data, want string
	}{
		{stream, "", `[1]`, "read chat answer: an event that is no JSON object"},
		{stream, "", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a","text":"b"}}`, "read chat answer: a member is given twice"},
		{stream, "", `{"type":"content_block_start","index":0,"content_block":{"type":"text","type":"thinking"}}`, "read chat answer: a member is given twice"},
		{stream, "", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_reason":"max_tokens"}}`, "read chat answer: a member is given twice"},
		{stream, "", `{"type":"error","message":"no","code":503}`, "engine error: status 503"},
		{stream, "error", `{"message":"no","code":503}`, "engine error: status 503"},
		{stream, "", `{"type":"error","error":{"type":"rate_limit_error","message":"no"}}`, "engine error: status 429"},
		{stream, "", `{"type":"error","error":{"type":"timeout_error","message":"no"}}`, "engine error: status 504"},
		{stream, "", `{"type":"error","error":{"type":"api_error","message":"no"}}`, "engine error"},
		{whole, "", `[{"content":[]}]`, "read chat answer: an event that is no JSON object"},
		{whole, "", `{"content":[{"type":"text","text":"a","text":"b"}],"stop_reason":"end_turn"}`, "read chat answer: a member is given twice"},
		{whole, "", `{"content":[],"stop_reason":"error"}`, "read chat answer: an error in place of a completion"},
		{whole, "", `{"content":{},"stop_reason":"end_turn"}`, "read chat answer: an answer without content"},
		{whole, "", `{"content":[],"stop_reason":""}`, "read chat answer: an answer without a stop_reason"},
	} {
		var n Native
		var err error
		if c.streamed {
			_, err = n.Read(sse.Event{Name: []byte(c.name), Data: []byte(c.data)})
		} else {
			var completion []byte
			if completion, err = n.AppendCompletion(nil, []byte(c.data)); err == nil {
				_, err = answerTo(&echo{RequestInfo{}, dialects.Identity{}}, completion)
			}
		}
		if string(textOf(err)) != c.want {
			t.Errorf("%s: %v, want %s", c.data, err, c.want)
		}
	}
}

// TestNativeSplits: how the engine's bytes are cut makes no difference at whatever offset, and a
// stream that is cut short never ends well.
func TestNativeSplits(t *testing.T) {
	t.Parallel()
	e := &echo{RequestInfo{thinking: thinkingShown, stops: []string{"END"}}, dialects.Identity{Model: "public", ID: "msg_1"}}
	var s Stream
	well := map[string]bool{} // what came of a short stream, and whether it ended well: many cuts leave the same
	for _, upstream := range seeds(t, "native", "engine-stream") {
		want, _ := throughNative(&s, e, bytes.NewReader(upstream))
		for at := range upstream {
			got, _ := throughNative(&s, e, io.MultiReader(bytes.NewReader(upstream[:at]), bytes.NewReader(upstream[at:])))
			if !bytes.Equal(got, want) {
				t.Fatalf("cut at %d: %s\nwant %s", at, got, want)
			}
			short, _ := throughNative(&s, e, bytes.NewReader(upstream[:at]))
			ended, known := well[string(short)]
			if !known {
				ended = grammar(t, short)
				well[string(short)] = ended
			}
			if ended && !bytes.Contains(upstream[:at], []byte(`"message_stop"`)) {
				t.Fatalf("ended well after %q", upstream[:at])
			}
		}
	}
}

// FuzzNative: no input makes a Native panic, and what the client gets is in order, whatever the
// engine says.
func FuzzNative(f *testing.F) {
	for _, s := range seeds(f, "native", "engine-stream") {
		f.Add(s, true)
	}
	var s Stream
	f.Fuzz(func(t *testing.T, upstream []byte, thinking bool) {
		e := &echo{RequestInfo{thinking: shownIf(thinking), stops: []string{"END"}}, dialects.Identity{Model: `pub"lic`, ID: "msg_1"}}
		out, err := throughNative(&s, e, bytes.NewReader(upstream))
		if ended := grammar(t, out); ended != (err == nil) {
			t.Fatalf("ended well: %v, error %v", ended, err)
		}
		var bad *translate.BadAnswer
		var engine *engineerror.Error
		if err != nil && !errors.As(err, &bad) && !errors.As(err, &engine) && !errors.Is(err, translate.ErrNoFinish) {
			t.Fatalf("an error of another kind: %v", err)
		}
		if cut, _ := throughNative(&s, e, iotest.OneByteReader(bytes.NewReader(upstream))); !bytes.Equal(cut, out) {
			t.Fatalf("byte by byte:\n%s\nat once:\n%s", cut, out)
		}
		var n Native
		if completion, err := n.AppendCompletion(nil, upstream); err == nil {
			_, _ = answerTo(e, completion)
		}
	})
}

// TestNativeAllocs: a delta costs no memory.
func TestNativeAllocs(t *testing.T) {
	if raced.On {
		t.Skip("the race detector allocates")
	}
	e := &echo{RequestInfo{}, dialects.Identity{Model: "public", ID: "msg_1"}}
	var (
		n   Native
		s   Stream
		out []byte
	)
	e.reset(&s)
	delta := sse.Event{Name: []byte("content_block_delta"), Data: []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word"}}`)}
	step := func() {
		ev, err := n.Read(delta)
		if err == nil {
			out, err = s.Append(out[:0], ev)
		}
		if err != nil || len(out) == 0 {
			t.Fatal(err, string(out))
		}
	}
	step()
	if got := testing.AllocsPerRun(1000, step); got != 0 {
		t.Errorf("%v allocations a delta", got)
	}
}

// BenchmarkNative is one delta of an engine that speaks the dialect itself.
func BenchmarkNative(b *testing.B) {
	e := &echo{RequestInfo{}, dialects.Identity{Model: "public", ID: "msg_1"}}
	var (
		n   Native
		s   Stream
		out []byte
	)
	e.reset(&s)
	delta := sse.Event{Name: []byte("content_block_delta"), Data: []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word"}}`)}
	b.ReportAllocs()
	for b.Loop() {
		ev, _ := n.Read(delta)
		out, _ = s.Append(out[:0], ev)
	}
}

// TestNativeInputsStayInside: a string that a client sends as the input of a call brings no members
// of its own to the engine.
func TestNativeInputsStayInside(t *testing.T) {
	t.Parallel()
	refuse := chat.NewRefusedMembers("priority")
	input, _ := json.Marshal(`{"a":` + strings.Repeat("[", jsonx.DefaultMaxDepth) + strings.Repeat("]", jsonx.DefaultMaxDepth) +
		`}}]}],"priority":-9,"x":[{"content":[{"input":{}`)
	body := []byte(`{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[` +
		`{"type":"tool_use","id":"t","name":"f","input":` + string(input) + `}]},{"role":"user","content":"y"}]}`)
	var (
		r    Request
		c    chat.Request
		sent map[string]any
	)
	if _, err := r.Decode(nil, body, &c, new(RequestInfo), dialects.Options{Refuse: refuse}); err != nil {
		t.Fatal(err)
	}
	native := bytes.Join(NativeSegments(nil, body, &chat.NativeRequest{Served: "m", MaxTokens: 5, Refuse: refuse}), nil)
	if err := json.Unmarshal(native, &sent); err != nil || len(sent) != 3 || len(sent["messages"].([]any)) != 3 {
		t.Errorf("%v: the engine is sent %s", err, native)
	}
}
