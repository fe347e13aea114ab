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
	// maxStreamPiece is the maximum size of a piece that is read from a BodyReader and written as
	// one chunk. In hexadecimal, this size has four digits.
	maxStreamPiece = 32 << 10
	// answerCheckInterval is the interval at which a blocked write checks for an early response.
	answerCheckInterval = 50 * time.Millisecond
)

// errAnswered stops the write of a request because the response has arrived. It is not a failure.
var errAnswered = errors.New("the upstream has answered before it had the whole request")

type bodyError struct{ err error }

func (e *bodyError) Error() string { return "read request body: " + e.err.Error() }

// writeBuffers contains a request's buffers while the request is being written.
type writeBuffers struct {
	b    []byte
	list [][]byte
	vec  net.Buffers // shrinks during the write
}

var writeBuffersPool = sync.Pool{New: func() any { return &writeBuffers{b: make([]byte, 0, 4<<10)} }}

func (o *writeBuffers) release() {
	if cap(o.b) > maxStreamPiece+8<<10 {
		o.b = nil
	}
	clear(o.list[:cap(o.list)]) // otherwise the pool would keep a prompt in memory
	o.vec = nil
	writeBuffersPool.Put(o)
}

// singlePiece returns vec with b as its only piece.
func (o *writeBuffers) singlePiece(b []byte) *net.Buffers {
	o.list = append(o.list[:0], b)
	o.vec = o.list
	return &o.vec
}

type requestWriter struct {
	t          *Transport
	c          *conn
	req        *Request
	reply      *reply // receives an early response
	ack        *ackWatch
	sentFlag   *bool // set when bytes may have been sent
	reusedConn bool  // the connection has served an earlier exchange
}

func (w *requestWriter) write() error {
	if w.c.isTLS && (w.req.BodyReader != nil || w.req.size() > maxSmallBody) {
		defer w.c.interruptUnacked(w.t.ackTimeout, w.t.guard)()
	}
	o := writeBuffersPool.Get().(*writeBuffers)
	defer o.release()
	if w.req.BodyReader != nil {
		return w.writeStream(o)
	}
	return w.writePieces(o)
}

// writePieces sends the head and Body.
func (w *requestWriter) writePieces(o *writeBuffers) error {
	if w.req.size() <= maxSmallBody {
		w.t.appendFullRequest(o, w.req)
		return w.writeFirst(o)
	}
	o.b = w.t.appendHead(o.b[:0], w.req, w.req.size())
	o.list = append(o.list[:0], o.b)
	if w.reusedConn { // send only the head first: the response cannot arrive before the whole request was sent
		if err := w.writeFirst(o); err != nil {
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
	return w.writeAll(&o.vec, true)
}

// writeFirst writes o.b, the start of the request. It also checks whether bytes have arrived that
// cannot be the response.
func (w *requestWriter) writeFirst(o *writeBuffers) error {
	rest := o.b
	if w.reusedConn && w.c.canReadWithPooledBuffer() {
		n, err := w.c.sendHead(o.b)
		*w.sentFlag = *w.sentFlag || !errors.Is(err, errNotQuiet)
		if err != nil || n == len(o.b) {
			return err
		}
		rest = o.b[n:]
	}
	if err := w.writeAll(o.singlePiece(rest), false); err != nil {
		return err
	}
	if w.reusedConn && w.c.hasUnsolicitedBytes(len(o.b)) {
		return errBytesBeforeRequestArrived
	}
	return nil
}

// writeStream sends the head, and then the pieces that BodyReader returns.
func (w *requestWriter) writeStream(o *writeBuffers) error {
	if u, ok := w.req.BodyReader.(*WebSocketHandshake); ok {
		o.b = w.t.appendUpgrade(o.b[:0], w.req, u)
		return w.writeAll(o.singlePiece(o.b), false)
	}
	o.b = w.t.appendHead(o.b[:0], w.req, -1)
	for first, done := true, false; !done; first = false {
		if !first && w.reply.hasAnswered(w.c) {
			return errAnswered
		}
		size := len(o.b)
		o.b = append(o.b, "0000\r\n"...)
		data := len(o.b)
		o.b = slices.Grow(o.b, maxStreamPiece+len("\r\n0\r\n\r\n"))
		n, err := readSome(w.req.BodyReader, o.b[data:data+maxStreamPiece])
		if o.b = o.b[:size]; n > 0 {
			hex.Encode(o.b[size:data], []byte{byte(n >> 8), byte(n)})
			o.b = append(o.b[:data+n], "\r\n"...)
		}
		if done = errors.Is(err, io.EOF); done {
			o.b = append(o.b, "0\r\n\r\n"...)
		} else if err != nil {
			return &bodyError{err}
		}
		if err := w.writeAll(o.singlePiece(o.b), true); err != nil {
			return err
		}
		o.b = o.b[:0]
	}
	return nil
}

func readSome(r io.Reader, p []byte) (int, error) {
	for range 100 {
		if n, err := r.Read(p); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// writeAll writes v. It first writes as much as the socket accepts without waiting, which requires
// no deadline. The write timeout restarts whenever the engine accepts bytes. While a large write is
// blocked, writeAll checks for a response, because an engine that rejects a request may not read
// all of it.
func (w *requestWriter) writeAll(v *net.Buffers, large bool) error {
	c, limit := w.c, w.req.WriteTimeout
	if c.canReadWithPooledBuffer() {
		if err := w.writeWithoutWaiting(v); err != nil || len(*v) == 0 {
			return err
		}
	}
	step := limit
	if c.canPeek() && !c.isTLS {
		look := w.t.ackTimeout
		if large {
			look = min(look, answerCheckInterval)
		}
		if limit <= 0 || limit > look {
			step = look
		}
	}
	last := w.req.At // when the engine last accepted bytes
	if last.IsZero() {
		last = time.Now()
	}
	for now := last; len(*v) > 0; {
		c.limitWriteDeadline(now, last, step, limit)
		*w.sentFlag = true
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
		if (err != nil || large) && w.reply.hasAnswered(c) {
			return errAnswered
		}
		if err != nil && (c.isTLS || now.Sub(last) >= w.t.ackTimeout) && !w.ack.isAckedInTime(c, now, w.t.ackTimeout) {
			return errUnacked
		}
		if err != nil && (c.isTLS || limit > 0 && now.Sub(last) >= limit) {
			return errConnStalled // a TLS write cannot continue after a timeout
		}
	}
	return nil
}

// writeWithoutWaiting writes as many bytes from the front of v as the socket accepts without
// waiting, at most 256 KiB, and removes them from v. Such a write requires no deadline, and the
// scheduler does not prepare for a blocking system call. In an idle process, this preparation would
// wake the runtime's monitor thread three times, which is a quarter of the CPU time for a 100 KB
// prompt.
func (w *requestWriter) writeWithoutWaiting(v *net.Buffers) error {
	*w.sentFlag = true
	p := &w.c.poll
	p.pieces, p.sentBytes, p.err = *v, 0, nil
	_ = w.c.raw.Control(p.sendPiecesFunc) // fails only on a closed socket, and the next write reports that
	p.pieces = nil
	n := p.sentBytes
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
