package http1

import (
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// streamPiece is the maximum size of a piece that is read from a body reader and written. Its
	// size has four hexadecimal digits.
	streamPiece = 32 << 10
	// answerCheck is the interval at which a blocked write checks whether the engine has already
	// answered.
	answerCheck = 50 * time.Millisecond
)

// errAnswered ends the write of a request without a failure.
var errAnswered = errors.New("the upstream has answered before it had the whole request")

// bodyError is a failure of the request's own body reader.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "read request body: " + e.err.Error() }

// outgoing holds the memory of a request while it is written.
type outgoing struct {
	b    []byte
	list [][]byte
	vec  net.Buffers // shrinks during the write
}

var outgoingPool = sync.Pool{New: func() any { return &outgoing{b: make([]byte, 0, 4<<10)} }}

func (o *outgoing) release() {
	if cap(o.b) > streamPiece+8<<10 {
		o.b = nil
	}
	clear(o.list[:cap(o.list)]) // otherwise a pooled pointer keeps a prompt alive
	o.vec = nil
	outgoingPool.Put(o)
}

// one returns a vector with b as the only bytes to write.
func (o *outgoing) one(b []byte) *net.Buffers {
	o.list = append(o.list[:0], b)
	o.vec = o.list
	return &o.vec
}

// requestWriter writes a request to a connection.
type requestWriter struct {
	t     *Transport
	c     *conn
	req   *Request
	reply *reply // for an answer that arrives meanwhile
	ack   *ackWatch
	sent  *bool // bytes may have left
	kept  bool  // the connection was used before
}

// write writes the whole request.
func (w *requestWriter) write() error {
	if w.c.secured && (w.req.BodyReader != nil || w.req.size() > smallRequest) {
		defer w.c.interruptUnacked(w.t.ackTimeout, w.t.guard)()
	}
	o := outgoingPool.Get().(*outgoing)
	defer o.release()
	if w.req.BodyReader != nil {
		return w.writeStream(o)
	}
	return w.writePieces(o)
}

// writePieces sends the head and the pieces of Body.
func (w *requestWriter) writePieces(o *outgoing) error {
	if w.req.size() <= smallRequest {
		w.t.copyWhole(o, w.req)
		return w.first(o)
	}
	o.b = w.t.appendHead(o.b[:0], w.req, w.req.size())
	o.list = append(o.list[:0], o.b)
	if w.kept { // the head alone, so no answer to the whole request can arrive yet
		if err := w.first(o); err != nil {
			return err
		}
		o.list = o.list[:0]
	}
	for _, b := range w.req.Body {
		if len(b) > 0 {
			o.list = append(o.list, b)
		}
	}
	o.vec = o.list
	return w.push(&o.vec, true)
}

// first() writes o.b, the start of the request, and checks for bytes that cannot answer the
// request.
func (w *requestWriter) first(o *outgoing) error {
	rest := o.b
	if w.kept && w.c.fetches() {
		n, err := w.c.sendHead(o.b)
		*w.sent = *w.sent || !errors.Is(err, errNotQuiet)
		if err != nil || n == len(o.b) {
			return err
		}
		rest = o.b[n:]
	}
	if err := w.push(o.one(rest), false); err != nil {
		return err
	}
	if w.kept && w.c.leftover(len(o.b)) {
		return errLeftover
	}
	return nil
}

// writeStream sends the head, and the pieces of BodyReader as soon as they are read.
func (w *requestWriter) writeStream(o *outgoing) error {
	if u, ok := w.req.BodyReader.(*Upgrade); ok {
		o.b = w.t.appendUpgrade(o.b[:0], w.req, u)
		return w.push(o.one(o.b), false)
	}
	o.b = w.t.appendHead(o.b[:0], w.req, -1)
	for first, done := true, false; !done; first = false {
		if !first && w.reply.answers(w.c) {
			return errAnswered
		}
		size := len(o.b)
		o.b = append(o.b, "0000\r\n"...)
		data := len(o.b)
		o.b = slices.Grow(o.b, streamPiece+len("\r\n0\r\n\r\n"))
		n, err := readSome(w.req.BodyReader, o.b[data:data+streamPiece])
		if o.b = o.b[:size]; n > 0 {
			hex.Encode(o.b[size:data], []byte{byte(n >> 8), byte(n)})
			o.b = append(o.b[:data+n], "\r\n"...)
		}
		if done = errors.Is(err, io.EOF); done {
			o.b = append(o.b, "0\r\n\r\n"...)
		} else if err != nil {
			return &bodyError{err}
		}
		if err := w.push(o.one(o.b), true); err != nil {
			return err
		}
		o.b = o.b[:0]
	}
	return nil
}

// readSome reads at least one byte, or returns an error.
func readSome(r io.Reader, p []byte) (int, error) {
	for range 100 {
		if n, err := r.Read(p); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// push writes v. The bytes that the socket accepts at once need no deadline. The write timeout
// starts over whenever the engine takes bytes. While a large write is blocked, push checks for an
// answer, because an engine that has refused a request need not read all of it.
func (w *requestWriter) push(v *net.Buffers, large bool) error {
	c, limit := w.c, w.req.WriteTimeout
	if c.fetches() {
		if err := w.pushAtOnce(v); err != nil || len(*v) == 0 {
			return err
		}
	}
	step := limit
	if c.peeks() && !c.secured {
		look := w.t.ackTimeout
		if large {
			look = min(look, answerCheck)
		}
		if limit <= 0 || limit > look {
			step = look
		}
	}
	last := w.req.At // when the engine last took bytes
	if last.IsZero() {
		last = time.Now()
	}
	for now := last; len(*v) > 0; {
		c.armWrite(now, last, step, limit)
		*w.sent = true
		n, err := c.send(v)
		if err == nil && len(*v) == 0 {
			return nil
		}
		now = time.Now()
		if n > 0 {
			last = now
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if (err != nil || large) && w.reply.answers(c) {
			return errAnswered
		}
		if err != nil && (c.secured || now.Sub(last) >= w.t.ackTimeout) && !w.ack.inTime(c, now, w.t.ackTimeout) {
			return errUnacked
		}
		if err != nil && (c.secured || limit > 0 && now.Sub(last) >= limit) {
			return errConnStalled // TLS cannot continue to write after a timeout
		}
	}
	return nil
}

// pushAtOnce writes from the front of v as much as the socket accepts without waiting, 256 KiB at
// most, and removes those bytes from v. The write needs no deadline, and the scheduler does not
// prepare for a blocking system call. In an idle process that preparation would wake the runtime's
// monitor thread: three wake-ups, and a quarter of the cost of a 100 KB prompt at an edge that is
// not busy.
func (w *requestWriter) pushAtOnce(v *net.Buffers) error {
	*w.sent = true
	p := &w.c.poll
	p.pieces, p.left, p.err = *v, 0, nil
	_ = w.c.raw.Control(p.part) // fails on a closed socket only, which the next write reports
	p.pieces = nil
	n := p.left
	for len(*v) > 0 && n >= len((*v)[0]) {
		n -= len((*v)[0])
		(*v)[0] = nil
		*v = (*v)[1:]
	}
	if n > 0 {
		(*v)[0] = (*v)[0][n:]
	}
	return p.err
}
