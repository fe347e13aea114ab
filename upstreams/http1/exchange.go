package http1

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"penstock/upstreams/http1/chunked"
)

// readBuffer is the size of the buffer of an exchange.
const readBuffer = 4 << 10

var readBuffers = sync.Pool{New: func() any { return new([readBuffer]byte) }}

// States of an exchange. From open it goes to aborted or closed, from aborted to closed.
const (
	stateOpen uint32 = iota
	stateAborted
	stateClosed
)

// bodyKind is how a body is framed.
type bodyKind uint8

const (
	bodyUnknown bodyKind = iota // the head has not come
	bodyNone
	bodySized
	bodyChunked
	bodyUntilClose
)

// Exchange is one request and its reply. Every method but Abort must be called by its owner, one at
// a time.
type Exchange struct {
	t       *Transport
	answers *AnswerWatch // of the upstream whose call this is; nil: it is none

	state   atomic.Uint32 // changed under mu
	sending atomic.Bool   // the request is being written
	mu      sync.Mutex
	live    *conn              // what Abort closes
	cancel  context.CancelFunc // what Abort calls while a connection is being made
	cause   error              // given to Abort

	// What follows is the owner's alone.
	c       *conn
	req     Request
	err     error // of the first failure, for all later calls
	sends   int
	reused  bool // c came from the pool
	atOnce  bool // it left in one small write
	fresh   bool // bytes have come for the last Read
	came    bool // bytes have come by a Wait, for the next Read
	touched bool // bytes of the request may have left
	cut     bool // the request was not written to its end on c

	checkAckAt time.Time // when to check that the engine's host acknowledges the request; zero: it has

	small    *[readBuffer]byte // the pooled buffer, if buf is it
	buf      []byte            // head, then what has come of the body
	pos, end int               // what has come and not been taken is buf[pos:end]; pos stays 0 until the head is whole
	got      bool              // a byte of the reply has come
	readErr  error             // how the connection's reading side ended
	headErr  error
	interim  int // 1xx heads skipped
	ready    bool
	head     head
	names    []byte // what the spans of head point into
	inBuf    bool   // which is the beginning of buf

	body    bodyKind
	done    bool  // the body was read to its end
	left    int64 // of a sized body
	chunks  chunked.Decoder
	later   error // wrong framing behind payload that was returned
	surplus bool  // bytes came behind the end of the body
}

// Begin makes x, which is zero, an exchange over t, as Transport.Exchange does. The watch, which may
// be nil, hears of the answer.
func (x *Exchange) Begin(t *Transport, w *AnswerWatch) {
	if x.t != nil {
		panic("BUG: an exchange is begun twice")
	}
	x.t, x.answers = t, w
}

// Send sends r, on an idle connection if there is one, else on a new one, and returns when the
// whole request has been written. It also returns nil when the engine answers and stops reading
// before that: Await then reads the answer. A small request for an idle connection leaves with
// Await, which is to follow at once. r itself is copied; its slices are borrowed as it says.
//
// The error is a *Failure: Unreachable, Timeout of the clocks connect and write, or Aborted. Send
// may be called once.
func (x *Exchange) Send(r *Request) error {
	if x.c != nil || x.err != nil {
		panic("BUG: an exchange is sent twice")
	}
	if err := x.check(); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return x.fail(Aborted, ReasonRequest, err)
	}
	x.req = *r
	return x.reach()
}

// reach finds a connection for the request and writes it, or leaves that to Await.
func (x *Exchange) reach() error {
	if x.req.BodyReader == nil && !x.req.NoReplay {
		if x.req.At.IsZero() {
			x.req.At = time.Now()
		}
		small := x.req.size() <= smallRequest
		for c := x.t.takeIdle(x.req.At); c != nil; c = x.t.takeIdle(x.req.At) {
			later := small && c.fetches()
			if !later && c.stale(x.req.At) {
				x.discard(c)
				continue
			}
			if err := x.attach(c); err != nil {
				return err
			}
			x.reused = true
			if later {
				x.prepare()
				return nil
			}
			return x.write()
		}
	}
	if err := x.connect(); err != nil {
		return err
	}
	return x.write()
}

