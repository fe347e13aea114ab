package bench

import (
	"bytes"
	"strconv"
	"time"

	"penstock/translate/jsonx"
)

// message is a turn of a conversation, in no dialect's form.
type message struct {
	role    string // system, user or assistant
	text    []byte
	images  [][]byte     // data URLs
	calls   []toolCall   // of an assistant
	results []toolResult // of a user: answers to the calls of the message before
}

// toolResult is what a tool gave back.
type toolResult struct{ id, text []byte }

// request is one request before it is written in its dialect. The workload makes it and the runner sends it once.
type request struct {
	id        int // of its session's place in the workload
	d         *dialect
	model     string
	stream    bool
	keep      bool // the text of the reply
	messages  []message
	inWanted  int
	outWanted int
	tools     []byte      // rendered for the dialect
	extra     []byte      // further members, each with its comma before it
	form      []formField // further fields of a form
	voice     string
	audio     []byte
	audioS    float64

	session *session
	turn    int
	leave   *departure
	pair    int // index of the pair with --compare-url
	target  int
}

// formField is a field of a multipart body.
type formField struct{ name, value string }

// departure says when a client leaves on purpose.
type departure struct {
	tokens int           // after so many events with tokens
	after  time.Duration // or that long after sending; the first of both that is above 0
}

// prompt is the text of the last message, for dialects that know no roles.
func (q *request) prompt() []byte {
	if len(q.messages) == 1 {
		return q.messages[0].text
	}
	var all [][]byte
	for i := range q.messages {
		all = append(all, q.messages[i].text)
	}
	return bytes.Join(all, []byte("\n"))
}

// appendModel opens a body.
func (q *request) appendModel(dst []byte) []byte {
	return jsonx.AppendStringS(append(dst, `{"model":`...), q.model)
}

// appendSystem appends the system message as a member of that name, and returns the messages behind it.
func (q *request) appendSystem(dst []byte, name string) ([]byte, []message) {
	if len(q.messages) == 0 || q.messages[0].role != "system" {
		return dst, q.messages
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return jsonx.AppendString(dst, q.messages[0].text), q.messages[1:]
}

// appendRest appends the bound of the answer, in the member that the dialect has for it, and what bodies have in common, and closes
// the object. Only chat's kin must be asked for usage in streams.
func (q *request) appendRest(dst []byte, bound string, askUsage bool) []byte {
	dst = append(append(append(dst, `,"`...), bound...), `":`...)
	dst = strconv.AppendInt(dst, int64(q.outWanted), 10)
	if q.stream {
		dst = append(dst, `,"stream":true`...)
		if askUsage {
			dst = append(dst, `,"stream_options":{"include_usage":true}`...)
		}
	}
	dst = append(dst, q.tools...)
	return append(append(dst, q.extra...), '}')
}
