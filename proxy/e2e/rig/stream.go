package rig

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Event is one event of a stream.
type Event struct{ Name, Data string }

// Events returns the events of a complete stream.
func (r *Reply) Events() []Event {
	r.T.Helper()
	if ct := r.Header.Get("Content-Type"); ct != "text/event-stream" {
		r.T.Fatalf("Content-Type %q, want a stream\n%.2000s", ct, r.Body)
	}
	if r.Err != nil {
		r.T.Errorf("the body did not end properly: %v", r.Err)
	}
	return ParseEvents(r.Body)
}

// ParseEvents parses a stream without the edge's parser. Comments are dropped.
func ParseEvents(text string) []Event {
	var out []Event
	for block := range strings.SplitSeq(text, "\n\n") {
		var e Event
		for line := range strings.SplitSeq(block, "\n") {
			e.addLine(line)
		}
		if e.Data != "" {
			out = append(out, e)
		}
	}
	return out
}

func (e *Event) addLine(line string) {
	if v, ok := strings.CutPrefix(line, "event: "); ok {
		e.Name = v
	}
	if v, ok := strings.CutPrefix(line, "data: "); ok {
		e.Data += v
	}
}

// Stream is a response that is read event by event. Comments are skipped.
type Stream struct {
	Response *http.Response
	T        testing.TB
	lines    *bufio.Reader
	cancel   context.CancelFunc
}

// OpenStream sends a streamed request and waits for the response's head.
func (e *Edge) OpenStream(path, body string, header ...string) *Stream {
	e.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	e.T.Cleanup(cancel)
	res := e.OpenResponse(ctx, "POST", path, body, header...)
	if res.StatusCode != 200 {
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		e.T.Fatalf("status %d\n%s", res.StatusCode, b)
	}
	return &Stream{T: e.T, Response: res, lines: bufio.NewReader(res.Body), cancel: cancel}
}

// Next returns the next event. ok is false at the end.
func (s *Stream) Next() (e Event, ok bool) {
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return e, false
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" && e.Data != "" {
			return e, true
		}
		e.addLine(line)
	}
}

// Disconnect closes the client's connection in the middle of the response.
func (s *Stream) Disconnect() {
	s.cancel()
	s.Response.Body.Close()
}
