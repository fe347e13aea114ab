package forward

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"penstock/config/testkit/golden"
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/engineerror"
	"penstock/translate/sse"
)

// TestGolden runs the archives in testdata. Each archive contains the upstream's answer or stream,
// the client's answer or stream, and the usage.
func TestGolden(t *testing.T) {
	t.Parallel()
	golden.RunArchives(t, "testdata", func(t *testing.T, ar *golden.Archive) {
		t.Parallel()
		switch up := ar.Files[0]; up.Name {
		case "upstream-response":
			ar.SetSection("response", []byte(relayWhole(string(up.Data))))
		case "upstream-stream":
			choices := 0
			_, _ = fmt.Sscanf(string(ar.Comment), "choices %d", &choices)
			ar.SetSection("response", []byte(relayStream(t, string(up.Data), choices, strings.TrimSpace(string(ar.Comment)))))
		default:
			t.Fatalf("section %s", up.Name)
		}
	})
}

func usageLine(u translate.Usage) string {
	return fmt.Sprintf("usage: prompt %d, completion %d, total %d, cached %d, known %v, estimated %v\n", u.Prompt, u.Completion, u.Total, u.Cached, u.Known, u.Estimated)
}

func relayWhole(body string) string {
	var a Answer
	if err := a.Parse([]byte(strings.TrimSuffix(body, "\n"))); err != nil {
		var e *engineerror.Error
		return fmt.Sprintf("error: %v; engine's: %v\n", err, errors.As(err, &e))
	}
	return string(a.Append(nil, "public")) + "\n" + usageLine(a.Usage())
}

// relayStream relays a stream. how is "plain" for a transcript in plain text, and "cut" for a
// truncated body.
func relayStream(t *testing.T, text string, choices int, how string) string {
	var first string
	for i, src := range []*sse.Reader{sse.NewReader(strings.NewReader(text), 1<<20), sse.NewReader(iotest.OneByteReader(strings.NewReader(text)), 1<<20)} {
		var s Stream
		s.Reset("public", choices)
		if how == "plain" {
			s.SetPlainText()
		}
		var out []byte
		var err error
		for err == nil && !s.IsDone() {
			var ev sse.Event
			if ev, err = src.NextEvent(); err == nil {
				out, err = s.Append(out, ev)
			}
		}
		end := ""
		if err == nil || err.Error() == "EOF" {
			if how != "cut" {
				s.MarkEnded()
			}
			if out, err = s.Finish(out); err == nil {
				again, _ := s.Finish(nil)
				if again = s.AppendFailure(again, apierr.InternalError(nil)); len(again) > 0 {
					t.Errorf("behind the end: %s", again)
				}
			}
		}
		if err != nil {
			end = fmt.Sprintf("error: %v\n", err)
			out = s.AppendFailure(out, apierr.New(502, apierr.CodeUpstreamFailed, "The engine failed."))
		}
		got := string(out) + end + usageLine(s.Usage())
		if i > 0 && got != first {
			t.Errorf("in pieces:\n%s", got)
		}
		first = got
	}
	return first
}

func TestStreamSignsOfLife(t *testing.T) {
	t.Parallel()
	var s Stream
	s.Reset("public", 1)
	if got := string(s.AppendKeepalive(nil)); got != ": keep-alive\n\n" {
		t.Errorf("AppendKeepalive = %q, want a comment", got)
	}
	if out := s.AppendFailure(s.AppendFailure(nil, apierr.InternalError(nil)), apierr.InternalError(nil)); strings.Count(string(out), "data: ") != 1 {
		t.Errorf("failed twice: %s", out)
	}
}

// TestStreamIsFinished checks when a stream counts as finished, which means that it may end successfully
// without more events.
func TestStreamIsFinished(t *testing.T) {
	t.Parallel()
	every := func(member string) string { // repeats member for the maximum number of choices
		return `{"choices":[{` + member + `}` + strings.Repeat(`,{`+member+`}`, maxChoices-1) + `]}`
	}
	for _, c := range []struct {
		choices int
		events  []string
		want    bool
	}{
		// One part of a long recording has ended.
		{0, []string{`{"choices":[{"index":0,"finish_reason":"stop"}]}`}, false},
		{0, []string{`{"type":"transcript.text.done"}`}, true},
		{1, nil, false},
		{1, []string{`[DONE]`}, false},
		{2, []string{`{"choices":[{"index":0,"finish_reason":"stop"}]}`}, false},
		{2, []string{`{"choices":[{"index":0,"finish_reason":"stop"}]}`, `[DONE]`}, true},
		{maxChoices, []string{every(`"text":"x"`)}, false},
		{maxChoices, []string{every(`"text":"x"`), every(`"finish_reason":"stop"`)}, true},
		// An excess choice is ignored.
		{maxChoices, []string{every(`"finish_reason":"stop"`), `{"choices":[{"index":5000}]}`}, true},
	} {
		var s Stream
		s.Reset("public", c.choices)
		for _, data := range c.events {
			if _, err := s.Append(nil, sse.Event{Data: []byte(data)}); err != nil {
				t.Errorf("Append of %.60s = %v, want success", data, err)
			}
		}
		if s.IsFinished() != c.want {
			t.Errorf("%d choices, %.60s: whole %v", c.choices, c.events, s.IsFinished())
		}
	}
}

