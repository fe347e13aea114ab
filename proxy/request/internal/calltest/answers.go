package calltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"penstock/upstreams/http1"
)

// TextHandler answers a chat request with text. If the request asks for a stream, TextHandler streams
// the text word by word.
func TextHandler(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !AsksStream(r) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`, text)
			return
		}
		s := StartStream(w)
		for _, word := range strings.SplitAfter(text, " ") {
			s.SendText(word)
		}
		s.Finish()
	}
}

// PiecesHandler answers with a status, a Content-Type (if mediaType is not empty) and a body. It
// pauses for a millisecond after each piece of the body.
func PiecesHandler(status int, mediaType string, pieces ...string) http.HandlerFunc {
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

// ErrorHandler answers with a status and an error object.
func ErrorHandler(status int, message string) http.HandlerFunc {
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

// AbortConnection closes the connection without an answer.
func AbortConnection(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// UpgradeHandler accepts a WebSocket handshake and calls then with the connection, which it closes
// afterwards.
func UpgradeHandler(then func(net.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+
			http1.AcceptKey(r.Header.Get("Sec-WebSocket-Key"))+"\r\n\r\n")
		if err == nil {
			then(conn)
		}
	}
}

// DelayHandler waits before it answers, unless the edge closes the connection first.
func DelayHandler(d time.Duration, then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
			then(w, r)
		case <-r.Context().Done():
		}
	}
}

// SequenceHandler answers each request with the next of the given answers. After all answers have
// been used, it repeats the last one.
func SequenceHandler(answers ...http.HandlerFunc) http.HandlerFunc {
	n := make(chan int, 1)
	n <- 0
	return func(w http.ResponseWriter, r *http.Request) {
		i := <-n
		n <- i + 1
		answers[min(i, len(answers)-1)](w, r)
	}
}

// EventWriter writes the events of an engine's stream.
type EventWriter struct{ w http.ResponseWriter }

// StartStream starts a stream.
func StartStream(w http.ResponseWriter) EventWriter {
	w.Header().Set("Content-Type", "text/event-stream")
	return EventWriter{w}
}

// Send sends one event.
func (s EventWriter) Send(data string) {
	fmt.Fprintf(s.w, "data: %s\n\n", data)
	s.w.(http.Flusher).Flush()
}

// SendText sends a piece of text.
func (s EventWriter) SendText(text string) {
	s.Send(fmt.Sprintf(`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q}}]}`, text))
}

// Finish ends a successful stream with usage.
func (s EventWriter) Finish() {
	s.Send(`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	s.Send(`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`)
	s.Send("[DONE]")
}
