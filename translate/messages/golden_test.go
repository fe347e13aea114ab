package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"penstock/config/testkit/golden"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/sse"
)

// textOf returns the text of an error, or nil if there is no error.
func textOf(err error) []byte {
	if err == nil {
		return nil
	}
	return []byte(err.Error())
}

func errorText(err error) string {
	var a *apierr.Error
	if errors.As(err, &a) {
		text := fmt.Sprintf("%d %s %s\nparam: %s\n%s", a.Status, a.Type, a.Code, a.Param, a.Message)
		if a.DetailCode != "" {
			text += "\ndetails: " + a.DetailCode
		}
		return text
	}
	return err.Error()
}

// TestRequests translates the requests in testdata/request. The numbers in their names refer to the
// list of hard cases.
func TestRequests(t *testing.T) {
	golden.RunArchives(t, "testdata/request", func(t *testing.T, ar *golden.Archive) {
		o := optionsOf(t, ar.Section("options"))
		body := bytes.TrimSuffix(ar.Section("request"), []byte("\n"))
		var (
			r    Request
			c    chat.Request
			info RequestInfo
		)
		out, err := r.Decode(nil, body, &c, &info, o)
		if err != nil {
			var a *apierr.Error
			if !errors.As(err, &a) || a.Status != 400 {
				t.Fatalf("the error is none for a client: %v", err)
			}
			ar.SetSection("error", []byte(errorText(err)))
			ar.SetSection("upstream-request", nil)
			ar.SetSection("read", nil)
			return
		}
		if bytes.Contains(out, []byte("SECRET")) {
			t.Errorf("what is to be left out reaches the engine: %s", out)
		}
		ar.SetSection("error", nil)
		ar.SetSection("upstream-request", out)
		var read []byte
		if shown := info.thinking == thinkingShown; shown || info.stopSequences != nil {
			read = fmt.Appendf(read, "thinking %v, stops %q\n", shown, info.stopSequences)
		}
		if names := info.Dropped(); names != nil {
			read = append(read, "dropped "+strings.Join(names, ", ")+"\n"...)
		}
		if c.Prefilled {
			read = append(read, "prefilled\n"...)
		}
		ar.SetSection("read", read)
	})
}

func optionsOf(t *testing.T, text []byte) (o dialects.Options) {
	for _, word := range strings.Fields(string(text)) {
		switch word {
		case "in_place":
			o.InPlace = func(model []byte) bool { return string(model) == "m" }
		case "strict":
			o.Strict = true
		case "sealed":
			o.Opener = fakeOpener{}
		case "count":
			o.Count = true
		default:
			t.Fatalf("unknown option %q", word)
		}
	}
	return o
}

// fakeOpener opens the blobs in the golden files for the model m.
type fakeOpener struct{}

func (fakeOpener) OpenReasoning(dst, model, blob []byte) ([]byte, bool) {
	text, ours := bytes.CutPrefix(blob, []byte("blob:"))
	if !ours || string(model) != "m" {
		return dst, false
	}
	return append(dst, text...), true
}

func thinkingIf(shown bool) thinkingDisplay {
	if shown {
		return thinkingShown
	}
	return thinkingHidden
}

func parseEcho(t testing.TB, text []byte) *echo {
	e := &echo{RequestInfo{}, dialects.AnswerIdentity{Model: "public", ID: "msg_1", RequestID: "req_1"}}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if stop, ok := strings.CutPrefix(line, "stop "); ok {
			e.stopSequences = append(e.stopSequences, stop)
		} else if line == "thinking" {
			e.thinking = thinkingShown
		} else {
			t.Fatalf("unknown line %q", line)
		}
	}
	return e
}

// echo contains the request data that a Stream needs.
type echo struct {
	RequestInfo
	dialects.AnswerIdentity
}

func (e *echo) reset(s *Stream) {
	s.RequestInfo = e.RequestInfo
	s.Reset(&e.AnswerIdentity)
}

func appendWhole(dst []byte, c *answer.ChatCompletion, e *echo) ([]byte, error) {
	var s Stream
	e.reset(&s)
	return s.AppendCompletion(dst, c)
}

// errTest is the error at the end of failed streams in tests.
var errTest = apierr.New(529, apierr.CodeUpstreamFailed, "The engine failed.")

// relayStream runs an engine's stream through s, and returns the client's events.
func relayStream(s *Stream, e *echo, upstream []byte) (out []byte, err error) {
	e.reset(s)
	r := sse.NewReader(bytes.NewReader(upstream), 1<<20)
	for {
		ev, readErr := r.NextEvent()
		if readErr != nil {
			break
		}
		if out, err = s.Append(out, ev); err != nil {
			return s.AppendFailure(out, errTest), err
		}
		if s.IsDone() {
			break
		}
	}
	if out, err = s.Finish(out); err != nil {
		return s.AppendFailure(out, errTest), err
	}
	return out, nil
}

// translateWhole assembles an engine's stream into a completion and translates the completion.
func translateWhole(e *echo, upstream []byte) ([]byte, error) {
	var a answer.Assembler
	r := sse.NewReader(bytes.NewReader(upstream), 1<<20)
	for !a.IsDone() {
		ev, err := r.NextEvent()
		if err != nil {
			break
		}
		if err := a.AddEvent(ev); err != nil {
			return nil, err
		}
	}
	body, err := a.AppendCompletion(nil, &answer.WriteOptions{Model: "public", ID: "msg_1"})
	if err != nil {
		return nil, err
	}
	var c answer.ChatCompletion
	if err := c.Parse(body); err != nil {
		return nil, err
	}
	return appendWhole(nil, &c, e)
}

// TestAnswers translates the engine's streams in testdata/answer, as a stream and as a whole
// answer, and compares the results.
func TestAnswers(t *testing.T) {
	golden.RunArchives(t, "testdata/answer", func(t *testing.T, ar *golden.Archive) {
		e := parseEcho(t, ar.Section("echo"))
		var s Stream
		out, err := relayStream(&s, e, ar.Section("upstream-response"))
		ended := checkGrammar(t, out)
		for _, bad := range []string{"SECRET", "served"} {
			if bytes.Contains(out, []byte(bad)) {
				t.Errorf("the client is shown %q", bad)
			}
		}
		whole, wholeErr := translateWhole(e, ar.Section("upstream-response"))
		onlyStream := errors.Is(err, errAfterArguments) // the stream has already ended the tool call
		if (err == nil) != (wholeErr == nil) && !onlyStream || (err == nil) != ended {
			t.Errorf("the stream ends with %v, the whole answer with %v", err, wholeErr)
		}
		ar.SetSection("error", textOf(err))
		ar.SetSection("response", out)
		if wholeErr != nil {
			ar.SetSection("whole", nil)
			return
		}
		if !json.Valid(whole) {
			t.Errorf("the whole answer is not JSON: %s", whole)
		}
		if diff := cmp.Diff(normalizeMessage(t, whole), normalizeMessage(t, collect(t, out))); diff != "" && err == nil {
			t.Errorf("whole and streamed answers differ: -whole +streamed\n%s", diff)
		}
		ar.SetSection("whole", whole)
	})
}
