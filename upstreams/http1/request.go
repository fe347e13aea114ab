package http1

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"penstock/upstreams/http1/httptoken"
)

const (
	// smallRequest is the size up to which head and body are copied together and leave in one
	// write.
	smallRequest = 16 << 10
	// streamPiece is how much of a body reader is read, and written, at a time. It has four
	// hexadecimal digits.
	streamPiece = 32 << 10
	// answerCheck is how often a write that is stuck looks whether the engine has answered already.
	answerCheck = 50 * time.Millisecond
	// lastWords is how long a connection that cannot be written to any more is listened to: what
	// the engine said before it closed has arrived already.
	lastWords = 50 * time.Millisecond
)

// Request is what to send. The transport adds Host, User-Agent, Accept-Encoding: identity and,
// where configured, Authorization; no other header is ever sent.
//
// The body is either Body or BodyReader, or neither.
type Request struct {
	Method, Path string // Path starts with a slash and is put after the transport's base path; a query may follow it

	ContentType, Accept    string // "": the header is left out
	RequestID, Traceparent []byte // X-Request-Id and traceparent, likewise

	// Body is the body in pieces. They are borrowed, and must not change, until Await has returned
	// the head of the reply or the exchange has ended. The slice of slices itself is not modified.
	Body [][]byte

	// BodyReader yields the body as it is written, on the goroutine that calls Send. With a
	// BodyLength of 0 or more exactly so many bytes are read and sent; with -1 the body is chunked
	// and ends with io.EOF. Such a request cannot be sent twice, and so is never sent on a
	// connection that was used before.
	BodyReader io.Reader
	BodyLength int64

	ConnectTimeout time.Duration // resolving, connecting and TLS together; 0: 10 s
	WriteTimeout   time.Duration // for the engine to take another byte of the request; 0: no limit
	At             time.Time     // the time, if the caller has read the clock just now; zero: Send reads it
	NoReplay       bool          // send once at most, and so on a new connection: a kept one may turn out to be dead
}

// outgoing is the memory that a request is written from.
type outgoing struct {
	b    []byte
	list [][]byte
	vec  net.Buffers // shrinks while it is written
}

var outgoingPool = sync.Pool{New: func() any { return &outgoing{b: make([]byte, 0, 4<<10)} }}

func (o *outgoing) release() {
	if cap(o.b) > streamPiece+8<<10 {
		o.b = nil
	}
	clear(o.list[:cap(o.list)]) // a pooled pointer would keep a prompt alive
	o.vec = nil
	outgoingPool.Put(o)
}

// one makes b what is to be written next.
func (o *outgoing) one(b []byte) *net.Buffers {
	o.list = append(o.list[:0], b)
	o.vec = o.list
	return &o.vec
}

// appendFixed writes the header lines that every request of a transport has in common.
func appendFixed(dst []byte, host, agent, authorization string) []byte {
	dst = appendField(dst, "Host", host)
	dst = appendField(dst, "User-Agent", agent)
	dst = appendField(dst, "Accept-Encoding", "identity")
	if authorization != "" {
		dst = appendField(dst, "Authorization", authorization)
	}
	return dst
}

func appendField[T string | []byte](dst []byte, name string, value T) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// check refuses what would end a line of the head early, or could be taken for another request.
func (r *Request) check() error {
	fit := httptoken.IsToken(r.Method) && strings.HasPrefix(r.Path, "/") &&
		validMedia(r.ContentType) && validMedia(r.Accept) && !httptoken.HasControl(r.RequestID) && !httptoken.HasControl(r.Traceparent)
	for i := 0; fit && i < len(r.Path); i++ {
		fit = r.Path[i] > ' ' && r.Path[i] != 0x7f
	}
	if !fit {
		return errUnfit
	}
	return nil
}

// validMedia reports whether a media type has no control character. Nearly all are one of two.
func validMedia(v string) bool {
	return v == "application/json" || v == "text/event-stream" || !httptoken.HasControl(v)
}

// size returns the length of the body in pieces.
func (r *Request) size() (n int64) {
	for _, b := range r.Body {
		n += int64(len(b))
	}
	return n
}

// appendHead writes the head of r; length is that of its body, or -1 for a chunked one.
func (t *Transport) appendHead(dst []byte, r *Request, length int64) []byte {
	dst = append(dst, r.Method...)
	dst = append(dst, ' ')
	dst = append(dst, t.base...)
	dst = append(dst, r.Path...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	dst = append(dst, t.fixed...)
	if r.ContentType != "" {
		dst = appendField(dst, "Content-Type", r.ContentType)
	}
	switch {
	case length < 0:
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	case length > 0 || r.BodyReader != nil || r.Method != "GET" && r.Method != "HEAD":
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, length, 10)
		dst = append(dst, "\r\n"...)
	}
	if r.Accept != "" {
		dst = appendField(dst, "Accept", r.Accept)
	}
	if len(r.RequestID) > 0 {
		dst = appendField(dst, "X-Request-Id", r.RequestID)
	}
	if len(r.Traceparent) > 0 {
		dst = appendField(dst, "traceparent", r.Traceparent)
	}
	return append(dst, "\r\n"...)
}

