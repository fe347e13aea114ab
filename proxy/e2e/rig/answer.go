package rig

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// VisibleText returns the visible text of a reply, which must be successful and complete.
func (r *Reply) VisibleText(w RequestType) string {
	r.T.Helper()
	r.WantStatus(200)
	if !w.Stream {
		return r.plainText(w)
	}
	text, whole := StreamText(r.T, w, r.Events())
	if !whole {
		r.T.Errorf("the stream does not end as a whole one does: …%s", r.Body[max(0, len(r.Body)-600):])
	}
	return text
}

func (r *Reply) plainText(w RequestType) string {
	r.T.Helper()
	if w.Dialect == "speech" {
		if r.Err != nil || !strings.HasPrefix(r.Body, "RIFF") || r.Header.Get("Content-Type") != "audio/wav" {
			r.T.Errorf("%v: %.40q is no audio, but %s", r.Err, r.Body, r.Header.Get("Content-Type"))
		}
		return r.Body
	}
	var a struct {
		Text    json.RawMessage // a string in a transcription, an object in Responses
		Choices []struct{ Message struct{ Content string } }
		Content []struct{ Text string }
		Output  []struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal([]byte(r.Body), &a); err != nil {
		r.T.Fatalf("the answer is not JSON: %v\n%.2000s", err, r.Body)
	}
	var b strings.Builder
	if len(a.Text) > 0 && a.Text[0] == '"' {
		b.Write(a.Text)
	}
	for _, c := range a.Choices {
		b.WriteString(c.Message.Content)
	}
	for _, c := range a.Content {
		b.WriteString(c.Text)
	}
	for _, o := range a.Output {
		for _, c := range o.Content {
			b.WriteString(c.Text)
		}
	}
	if b.Len() == 0 {
		r.T.Errorf("no text in a %s answer: %.600s", w.Dialect, r.Body)
	}
	return b.String()
}

// StreamText returns the visible text of a stream, and whether the stream ended properly.
func StreamText(t testing.TB, w RequestType, events []Event) (text string, whole bool) {
	t.Helper()
	var b strings.Builder
	finished := false
	for _, ev := range events {
		if ev.Data == "[DONE]" {
			whole = finished
			continue
		}
		var c struct {
			Type    string
			Choices []struct {
				Delta        struct{ Content string }
				FinishReason *string `json:"finish_reason"`
			}
			Delta json.RawMessage
		}
		if err := json.Unmarshal([]byte(ev.Data), &c); err != nil {
			t.Fatalf("an event is not JSON: %q", ev.Data)
		}
		for _, ch := range c.Choices {
			b.WriteString(ch.Delta.Content)
			finished = finished || ch.FinishReason != nil
		}
		switch c.Type {
		case "content_block_delta":
			var d struct{ Text string }
			_ = json.Unmarshal(c.Delta, &d)
			b.WriteString(d.Text)
		case "message_stop":
			whole = w.Dialect == "messages"
		case "response.output_text.delta":
			var d string
			_ = json.Unmarshal(c.Delta, &d)
			b.WriteString(d)
		case "response.completed":
			finished = true
		}
	}
	return b.String(), whole
}

// WantBrokenStream checks a stream that failed after its first bytes. The last event must be an error in
// the dialect, and the answer must not be marked as complete. code is the error code that chat
// uses.
func (r *Reply) WantBrokenStream(w RequestType, code string) *APIError {
	r.T.Helper()
	r.WantStatus(200)
	events := r.Events()
	if text, whole := StreamText(r.T, w, slices.DeleteFunc(slices.Clone(events), IsErrorEvent)); text == "" || whole {
		r.T.Errorf("text %q came, whole: %v\n%.2000s", text, whole, r.Body)
	}
	WantNoLeak(r.T, "the stream", r.Body, "127.0.0.1:")
	tail := events
	if w.Dialect == "responses" { // error, response.failed and the end mark of the SSE framing
		tail = events[max(0, len(events)-3):]
		if len(tail) < 3 || tail[0].Name != "error" || tail[1].Name != "response.failed" || tail[2].Data != "[DONE]" {
			r.T.Fatalf("the stream ends with %v", tail)
		}
		code = responsesErrorCode(code)
		if !strings.Contains(tail[1].Data, `"error":{"code":"`+code+`"`) ||
			!strings.Contains(tail[1].Data, `"status":"failed"`) {
			r.T.Errorf("response.failed says %s, want %s", tail[1].Data, code)
		}
		tail = tail[:1]
	}
	last := tail[len(tail)-1]
	var e struct {
		Type  string
		Error *APIError
	}
	if err := json.Unmarshal([]byte(last.Data), &e); err != nil || e.Error == nil || e.Error.Message == "" {
		r.T.Fatalf("the last event is no error: %q", last.Data)
	}
	if e.Error.Code != code {
		r.T.Errorf("code %q, want %q", e.Error.Code, code)
	}
	if w.Dialect == "messages" && (last.Name != "error" || e.Type != "error" ||
		(e.Error.Type != "overloaded_error") != (code == "capacity_full")) {
		r.T.Errorf("the error event is not the dialect's: %v", last)
	}
	for _, ev := range events {
		if w.Dialect == "chat" && ev.Data == "[DONE]" || strings.Contains(ev.Data, `"finish_reason":"stop"`) ||
			strings.Contains(ev.Data, `"message_stop"`) {
			r.T.Errorf("a broken stream says it is whole: %q", ev.Data)
		}
	}
	return e.Error
}

// IsErrorEvent reports whether an event signals that a stream has failed.
func IsErrorEvent(ev Event) bool {
	return ev.Name == "error" || ev.Name == "response.failed" || strings.HasPrefix(ev.Data, `{"error":`)
}

// responsesErrorCode returns the error code in events of Responses.
func responsesErrorCode(code string) string {
	switch code {
	case "capacity_full", "rate_limited":
		return "rate_limit_exceeded"
	case "rejected_by_engine":
		return "invalid_prompt"
	case "context_length_exceeded":
		return code
	}
	return "server_error"
}
