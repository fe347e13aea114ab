package client

import (
	"bytes"
	"strconv"
	"time"

	"penstock/translate/jsonx"
)

// Message is a message in a conversation, in a dialect-independent form.
type Message struct {
	Role    string // system, user or assistant
	Text    []byte
	Images  [][]byte     // data URLs
	Calls   []ToolCall   // set only for an assistant
	Results []ToolResult // set only for a user: results of the tool calls in the previous message
}

// ToolResult is the result of a tool call.
type ToolResult struct{ ID, Text []byte }

// Request is a request in a dialect-independent form. The workload creates it, and the runner sends
// it once.
type Request struct {
	ID        int // position of the request's session in the workload
	D         *Dialect
	Model     string
	Stream    bool
	Keep      bool // whether to keep the response text
	Messages  []Message
	InWanted  int
	OutWanted int
	Tools     []byte // tools in the dialect's format
	Extra     []byte // additional members, each preceded by a comma
	Audio     []byte
	AudioS    float64

	SessionID string // sent as X-Session-Id, unless empty
	Session   *Session
	Turn      int
	Leave     *PlannedDeparture
	Pair      int // index of the pair with --compare-url
	Target    int
}

// PlannedDeparture defines when a client disconnects on purpose.
type PlannedDeparture struct {
	Tokens int // after this many token events
	// this long after sending; if both are set, the client leaves at the earlier of the two
	After time.Duration
}

// PromptText returns the text of all messages, for dialects without roles.
func (q *Request) PromptText() []byte {
	if len(q.Messages) == 1 {
		return q.Messages[0].Text
	}
	var all [][]byte
	for i := range q.Messages {
		all = append(all, q.Messages[i].Text)
	}
	return bytes.Join(all, []byte("\n"))
}

// appendFormat appends format to dst. It replaces each %s with an argument as a JSON string, and
// each %r with an unchanged argument.
func appendFormat(dst []byte, format string, args ...[]byte) []byte {
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

// appendListElement is like appendFormat, but appends an element of a list. It writes a comma
// before every element except the first.
func appendListElement(dst []byte, format string, args ...[]byte) []byte {
	if dst[len(dst)-1] != '[' {
		dst = append(dst, ',')
	}
	return appendFormat(dst, format, args...)
}

// appendModelMember appends the start of a body: the member "model".
func (q *Request) appendModelMember(dst []byte) []byte {
	return jsonx.AppendStringS(append(dst, `{"model":`...), q.Model)
}

// appendSystemMember appends the system message as the member with the given name, and returns the
// remaining messages.
func (q *Request) appendSystemMember(dst []byte, name string) ([]byte, []Message) {
	if len(q.Messages) == 0 || q.Messages[0].Role != "system" {
		return dst, q.Messages
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return jsonx.AppendString(dst, q.Messages[0].Text), q.Messages[1:]
}

// appendCommonMembers appends the token limit, under the member name bound, and the members that
// all bodies share. It then closes the object. If askUsage is true, the body also requests usage,
// which chat and completions streams do not contain by default.
func (q *Request) appendCommonMembers(dst []byte, bound string, askUsage bool) []byte {
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

// Session is a conversation. Its turns are consecutive requests.
type Session struct {
	Turns   int
	Human   [][]byte // the user's texts, from a data set; nil: the texts are generated
	History []Message
}