// Errors that end the writing of a request. Nobody outside sees errAnswered.
var errAnswered = errors.New("the upstream has answered before it had the whole request")

// bodyError is a failure of the request's own body reader.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "read request body: " + e.err.Error() }

// write writes the whole request to the exchange's connection.
func (x *Exchange) write() error {
	x.sends++
	x.sending.Store(true)
	if x.c.secured && (x.req.BodyReader != nil || x.req.size() > smallRequest) {
		defer x.c.interruptUnacked(x.t.ackTimeout, x.t.guard)()
	}
	o := outgoingPool.Get().(*outgoing)
	var err error
	if x.req.BodyReader != nil {
		err = x.writeStream(o)
	} else {
		err = x.writePieces(o)
	}
	o.release()
	return x.written(err)
}

// prepare leaves the writing of a small request to the first fill.
func (x *Exchange) prepare() {
	o := outgoingPool.Get().(*outgoing)
	x.copyWhole(o, x.req.size())
	x.c.unsent, x.atOnce = o, true
	x.checkAckAt = x.req.At.Add(x.t.ackTimeout)
}

// deliver goes on where fill came back without a reply, since the connection could not be used or
// took less than the whole request.
func (x *Exchange) deliver() error {
	o := x.c.unsent
	x.c.unsent = nil
	if x.c.probed != peekedQuiet {
		o.release()
		x.c.unsolicited = x.c.probed == peekedData && x.c.justKept(x.req.At)
		x.detach()
		return x.reach()
	}
	x.sends++
	x.sending.Store(true)
	err := x.push(o.one(o.b[x.c.left:]), false)
	o.release()
	return x.written(err)
}

// written decides how the exchange goes on after a write that ended with err.
func (x *Exchange) written(err error) error {
	if err == nil {
		x.sending.Store(false)
		x.checkAckAt = time.Now().Add(x.t.ackTimeout)
		return nil
	}
	x.cut = true
	if gone := x.check(); gone != nil {
		return gone // what went wrong is the socket that Abort closed
	}
	if errors.Is(err, errAnswered) {
		x.sending.Store(false)
		return nil
	}
	if errors.Is(err, errLeftover) {
		return x.replace(!x.c.secured) // TLS has words of its own
	}
	var own *bodyError
	switch {
	case errors.As(err, &own):
		x.c.reset()
		return x.fail(Aborted, ReasonBody, own.err)
	case errors.Is(err, errConnStalled):
		x.c.reset()
		return x.failTimeout(ClockWrite, err)
	}
	// The engine closed or broke the connection. It may have said why.
	x.sending.Store(false)
	if x.ready || x.got || x.fill(time.Now().Add(lastWords)) == nil {
		return nil // Await goes on from here
	}
	return x.connectionLost(err)
}

// writePieces sends the head and the pieces of Body.
func (x *Exchange) writePieces(o *outgoing) error {
	size := x.req.size()
	if size <= smallRequest {
		x.copyWhole(o, size)
		x.atOnce = true
		return x.first(o)
	}
	o.b = x.t.appendHead(o.b[:0], &x.req, size)
	o.list = append(o.list[:0], o.b)
	if x.reused { // the head alone, which leaves no time for an answer to the whole
		if err := x.first(o); err != nil {
			return err
		}
		o.list = o.list[:0]
	}
	for _, b := range x.req.Body {
		if len(b) > 0 {
			o.list = append(o.list, b)
		}
	}
	o.vec = o.list
	return x.push(&o.vec, true)
}

// first writes o.b, with which the request begins, and looks whether bytes are there that cannot be
// an answer to it.
func (x *Exchange) first(o *outgoing) error {
	if err := x.push(o.one(o.b), false); err != nil {
		return err
	}
	if x.reused && x.c.leftover(len(o.b)) {
		return errLeftover
	}
	return nil
}

// copyWhole makes o.b the whole request.
func (x *Exchange) copyWhole(o *outgoing, size int64) {
	o.b = x.t.appendHead(o.b[:0], &x.req, size)
	for _, b := range x.req.Body {
		o.b = append(o.b, b...)
	}
}

