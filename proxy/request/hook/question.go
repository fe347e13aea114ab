package hook

import (
	"errors"
	"io"
	"strconv"
	"sync"

	"penstock/translate/jsonx"
)

// version is the version of the question format. It changes only if an old hook would misunderstand
// a new question; new members do not change it.
const version = "1"

// Question is what a hook is told about a call.
type Question struct {
	RequestID    string
	Endpoint     string // the path
	Model        string // its id
	Key          string // the key's id; empty: the edge asks for no keys
	PromptTokens int    // estimated
	BodyBytes    int64  // size of the request's body, decompressed; 0: unknown
	Stream       bool
	Body         []byte // JSON; nil: the hook does not get the body
}

// pieces returns the question's JSON in pieces. The body is one piece.
func (q *Question) pieces(hook string) [][]byte {
	head := append(make([]byte, 0, 512), `{"version":`+version+`,"hook":`...)
	head = jsonx.AppendStringS(head, hook)
	head = append(head, `,"request_id":`...)
	head = jsonx.AppendStringS(head, q.RequestID)
	head = append(head, `,"endpoint":`...)
	head = jsonx.AppendStringS(head, q.Endpoint)
	head = append(head, `,"model":`...)
	head = jsonx.AppendStringS(head, q.Model)
	head = append(head, `,"key":`...)
	head = jsonx.AppendStringS(head, q.Key)
	head = append(head, `,"prompt_tokens":`...)
	head = strconv.AppendInt(head, int64(q.PromptTokens), 10)
	head = append(head, `,"body_bytes":`...)
	head = strconv.AppendInt(head, q.BodyBytes, 10)
	head = append(head, `,"stream":`...)
	head = strconv.AppendBool(head, q.Stream)
	if q.Body == nil {
		return [][]byte{append(head, '}')}
	}
	return [][]byte{append(head, `,"body":`...), q.Body, {'}'}}
}

// question is a question that is being sent. net/http may read it on another goroutine, and even
// after the answer has arrived.
type question struct {
	mu     sync.Mutex
	pieces [][]byte // nil: it has ended
}

// size returns the number of bytes.
func (q *question) size() (n int64) {
	for _, p := range q.pieces {
		n += int64(len(p))
	}
	return n
}

// reader returns a reader that starts at the question's first byte.
func (q *question) reader() io.ReadCloser { return &questionReader{of: q} }

// end cuts off all readers. The memory of the pieces may be reused once end has returned.
func (q *question) end() {
	q.mu.Lock()
	q.pieces = nil
	q.mu.Unlock()
}

// errEnded is the error that a reader returns after the question has ended.
var errEnded = errors.New("the question has ended")

// questionReader reads a question. It has no WriteTo, because WriteTo would pass on the memory
// itself.
type questionReader struct {
	of        *question
	piece, at int
}

// Read implements io.Reader.
func (r *questionReader) Read(p []byte) (n int, err error) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.of.pieces == nil {
		return 0, errEnded
	}
	for n < len(p) && r.piece < len(r.of.pieces) {
		m := copy(p[n:], r.of.pieces[r.piece][r.at:])
		n += m
		if r.at += m; r.at == len(r.of.pieces[r.piece]) {
			r.piece, r.at = r.piece+1, 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close implements io.Closer.
func (r *questionReader) Close() error { return nil }
