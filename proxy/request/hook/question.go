package hook

import (
	"errors"
	"io"
	"strconv"
	"sync"

	"penstock/translate/jsonx"
)

// questionVersion is the version of the question format. It changes only if existing hooks would
// misunderstand the new format. Adding members to questions does not change it.
const questionVersion = "1"

// Question is a question about a call for a hook.
type Question struct {
	RequestID    string
	Endpoint     string
	Model        string
	Key          string // id of the key; empty if the edge requires no keys
	PromptTokens int    // estimated
	BodyBytes    int64  // size of the decompressed request body; 0 if unknown
	Stream       bool
	Body         []byte // JSON; nil if the hook does not get the body
}

// encode returns the question as JSON in pieces. One of the pieces is the body, which is not
// copied.
func (q *Question) encode(hook string) [][]byte {
	head := append(make([]byte, 0, 512), `{"version":`+questionVersion+`,"hook":`...)
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

// questionBody is a question that is being sent. A goroutine of net/http may still read it after
// net/http has returned.
type questionBody struct {
	mu     sync.Mutex
	pieces [][]byte // nil after detach
}

func (q *questionBody) size() (n int64) {
	for _, p := range q.pieces {
		n += int64(len(p))
	}
	return n
}

func (q *questionBody) newReader() io.ReadCloser { return &questionReader{body: q} }

// detachReaders detaches all readers from the question. Afterwards, the caller may reuse the memory
// of the pieces.
func (q *questionBody) detachReaders() {
	q.mu.Lock()
	q.pieces = nil
	q.mu.Unlock()
}

var errQuestionEnded = errors.New("the question has ended")

// questionReader reads a question. It does not implement io.WriterTo, because WriteTo would let
// net/http retain the memory of the body.
type questionReader struct {
	body          *questionBody
	piece, offset int
}

func (r *questionReader) Read(p []byte) (n int, err error) {
	r.body.mu.Lock()
	defer r.body.mu.Unlock()
	if r.body.pieces == nil {
		return 0, errQuestionEnded
	}
	for n < len(p) && r.piece < len(r.body.pieces) {
		m := copy(p[n:], r.body.pieces[r.piece][r.offset:])
		n += m
		if r.offset += m; r.offset == len(r.body.pieces[r.piece]) {
			r.piece, r.offset = r.piece+1, 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *questionReader) Close() error { return nil }
