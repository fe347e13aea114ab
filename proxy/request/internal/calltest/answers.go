package calltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Say answers a chat request with text, and streams it word by word if the request asks for a
// stream.
func Say(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !AsksStream(r) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`, text)
			return
		}
		s := Stream(w)
		for _, word := range strings.SplitAfter(text, " ") {
			s.Say(word)
		}
		s.End()
	}
}

// Reply answers with a status, a Content-Type (if mediaType is not empty) and a body. It pauses for
// a millisecond after each piece of the body.
func Reply(status int, mediaType string, pieces ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if mediaType != "" {
			w.Header().Set("Content-Type", mediaType)
		}
		w.WriteHeader(status)
		for _, piece := range pieces {
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			time.Sleep(time.Millisecond)
		}
	}
}

// AsksStream reports whether a request asks for a stream. It consumes the request body.
func AsksStream(r *http.Request) bool {
	var asked struct{ Stream bool }
	body, _ := io.ReadAll(r.Body)
	return json.Unmarshal(body, &asked) == nil && asked.Stream
}

// Refuse answers with a status and an error object.
func Refuse(status int, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		kind := "invalid_request_error"
		if status >= http.StatusInternalServerError {
			kind = "server_error"
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":%q,"type":%q,"code":null}}`, message, kind)
	}
}

// BreakOff closes the connection without an answer.
func BreakOff(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// After waits before it answers, unless the edge closes the connection first.
func After(d time.Duration, then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
			then(w, r)
		case <-r.Context().Done():
		}
	}
}

// InTurn answers each request with the next of the given answers. After the last answer, it repeats
// that answer.
func InTurn(answers ...http.HandlerFunc) http.HandlerFunc {
	n := make(chan int, 1)
	n <- 0
	return func(w http.ResponseWriter, r *http.Request) {
		i := <-n
		n <- i + 1
		answers[min(i, len(answers)-1)](w, r)
	}
}

// Events writes the events of an engine's stream.
type Events struct{ w http.ResponseWriter }

// Stream starts a stream.
func Stream(w http.ResponseWriter) Events {
	w.Header().Set("Content-Type", "text/event-stream")
	return Events{w}
}

// Send sends one event.
func (s Events) Send(data string) {
	fmt.Fprintf(s.w, "data: %s\n\n", data)
	s.w.(http.Flusher).Flush()
}

// Say sends a piece of text.
func (s Events) Say(text string) {
	s.Send(fmt.Sprintf(`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q}}]}`, text))
}

// End ends a successful stream with usage.
func (s Events) End() {
	s.Send(`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	s.Send(`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`)
	s.Send("[DONE]")
}
