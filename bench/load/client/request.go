package client

import (
	"bytes"
	"strconv"
	"time"

	"penstock/translate/jsonx"
)

// Message is a turn of a conversation, independent of the dialect.
type Message struct {
	Role    string // system, user or assistant
	Text    []byte
	Images  [][]byte     // data URLs
	Calls   []ToolCall   // of an assistant
	Results []ToolResult // of a user: answers to the calls in the previous message
}

// ToolResult is the result of a tool.
type ToolResult struct{ ID, Text []byte }

// Request is one request, independent of its dialect. The workload creates a request, and the
// runner sends it once.
type Request struct {
	ID        int // its session's position in the workload
	D         *Dialect
	Model     string
	Stream    bool
	Keep      bool // keep the text of the reply
	Messages  []Message
	InWanted  int
	OutWanted int
	Tools     []byte // rendered for the dialect
	Extra     []byte // further members, each preceded by a comma
	Audio     []byte
	AudioS    float64

	SessionID string // sent as X-Session-Id; empty: none
	Session   *Session
	Turn      int
	Leave     *Departure
	Pair      int // index of the pair with --compare-url
	Target    int
}

// Departure is the time at which a client leaves on purpose.
type Departure struct {
	Tokens int           // after this many events with tokens
	After  time.Duration // or this long after sending; if both are set, whichever comes first
}

// Prompt returns the text of the last message, for dialects without roles.
func (q *Request) Prompt() []byte {
	if len(q.Messages) == 1 {
		return q.Messages[0].Text
	}
	var all [][]byte
	for i := range q.Messages {
		all = append(all, q.Messages[i].Text)
	}
	return bytes.Join(all, []byte("\n"))
}

// put appends a format in which %s is a text, written as JSON, and %r is copied unchanged.
func put(dst []byte, format string, args ...[]byte) []byte {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			dst = append(dst, format[i])
			continue
		}
		if i++; format[i] == 's' {
			dst = jsonx.AppendString(dst, args[0])
		} else {
			dst = append(dst, args[0]...)
		}
		args = args[1:]
	}
	return dst
}

// putNext is put for an element of a list. It writes a comma before all elements but the first.
func putNext(dst []byte, format string, args ...[]byte) []byte {
	if dst[len(dst)-1] != '[' {
		dst = append(dst, ',')
	}
	return put(dst, format, args...)
}

// appendModel starts a body with the model.
func (q *Request) appendModel(dst []byte) []byte {
	return jsonx.AppendStringS(append(dst, `{"model":`...), q.Model)
}

// appendSystem appends the system message as a member with the given name, and returns the messages
// after it.
func (q *Request) appendSystem(dst []byte, name string) ([]byte, []Message) {
	if len(q.Messages) == 0 || q.Messages[0].Role != "system" {
		return dst, q.Messages
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return jsonx.AppendString(dst, q.Messages[0].Text), q.Messages[1:]
}

// appendRest appends the answer's limit under the dialect's name, and the members that all bodies
// share. It then closes the object. askUsage requests usage: streams of chat and completions do not
// report it otherwise.
func (q *Request) appendRest(dst []byte, bound string, askUsage bool) []byte {
	dst = append(append(append(dst, `,"`...), bound...), `":`...)
	dst = strconv.AppendInt(dst, int64(q.OutWanted), 10)
	if q.Stream {
		dst = append(dst, `,"stream":true`...)
		if askUsage {
			dst = append(dst, `,"stream_options":{"include_usage":true}`...)
		}
	}
	dst = append(dst, q.Tools...)
	return append(append(dst, q.Extra...), '}')
}

// Session is a conversation: its turns are consecutive requests.
type Session struct {
	Turns   int
	Human   [][]byte // the user's texts from a data set; nil: they are generated
	History []Message
}
