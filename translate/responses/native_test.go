package responses

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"penstock/config/testkit/golden"
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/engineerror"
	"penstock/translate/sse"
)

// readNative calls next with each chunk that an engine's stream in this dialect amounts to, until
// stop says that the rest does not matter.
func readNative(src io.Reader, next func(sse.Event) error, stop func() bool) error {
	var n Native
	r := sse.NewReader(src, 8<<20)
	for !stop() && !n.Done() {
		ev, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			ev, err = n.Read(ev)
		}
		if err == nil {
			err = next(ev)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// relayNative is relay for an engine that speaks this dialect.
func relayNative(a *Stream, src io.Reader) (out []byte, failure error) {
	err := readNative(src, func(ev sse.Event) (err error) {
		out, err = a.Append(out, ev)
		return err
	}, a.Done)
	if err == nil {
		out, err = a.Finish(out)
	}
	if err != nil {
		return a.Fail(out, testError(err)), err
	}
	return out, nil
}

// assembleNative is assemble for one.
func assembleNative(src io.Reader) ([]byte, error) {
	var as answer.Assembler
	if err := readNative(src, as.Add, as.Done); err != nil {
		return nil, err
	}
	return as.Append(nil, &answer.Options{Model: "model", ID: "0123456789", Created: 1700000000, StripReasoning: true})
}

// TestNative runs the archives of testdata/native: a request for an engine that speaks the dialect
// itself ("stream" in the comment: one that is asked for a stream), or what such an engine answers
// in a stream or as a whole.
func TestNative(t *testing.T) {
	golden.Archives(t, "testdata/native", func(t *testing.T, ar *golden.Archive) {
		t.Helper()
		switch {
		case ar.Section("request.json") != nil:
			body := bytes.TrimSuffix(ar.Section("request.json"), []byte("\n"))
			tr, err := translateBody(body, dialects.Options{})
			if err == nil {
				err = tr.chat.Check(&testLimits)
			}
			if err != nil {
				t.Fatal(err)
			}
			n := chat.NativeRequest{Served: "served", Stream: ar.Says("stream"), MaxTokens: tr.chat.Tokens.Max, Effort: tr.chat.Reasoning.Effort, Refuse: chat.NewRefusedMembers("bootstrap_*"), Model: tr.chat.Model, Opener: fakeOpener{}}
			for _, word := range []string{chat.ReasoningLoop, chat.ReasoningNone} {
				if ar.Says(word) {
					n.ReasoningHistory = word
				}
			}
			out := bytes.Join(NativeSegments(nil, body, &n), nil)
			if !json.Valid(out) || bytes.Contains(out, []byte("SECRET")) {
				t.Errorf("the engine is sent %s", out)
			}
			ar.Set("engine-request.json", out)
		case ar.Section("engine-whole") != nil:
			var n Native
			completion, err := n.AppendCompletion(nil, ar.Section("engine-whole"))
			response := []byte(nil)
			if err == nil {
				response, err = whole(newStream(t, nil), completion)
			}
			if err != nil {
				response = []byte("!! " + err.Error())
			} else {
				checkResponse(t, response)
			}
			hides(t, response)
			ar.Set("response.json", response)
		default:
			upstream := ar.Section("engine-stream")
			stream, failure := relayNative(newStream(t, nil), bytes.NewReader(upstream))
			checkEvents(t, stream, true)
			hides(t, stream)
			completion, err := assembleNative(bytes.NewReader(upstream))
			if (err == nil) != (failure == nil) {
				t.Errorf("the stream ends with %v, the whole answer with %v", failure, err)
			}
			if err == nil {
				response, err := whole(newStream(t, nil), completion)
				if err != nil {
					t.Fatal(err)
				}
				checkResponse(t, response)
				checkAgreement(t, stream, response)
			}
			ar.Set("stream", stream)
		}
	})
}

func hides(t *testing.T, out []byte) {
	t.Helper()
	if bytes.Contains(out, []byte("HIDDEN")) || bytes.Contains(out, []byte("served")) {
		t.Errorf("the client is shown %s", out)
	}
}

// However the engine's bytes are cut into reads the client gets the same, and a stream that is cut
// short never ends well.
func TestNativeFraming(t *testing.T) {
	t.Parallel()
	for name, src := range files(t, "native", "engine-stream") {
		a := newStream(t, nil)
		want, _ := relayNative(a, bytes.NewReader(src))
		for at := range len(src) {
			a.Reset(&testIdentity)
			if got, _ := relayNative(a, &cutReader{src, at}); !bytes.Equal(got, want) {
				t.Fatalf("%s, cut at %d: %s", name, at, got)
			}
			a.Reset(&testIdentity)
			ended := bytes.Contains(src[:at], []byte(`"response.completed"`)) || bytes.Contains(src[:at], []byte(`"response.incomplete"`))
			if _, err := relayNative(a, bytes.NewReader(src[:at])); err == nil && !ended {
				t.Fatalf("%s: ended well after %q", name, src[:at])
			}
		}
		a.Reset(&testIdentity)
		if got, _ := relayNative(a, iotest.OneByteReader(bytes.NewReader(src))); !bytes.Equal(got, want) {
			t.Errorf("%s, byte by byte: %s", name, got)
		}
	}
}

// Whatever the engine says, and wherever it breaks off, the client gets events in order.
func FuzzNative(f *testing.F) {
	for _, src := range files(f, "native", "engine-stream") {
		f.Add(src, uint16(0))
		f.Add(src, uint16(len(src)/2))
	}
	body := []byte(`{"model":"model","input":"Hello"}`)
	f.Fuzz(func(t *testing.T, src []byte, cut uint16) {
		if cut > 0 && int(cut) < len(src) {
			src = src[:cut]
		}
		out, err := relayNative(newStream(t, body), bytes.NewReader(src))
		checkEvents(t, out, true)
		var bad *translate.BadAnswer
		var engine *engineerror.Error
		if err != nil && !errors.As(err, &bad) && !errors.As(err, &engine) && !errors.Is(err, translate.ErrNoFinish) && !errors.Is(err, sse.ErrTooLong) {
			t.Fatalf("an error of another kind: %v", err)
		}
		if got, _ := relayNative(newStream(t, body), iotest.OneByteReader(bytes.NewReader(src))); !bytes.Equal(got, out) {
			t.Fatalf("byte by byte:\n%s\nat once:\n%s", got, out)
		}
		var n Native
		if completion, err := n.AppendCompletion(nil, src); err == nil {
			if response, err := whole(newStream(t, body), completion); err == nil {
				checkResponse(t, response)
			}
		}
	})
}

var nativeTextDelta = sse.Event{
	Name: []byte("response.output_text.delta"),
	Data: []byte(`{"type":"response.output_text.delta","sequence_number":7,"item_id":"msg_1","output_index":0,"content_index":0,"delta":" word","logprobs":[]}`),
}

// One delta of an engine that speaks the dialect itself.
func BenchmarkNative(b *testing.B) {
	a := newStream(b, nil)
	var (
		n   Native
		out []byte
	)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%10000 == 0 {
			a.Reset(&testIdentity)
		}
		ev, _ := n.Read(nativeTextDelta)
		out, _ = a.Append(out[:0], ev)
	}
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
		{stream, "", `{"type":"response.created","type":"error"}`, "read chat answer: a member is given twice"},
		{stream, "", `{"type":"response.output_item.added","item":{"id":"a","id":"b"}}`, "read chat answer: a member is given twice"},
		{stream, "", `{"type":"response.output_item.done","item":{"id":"a","id":"b"}}`, "read chat answer: a member is given twice"},
		{stream, "", `{"type":"response.completed","response":{"status":"in_progress"}}`, "read chat answer: a response that is not complete"},
		{stream, "error", `{"message":"no","code":503}`, "engine error: status 503"},
		{stream, "", `{"type":"error","code":"rate_limit_exceeded","message":"no"}`, "engine error: status 429"},
		{stream, "", `{"type":"response.failed","response":{"error":{"code":"server_error","message":"no"}}}`, "engine error"},
		{whole, "", `[{"output":[]}]`, "read chat answer: an event that is no JSON object"},
		{whole, "", `{"output":[{"type":"message","type":"reasoning"}]}`, "read chat answer: a member is given twice"},
		{whole, "", `{"output":{}}`, "read chat answer: a response without output"},
	} {
		var n Native
		var err error
		if c.streamed {
			_, err = n.Read(sse.Event{Name: []byte(c.name), Data: []byte(c.data)})
		} else {
			_, err = n.AppendCompletion(nil, []byte(c.data))
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.data, err, c.want)
		}
	}
}

// TestNativeEnds: an answer that was cut says so whatever tells it, and one count is worth as much
// as two.
func TestNativeEnds(t *testing.T) {
	t.Parallel()
	for members, want := range map[string]string{
		`"status":"completed"`:                                `"finish_reason":"stop"`,
		`"status":"incomplete"`:                               `"finish_reason":"length"`,
		`"incomplete_details":{"reason":"max_output_tokens"}`: `"finish_reason":"length"`,
		`"incomplete_details":{"reason":"content_filter"}`:    `"finish_reason":"content_filter"`,
		`"usage":{"output_tokens":3}`:                         `"usage":{"prompt_tokens":0,"completion_tokens":3,`,
		`"usage":{"input_tokens":4,"output_tokens":null}`:     `"usage":{"prompt_tokens":4,"completion_tokens":0,`,
	} {
		var n Native
		out, err := n.AppendCompletion(nil, []byte(`{"output":[],`+members+`}`))
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %s, %v", members, out, err)
		}
	}
}