// connect makes a new connection.
func (x *Exchange) connect() error {
	x.req.At = time.Time{} // it takes its time
	limit := x.req.ConnectTimeout
	if limit <= 0 {
		limit = defaultConnectTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	x.mu.Lock()
	x.cancel = cancel
	x.mu.Unlock()
	if err := x.check(); err != nil { // Abort came before there was something to cancel
		return err
	}
	c, failure := x.t.dial(ctx)
	if failure != nil {
		return x.failWith(failure)
	}
	return x.attach(c)
}

// attach makes c the connection of this exchange, which Abort closes from now on.
func (x *Exchange) attach(c *conn) error {
	x.mu.Lock()
	x.cancel = nil
	if x.state.Load() == stateOpen {
		x.live = c
	}
	x.mu.Unlock()
	if err := x.check(); err != nil {
		c.close()
		return err
	}
	x.c = c
	x.reused, x.cut, x.readErr, x.checkAckAt = false, false, nil, time.Time{}
	return nil
}

// resendWithin bounds how long after the request a kept connection may end for the request to be
// sent once more: a round trip, generously.
const resendWithin = time.Second

// connectionLost is called when the connection has ended before a byte of the reply came. A kept
// connection that ends soon was most likely closed by the engine just as the request came: the
// request is sent once more, on a new connection. Otherwise the exchange has failed.
func (x *Exchange) connectionLost(cause error) error {
	if err := x.check(); err != nil {
		return err
	}
	cause = x.c.ended(cause)
	if errors.Is(cause, errUnacked) {
		x.c.reset() // or the kernel delivers it when the host is back, although it has been sent elsewhere by then
	}
	vanished := errors.Is(cause, ErrHostVanished) // there is no new connection to it, either
	if !x.reused || x.sends > 1 || vanished || x.worked(cause) {
		return x.fail(Unreachable, x.c.reasonOf(cause), cause)
	}
	x.detach()
	if err := x.connect(); err != nil {
		return err
	}
	return x.write()
}

// worked reports whether the engine may have worked for the request before its connection ended with
// cause: it had all of it, and time.
func (x *Exchange) worked(cause error) bool {
	if x.cut || errors.Is(cause, errUnacked) {
		return false
	}
	// A zero checkAckAt says that the engine's host acknowledged the request long ago.
	return x.checkAckAt.IsZero() || time.Since(x.checkAckAt.Add(-x.t.ackTimeout)) > resendWithin
}

// followed reports whether the reply has come on a kept connection together with more than it: then
// it is as likely a reply to the request before, and the right one is behind it.
func (x *Exchange) followed() bool {
	h := &x.head
	if !x.reused || x.sends > 1 || x.body != bodyUnknown {
		return false
	}
	length := h.length
	switch {
	case x.req.Method == "HEAD", h.status == 204, h.status == 304:
		length = 0
	case h.status == 101, h.chunked, !h.hasLength:
		return false
	}
	return int64(x.end-h.next) > length
}

// replace sends the request once more, on a new connection, because what has come on this one is no
// answer to it. unsolicited says that it answers no other request, either.
func (x *Exchange) replace(unsolicited bool) error {
	if err := x.check(); err != nil {
		return err
	}
	x.c.unsolicited = unsolicited
	x.c.reset()
	x.detach()
	x.dropBuffer()
	x.pos, x.end, x.got = 0, 0, false
	x.head, x.headErr, x.interim, x.ready = head{}, nil, 0, false
	if err := x.connect(); err != nil {
		return err
	}
	return x.write()
}

// detach closes the connection of this exchange, for another one to be taken.
func (x *Exchange) detach() {
	x.mu.Lock()
	x.live = nil
	x.mu.Unlock()
	x.discard(x.c)
}

// discard closes a connection that cannot be used again, and reports unsolicited bytes to the
// watch.
func (x *Exchange) discard(c *conn) {
	if c.unsolicited {
		x.t.hosts.distrust(time.Now())
	}
	c.close()
}

// Await waits for the head of the reply, until the given time (zero: without limit). Interim
// replies are skipped. A reply with status 101 has no body, and its connection is not kept.
//
// It returns ErrNotYet when the time has passed; calling it again goes on. Any other error is a
// *Failure: BadResponse if the reply does not parse or is cut, Unreachable if there is none,
// Aborted. When a reused connection turns out to be dead only now, the request is sent again within
// Await, and until can be exceeded by the time that takes.
func (x *Exchange) Await(until time.Time) error {
	if err := x.check(); err != nil {
		return err
	}
	if x.c == nil {
		panic("BUG: Await before Send")
	}
	for {
		done, err := x.advance()
		switch {
		case err != nil:
			return x.bad(err)
		case done && x.followed():
			if err := x.replace(true); err != nil {
				return err
			}
			continue
		case done:
			x.startBody()
			return nil
		}
		switch err := x.fill(earlier(until, x.checkAckAt)); {
		case err == nil:
		case errors.Is(err, errUnsent):
			if err := x.deliver(); err != nil {
				return err
			}
		case errors.Is(err, errLeftover):
			if err := x.replace(true); err != nil {
				return err
			}
		case errors.Is(err, ErrNotYet):
			if err := x.noReplyYet(until); err != nil {
				return err
			}
		case x.got:
			return x.cutOff(err)
		default:
			if err := x.connectionLost(err); err != nil {
				return err
			}
		}
	}
}

// noReplyYet is called when there is no reply at until, or at checkAckAt. It returns nil if the
// caller should keep waiting: until has not come, or the request was sent again because it reached
// no host.
func (x *Exchange) noReplyYet(until time.Time) error {
	if gone := x.check(); gone != nil {
		return gone
	}
	now := time.Now()
	if !x.checkAckAt.IsZero() && !now.Before(x.checkAckAt) && !x.ackedInTime(now) {
		if x.got { // part of a head
			x.c.reset()
			return x.cutOff(errUnacked)
		}
		return x.connectionLost(errUnacked)
	}
	if !until.IsZero() && !now.Before(until) {
		return ErrNotYet
	}
	return nil
}

// ackedInTime reports whether the engine's host has acknowledged the request within ackTimeout, and
// sets the time of the next check.
func (x *Exchange) ackedInTime(now time.Time) bool {
	silence, waiting := x.c.unackedFor()
	x.checkAckAt = time.Time{}
	if waiting {
		x.checkAckAt = now.Add(x.t.ackTimeout - min(silence, x.t.ackTimeout) + 10*time.Millisecond)
	}
	return silence < x.t.ackTimeout
}

// earlier returns the earlier of two times, where zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// fill reads more of the reply's head, and what comes with it, into the buffer.
func (x *Exchange) fill(until time.Time) error {
	if x.readErr != nil {
		return x.readErr
	}
	var (
		n   int
		err error
	)
	if x.buf == nil && x.c.fetches() {
		n, err = x.fetch(until)
	} else {
		if x.end == len(x.buf) {
			x.grow()
		}
		n, err = x.c.read(x.buf[x.end:], until)
	}
	if n > 0 {
		x.end, x.got = x.end+n, true
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, ErrNotYet) && !errors.Is(err, errUnsent) {
		x.readErr = err
	}
	return err
}

// fetch waits for bytes and puts them into a new buffer, once a request that is left to it is
// written. While it waits there is no buffer.
func (x *Exchange) fetch(until time.Time) (n int, err error) {
	waiting := x.c.unsent != nil
	small, n, err := x.c.fetch(until)
	if waiting && x.c.unsent == nil {
		x.sends++
		x.touched = true
	}
	if n > 0 {
		x.small, x.buf = small, small[:]
	}
	return n, err
}

// grow makes room for more of a head. The first buffer is enough for all but odd ones.
func (x *Exchange) grow() {
	if x.buf == nil {
		x.small = readBuffers.Get().(*[readBuffer]byte)
		x.buf = x.small[:]
		return
	}
	larger := make([]byte, min(4*len(x.buf), maxHead+readBuffer))
	copy(larger, x.buf[:x.end])
	x.dropBuffer()
	x.buf = larger
}

func (x *Exchange) dropBuffer() {
	if x.small != nil {
		readBuffers.Put(x.small)
	}
	x.small, x.buf = nil, nil
}

// advance parses what has come of the head, and reports whether it is complete.
func (x *Exchange) advance() (bool, error) {
	for !x.ready && x.headErr == nil {
		done, err := x.head.parse(x.buf[:x.end])
		switch {
		case err != nil:
		case !done:
			return false, nil
		case x.head.status >= 200 || x.head.status == 101:
			err = x.head.check()
		case x.interim < maxInterim:
			x.interim++
			x.end = copy(x.buf, x.buf[x.head.next:x.end])
			x.head = head{}
			continue
		default:
			err = errInterim
		}
		x.headErr, x.ready = err, err == nil
	}
	return x.ready, x.headErr
}

// startBody decides how the body is read, once the head is complete, and drops the request.
func (x *Exchange) startBody() {
	if x.body != bodyUnknown {
		return // Await was called again
	}
	h := &x.head
	switch {
	case x.req.Method == "HEAD", h.status == 101, h.status == 204, h.status == 304, h.hasLength && h.length == 0:
		x.body, x.done = bodyNone, true
	case h.chunked:
		x.body = bodyChunked
	case h.hasLength:
		x.body, x.left = bodySized, h.length
	default:
		x.body, x.left = bodyUntilClose, math.MaxInt64
	}
	x.req = Request{}

	x.pos, x.names, x.inBuf = h.next, x.buf[:h.next], true
	if h.next > readBuffer/2 {
		x.detachNames() // or too little of the buffer would be left for the body
	}
}

// detachNames copies the header values that are kept, so that the whole buffer is free for the
// body.
func (x *Exchange) detachNames() {
	var kept []byte
	for i := range x.head.values {
		v := &x.head.values[i]
		if v.to == 0 {
			continue
		}
		from := len(kept)
		kept = append(kept, x.names[v.from:v.to]...)
		*v = span{uint32(from), uint32(len(kept))}
	}
	x.names, x.inBuf = kept, false
}

// Status returns the status of the reply, or 0 before Await has returned nil.
func (x *Exchange) Status() int {
	if x.body == bodyUnknown {
		return 0
	}
	return x.head.status
}

// Header returns the value of a header of the reply, in any case of its name, or nil: the first
// one, where there are several. Only Content-Type, Content-Length, Transfer-Encoding, Connection,
// Keep-Alive, Retry-After, Content-Encoding, X-Request-Id and Content-Disposition are kept, and
// values up to 1 KiB. The value is borrowed until the next Read.
func (x *Exchange) Header(name string) []byte {
	f := fieldOf(name)
	if f == fieldOther || x.names == nil {
		return nil
	}
	v := x.head.values[f]
	if v.to == 0 {
		return nil
	}
	return x.names[v.from:v.to]
}

// ContentLength returns the length of the body that Read will yield, or -1 if it is not known
// beforehand.
func (x *Exchange) ContentLength() int64 {
	switch x.body {
	case bodyNone:
		return 0
	case bodySized:
		return x.head.length
	}
	return -1
}

// Framed reports whether the body's framing marks its end. If not, the body ends when the engine
// closes the connection, and io.EOF does not mean that it is complete.
func (x *Exchange) Framed() bool { return x.body != bodyUntilClose && x.body != bodyUnknown }

// Sends returns how often the request was sent: 0 before Send, and 2 after a dead connection was
// replaced.
func (x *Exchange) Sends() int { return x.sends }

// AtOnce reports whether the request was sent without waiting for anything: it was small, and there
// was a connection.
func (x *Exchange) AtOnce() bool { return x.reused && x.sends <= 1 && x.atOnce }

// Fresh reports whether bytes have come from the engine since the Read before the last one: by the
// last Read, or by a Wait before it. If not, what the last Read returned came with something
// earlier, such as the head.
func (x *Exchange) Fresh() bool { return x.fresh }