// FuzzStream checks that no input causes a panic, and that the client receives only [DONE] and
// events with one line of JSON.
func FuzzStream(f *testing.F) {
	f.Add("data: {\"choices\":[{\"index\":0,\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", 1)
	f.Add("event: x\ndata: {\"type\":\ndata: \"transcript.text.done\"}\n\n", 0)
	f.Add("data: {\"text\":\"one\"}\n\ndata: two {\n\n", -1)
	f.Fuzz(func(t *testing.T, text string, choices int) {
		out := relayStream(t, text, max(0, choices%10), map[int]string{-1: "plain", -2: "cut"}[choices%10])
		for line := range strings.Lines(out) {
			if d, ok := strings.CutPrefix(line, "data: "); ok && d != "[DONE]\n" && (len(d) < 2) {
				t.Fatalf("an event without data in %q", out)
			}
		}
	})
}

func TestEdit(t *testing.T) {
	t.Parallel()
	e := &ImageEdit{Refuse: chat.NewRefusedMembers("bootstrap_*")}
	for _, c := range []struct{ name, value, as, code string }{
		{"prompt", "x", "prompt", ""},
		{"model", "m", "", ""},
		{"model", "m", "", "duplicate_member"},
		{"Model", "m", "", "duplicate_member"},
		{"stream", "true", "", "unsupported_parameter"},
		{"strea", "x", "strea", ""}, // only the start of a known name
		{"models", "x", "models", ""},
		{"image", "https://example.com/a.png", "", "invalid_value"},
		{"Bootstrap_Host", "x", "Bootstrap_Host", "unsupported_parameter"},
	} {
		as, err := e.AddTextField(c.name, []byte(c.value))
		if as != c.as && err == nil || errorCode(err) != c.code {
			t.Errorf("%s=%s: got %q, %v, want %q with the code %q", c.name, c.value, as, err, c.as, c.code)
		}
	}
	if _, err := e.Finish(); errorCode(err) != "missing_parameter" {
		t.Errorf("without a file: %v", err)
	}
	for name, code := range map[string]string{"image[]": "", "mask": "", "model": "duplicate_member", "x-file": "unsupported_parameter"} {
		if _, err := e.BeginFile(name); errorCode(err) != code {
			t.Errorf("BeginFile(%s) = %v, want the code %q", name, err, code)
		}
	}
	if _, err := e.Finish(); err != nil || string(e.Model()) != "m" || e.WantsStream() || e.EndFile(0) != nil {
		t.Errorf("Finish = %v, want success with the model m", err)
	}
	if _, err := new(ImageEdit).BeginFile("model"); errorCode(err) != "invalid_type" {
		t.Errorf("model as a file: %v", err)
	}
	e = new(ImageEdit)
	for _, c := range []struct{ name, value, code string }{
		{"MODEL", "m", "duplicate_member"}, {"model", "", "invalid_value"}, {"stream", "False", ""}, {"stream", "false", "duplicate_member"},
	} {
		if as, err := e.AddTextField(c.name, []byte(c.value)); as != "" || errorCode(err) != c.code {
			t.Errorf("%s=%s: got %q, %v, want nothing with the code %q", c.name, c.value, as, err, c.code)
		}
	}
	if _, err := new(ImageEdit).Finish(); errorCode(err) != "missing_parameter" || !strings.Contains(err.Error(), "(model)") {
		t.Errorf("an empty form: %v", err)
	}
}

func errorCode(err error) string {
	var e *apierr.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// TestStreamAppendTranscript checks that a whole transcript from an engine becomes the stream that the
// client requested.
func TestStreamAppendTranscript(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body, want, bad string }{
		{"bare", `{"text":"one","kv_transfer_params":{"remote_host":"10.0.0.1"}}`, `data: {"type":"transcript.text.delta","delta":"one"}

data: {"type":"transcript.text.done","text":"one"}

`, ""},
		{"json", "{\"model\":\"inner\",\n\"text\":\"one \\\"two\\\"\",\"usage\":{\"input_tokens\":3,\"output_tokens\":2}}", `data: {"type":"transcript.text.delta","delta":"one \"two\""}

data: {"type":"transcript.text.done","model":"public", "text":"one \"two\"","usage":{"input_tokens":3,"output_tokens":2}}

`, ""},
		{"text", "1\n00:00 --> 00:01\none\n", `data: {"type":"transcript.text.delta","delta":"1\n00:00 --> 00:01\none\n"}

data: {"type":"transcript.text.done","text":"1\n00:00 --> 00:01\none\n"}

`, ""},
		{"no text", `{"id":1}`, "", "no text"},
		{"no object", `[1]`, "", "not a JSON object"},
		{"cut", `{"text":"on`, "", "invalid JSON"},
		{"error", `{"error":{"message":"out of memory"},"text":""}`, "", "engine error"},
	} {
		var s Stream
		s.Reset("public", 0)
		out, err := s.AppendTranscript(nil, []byte(c.body), c.name != "text")
		if err == nil {
			out, err = s.Finish(out)
		}
		if got := string(out); got != c.want || (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: error %v, want %q; got\n%s\nwant\n%s", c.name, err, c.bad, got, c.want)
		}
		if u := s.Usage(); c.name == "json" && (u.Prompt != 3 || u.Completion != 2) {
			t.Errorf("got the usage %+v, want 3 prompt and 2 completion tokens", u)
		}
	}
}