// writeStream sends the head and what BodyReader yields, each piece as it comes.
func (x *Exchange) writeStream(o *outgoing) error {
	chunked, left := x.req.BodyLength < 0, x.req.BodyLength
	o.b = x.t.appendHead(o.b[:0], &x.req, max(left, -1))
	for first := true; ; first = false {
		room := streamPiece
		if !chunked {
			room = int(min(left, streamPiece))
		}
		if !first && x.answering() {
			return errAnswered
		}
		head := len(o.b)
		if chunked {
			o.b = append(o.b, "0000\r\n"...)
		}
		begin := len(o.b)
		o.b = grown(o.b, room)
		n, err := readSome(x.req.BodyReader, o.b[begin:begin+room])
		o.b = o.b[:begin+n]
		switch {
		case chunked && n > 0:
			putHex4(o.b[head:], n)
			o.b = append(o.b, "\r\n"...)
		case chunked:
			o.b = o.b[:head]
		default:
			left -= int64(n)
		}
		done := !chunked && left == 0
		switch {
		case done:
		case errors.Is(err, io.EOF) && chunked:
			o.b, done = append(o.b, "0\r\n\r\n"...), true
		case errors.Is(err, io.EOF):
			return &bodyError{errShortBody}
		case err != nil:
			return &bodyError{err}
		}
		if err := x.push(o.one(o.b), true); err != nil || done {
			return err
		}
		o.b = o.b[:0]
	}
}

// grown returns b with room for n more bytes.
func grown(b []byte, n int) []byte {
	if cap(b)-len(b) >= n+8 {
		return b
	}
	larger := make([]byte, len(b), len(b)+n+1024)
	copy(larger, b)
	return larger
}

// readSome reads at least a byte, or says why not. Reading into no room at all succeeds.
func readSome(r io.Reader, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for range 100 {
		if n, err := r.Read(p); n > 0 || err != nil {
			if n < 0 || n > len(p) {
				return 0, fmt.Errorf("a body reader returned a length of %d", n)
			}
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

func putHex4(dst []byte, n int) {
	const digits = "0123456789abcdef"
	for i := 3; i >= 0; i-- {
		dst[i] = digits[n&15]
		n >>= 4
	}
}

// push writes v. The write timeout starts anew whenever the engine takes something. While a large
// write is stuck the engine's answer is looked for, because an engine that has refused a request
// need not read the rest of it.
func (x *Exchange) push(v *net.Buffers, large bool) error {
	c, limit := x.c, x.req.WriteTimeout
	step := limit
	if canPeek && !c.secured {
		look := x.t.ackTimeout
		if large {
			look = min(look, answerCheck)
		}
		if limit <= 0 || limit > look {
			step = look
		}
	}
	last := x.req.At // when the engine took something
	if last.IsZero() {
		last = time.Now()
	}
	for now := last; len(*v) > 0; {
		c.armWrite(now, last, step, limit)
		x.touched = true
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
		if (err != nil || large) && x.answering() {
			return errAnswered
		}
		if err != nil && (c.secured || now.Sub(last) >= x.t.ackTimeout) && !x.ackedInTime(now) {
			return errUnacked
		}
		if err != nil && (c.secured || limit > 0 && now.Sub(last) >= limit) {
			return errConnStalled // after a timeout TLS cannot go on writing
		}
	}
	return nil
}

// interruptUnacked ends a write, until stop is called, once the engine's host has acknowledged
// nothing for patience. It is for TLS, which cannot go on with a write that was interrupted for a
// check.
func (c *conn) interruptUnacked(patience time.Duration, g Guard) (stop func()) {
	done := make(chan struct{})
	go g.Once(guardEngines, func() {
		look := time.NewTicker(patience)
		defer look.Stop()
		for {
			select {
			case <-done:
				return
			case <-look.C:
			}
			if silence, _ := c.unackedFor(); silence >= patience {
				_ = c.tcp.SetWriteDeadline(time.Unix(1, 0)) // fails on a closed socket only, which ends the write as well
				return
			}
		}
	})
	return func() { close(done) }
}

// armWrite makes the next write return after step, and not later than limit after last. On a plain
// connection an earlier deadline will do, so the one of the previous exchange mostly serves this
// one too.
func (c *conn) armWrite(now, last time.Time, step, limit time.Duration) {
	if step <= 0 {
		if !c.writeBy.IsZero() {
			c.writeWithin(time.Time{})
		}
		return
	}
	by := now.Add(step)
	if limit > 0 {
		if end := last.Add(limit); end.Before(by) {
			by = end
		}
	}
	if !c.secured && c.writeBy.After(now) && !c.writeBy.After(by) {
		return
	}
	c.writeWithin(by)
}

// answering reports whether there is no point in writing more: the reply has begun, or the engine
// has closed. What has come is read and kept for Await. Interim replies are not an answer.
func (x *Exchange) answering() bool {
	switch x.c.peek() {
	case peekedQuiet:
		return false
	case peekedEOF:
		return true
	case peekedBroken:
		x.readErr = x.c.lastErr // looking at the error has cleared it
		return true
	case peekedData:
	}
	if err := x.fill(time.Now().Add(time.Millisecond)); err != nil {
		return !errors.Is(err, ErrNotYet) // a TLS record that holds nothing for us
	}
	done, err := x.advance()
	return done || err != nil || x.head.status >= 200
}
