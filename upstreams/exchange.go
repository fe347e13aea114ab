// The exchange: one request and its reply, on an HTTP/1.1 client of our own.
//
// # Design
//
// Why not fasthttp's client or net/http's: an exchange with an engine lasts from milliseconds to an
// hour, and it must be possible to end it at any instant. Closing the socket is the only way to
// make an engine stop generating, so Abort closes it, from any goroutine, in every phase: before
// anything was sent, while connecting, in the TLS handshake, while writing, while waiting for the
// head, while reading the body. The clients at hand cannot do that in every phase, or pay a
// goroutine for it. They bound a body by one deadline for the whole of it. They repeat requests by
// rules of their own. One of them passes bytes that follow a reply to the next user of the
// connection.
//
// The life of an exchange is Lease.Exchange, Send, Await, Read until io.EOF, Close. All of it but
// Abort belongs to one goroutine at a time: the caller's own reads and writes. The only other
// goroutine runs while a large request is written over TLS (see conn.interruptUnacked).
//
//   - The caller says until when to wait. When that time has passed, Await and Read return
//     ErrNotYet and nothing has happened: the caller may send a keep-alive to its client and call
//     again, or decide that a clock of its own has run out, and abort. The exchange itself knows
//     only the limits for connecting and writing.
//   - A connection goes back to the pool only if the reply was read to the end of its framing, both
//     sides keep the connection, the whole request was written and no byte is left over. Before the
//     next use its socket is checked: one that was closed or holds unsolicited bytes is dropped. It
//     is checked again when the request has left, because an engine that sends a second reply does
//     so within microseconds: bytes that are there although the engine's host has acknowledged
//     nothing of the request do not answer it, and it goes to a new connection. This check costs
//     0.4 us, and finds the one leftover in thirty thousand calls that came between the first check
//     and the write. A reply that came together with further bytes is not believed on a kept
//     connection, either. What remains is a leftover that comes alone, behind the request and
//     before its answer: HTTP/1.1 has no way to distinguish it (8 to 20 calls of 20,000, 64 at a
//     time, where every fourth reply has a second one within 500 us). So the first unsolicited
//     bytes end the reuse of the upstream's connections for a minute (hostWatch.distrust). A pause
//     before each reuse would do the same at the price of more connections, of which some engines
//     (cpp-httplib) serve as many as they have threads. A kept connection that dies all the same,
//     reset or closed before a byte of the reply and within resendWithin of the request, is
//     replaced once by a new one, which only Sends shows; later the engine may have worked for it.
//     Keeping idle connections for less time than engines do makes this rare.
//   - A small request for a kept connection in the clear, which is nearly every one, is written
//     within the wait for its reply: the check of the socket, the write and the wait are one stay
//     in the runtime's poller, and the read that would find nothing is left out (see
//     conn.sendUnsent). It is the only thing that Await sends.
//   - An engine's host that has vanished (a cut cable, a NAT that has forgotten a kept connection)
//     resets nothing, and systems repeat unacknowledged bytes for a quarter of an hour. So Await
//     and the writes check at times that the request is acknowledged, and fail one that was not for
//     ackTimeout. TCP_USER_TIMEOUT would do it in the kernel, but takes an engine that reads late
//     for one that is gone. Once the request is acknowledged, hostWatch finds out: no new
//     connection can be made either, and this one answers no keep-alive. Keep-alives alone take 35
//     s.
//   - Deadlines are moved as seldom as possible (see conn). In a steady state an exchange moves
//     none.
//   - Exchanges are not pooled: a late Abort would end another request's exchange. Their buffers
//     are pooled. The mutex of the exchange guards who may close the connection: Abort or the
//     return to the pool, and the second of them finds that the connection is not this exchange's
//     any more.
//   - While the head or (see Wait) the body is awaited, the exchange holds no buffer. It takes one
//     of 4 KiB when bytes have come.
//   - Replies are parsed strictly (see head and chunkParser). Where a reply could be read in two
//     ways, it is refused.

package upstreams

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
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
	t        *Transport
	progress *progress // of the upstream whose call this is; nil: it is none

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
	chunks  chunkParser
	later   error // wrong framing behind payload that was returned
	surplus bool  // bytes came behind the end of the body
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
