package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Streams, read whole or event by event.

// event is one event of a stream.
type event struct{ name, data string }

// events reads a whole stream.
func (r *reply) events() []event {
	r.t.Helper()
	if ct := r.header.Get("Content-Type"); ct != "text/event-stream" {
		r.t.Fatalf("Content-Type %q, want a stream\n%s", ct, r.body)
	}
	return parseEvents(r.body)
}

// parseEvents is deliberately another parser than the edge's: blank lines end events, comments are dropped.
func parseEvents(text string) []event {
	var out []event
	for block := range strings.SplitSeq(text, "\n\n") {
		var e event
		for line := range strings.SplitSeq(block, "\n") {
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = v
			}
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				e.data += v
			}
		}
		if e.data != "" {
			out = append(out, e)
		}
	}
	return out
}

// stream is an answer that is being read event by event. Comments are skipped.
type stream struct {
	t      testing.TB
	res    *http.Response
	lines  *bufio.Reader
	cancel context.CancelFunc
}

// openStream sends a streamed request and returns when its head has come.
func (p *penstock) openStream(path, body string, header ...string) *stream {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p.t.Cleanup(cancel)
	res := p.open(ctx, "POST", path, body, header...)
	if res.StatusCode != 200 {
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		p.t.Fatalf("status %d\n%s", res.StatusCode, b)
	}
	return &stream{t: p.t, res: res, lines: bufio.NewReader(res.Body), cancel: cancel}
}

// next returns the next event; false at the end.
func (s *stream) next() (e event, ok bool) {
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return e, false
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" && e.data != "":
			return e, true
		case strings.HasPrefix(line, "event: "):
			e.name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			e.data += line[len("data: "):]
		}
	}
}

// leave closes the client's connection in the middle of the answer.
func (s *stream) leave() {
	s.cancel()
	s.res.Body.Close()
}

// text is the visible text of a chat stream, put together, and whether [DONE] came.
func chatText(t testing.TB, events []event) (text string, done bool) {
	t.Helper()
	for _, e := range events {
		if e.data == "[DONE]" {
			done = true
			continue
		}
		var c struct {
			Choices []struct {
				Delta struct{ Content string }
			}
		}
		if err := json.Unmarshal([]byte(e.data), &c); err != nil {
			t.Fatalf("an event is not JSON: %q", e.data)
		}
		for _, ch := range c.Choices {
			text += ch.Delta.Content
		}
	}
	return text, done
}

// Rows 12 to 17 and 19: what an engine does after the client has seen the first bytes of a stream.

// wantBroken checks a stream that ended badly: what came is there, the last event is an error of ours, nothing says that
// the answer is whole, and the body itself ended properly.
func wantBroken(t testing.TB, r *reply, code string) *apiError {
	t.Helper()
	r.wantStatus(200)
	if r.err != nil {
		t.Errorf("the body did not end properly: %v", r.err)
	}
	events := r.events()
	if len(events) < 2 {
		t.Fatalf("nothing of what came was delivered: %q", r.body)
	}
	for _, e := range events {
		if e.data == "[DONE]" {
			t.Error("a broken stream ends in [DONE]")
		}
		if strings.Contains(e.data, `"finish_reason":"stop"`) {
			t.Error("a broken stream has a finish_reason")
		}
	}
	var e struct {
		Error *apiError `json:"error"`
	}
	last := events[len(events)-1].data
	if err := json.Unmarshal([]byte(last), &e); err != nil || e.Error == nil {
		t.Fatalf("the last event is no error: %q", last)
	}
	if e.Error.Code != code {
		t.Errorf("code %q, want %q", e.Error.Code, code)
	}
	wantNoLeak(t, r.body)
	return e.Error
}
