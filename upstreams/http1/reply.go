package http1

import (
	"errors"
	"io"
	"sync"
	"time"

	"penstock/upstreams/http1/chunked"
)

// readBuffer is the size of a response buffer. An event of a stream usually fits in it.
const readBuffer = 4 << 10

var readBuffers = sync.Pool{New: func() any { return new([readBuffer]byte) }}

// received contains the bytes of a response that were received but not read yet, in b[pos:end]. It
// has no buffer while there are no such bytes.
type received struct {
	small    *[readBuffer]byte // the pooled buffer, if b uses one
	b        []byte
	pos, end int // pos is 0 until the head is complete
}

func (r *received) empty() bool    { return r.pos == r.end }
func (r *received) unread() []byte { return r.b[r.pos:r.end] }

// room returns space for more of the head. The first buffer is large enough for all but unusual
// heads.
func (r *received) room() []byte {
	switch {
	case r.b == nil:
		r.small = readBuffers.Get().(*[readBuffer]byte)
		r.b = r.small[:]
	case r.end == len(r.b):
		larger := make([]byte, min(4*len(r.b), maxHead+readBuffer))
		copy(larger, r.b[:r.end])
		r.release()
		r.b = larger
	}
	return r.b[r.end:]
}

func (r *received) release() {
	if r.small != nil {
		readBuffers.Put(r.small)
	}
	r.small, r.b = nil, nil
}

// reply.read returns errCut if the connection ended within the body. The cause is in reply.ended.
var errCut = errors.New("the connection ended within the body")

// reply is a response as it is received.
type reply struct {
	in    received
	head  head
	body  body
	ended error // why reading from the connection ended
	got   bool  // a byte has arrived
	came  bool  // bytes arrived during a wait, before the next read
	fresh bool  // bytes arrived during the last read, or during the wait before it
}

// fill reads the next bytes. If possible, it uses no buffer while it waits.
func (r *reply) fill(c *conn, until time.Time) error {
	if r.ended != nil {
		return r.ended
	}
	var (
		n   int
		err error
	)
	if r.in.b == nil && c.fetches() {
		r.in.small, n, err = c.fetch(until)
		if r.in.small != nil {
			r.in.b = r.in.small[:]
		}
	} else {
		n, err = c.read(r.in.room(), until)
	}
	r.in.end += n
	r.got = r.got || n > 0
	if err != nil && !errors.Is(err, ErrNotYet) && !errors.Is(err, errUnsent) {
		r.ended = err
	}
	return err
}

// advance parses the received bytes of the head. It reports whether the head is complete.
func (r *reply) advance() (bool, error) { return r.head.advance(&r.in) }

// answers reports whether the caller should stop writing the request, because the response has
// started or the engine has closed the connection. It stores the received bytes. Interim responses
// do not count.
func (r *reply) answers(c *conn) bool {
	switch c.peek() {
	case peekedQuiet:
		return false
	case peekedEOF:
		return true
	case peekedBroken:
		r.ended = c.poll.err // peek has cleared the socket's error
		return true
	case peekedData:
	}
	if err := r.fill(c, time.Now().Add(time.Millisecond)); err != nil {
		return !errors.Is(err, ErrNotYet) // a TLS record without payload
	}
	done, err := r.advance()
	return done || err != nil || r.head.status >= 200
}

// followed reports whether more bytes arrived together with the complete response.
func (r *reply) followed(method string) bool {
	if r.body.kind != bodyUnknown {
		return false
	}
	length, rest := r.head.length, r.in.b[r.head.next:r.in.end]
	switch {
	case method == "HEAD", r.head.status == 204, r.head.status == 304:
		length = 0
	case r.head.status == 101:
		return false
	case r.head.chunked:
		return chunked.EndsBefore(rest, &replyRules)
	case !r.head.hasLength:
		return false
	}
	return int64(len(rest)) > length
}

// beginBody prepares to read the body, once the head is complete.
func (r *reply) beginBody(method string) {
	if r.body.kind == bodyUnknown {
		r.body.begin(method, &r.head)
		r.in.pos = r.head.next
		r.head.keepNames(r.in.b)
	}
}

// forget discards the received bytes, because they are not the response.
func (r *reply) forget() {
	r.in.release()
	*r = reply{}
}

// read implements Exchange.Read. At the end of the body it returns io.EOF. Unlike Exchange.Read, it
// returns errCut or a framing error instead of a Failure.
func (r *reply) read(c *conn, p []byte, until time.Time) (n int, err error) {
	if r.body.later != nil {
		return 0, r.body.later
	}
	r.fresh, r.came = r.came, false
	for {
		m, err := r.body.skipFraming(r.in.unread())
		r.in.pos += m
		switch {
		case err != nil && n > 0: // the next call parses the invalid byte again
			return n, nil
		case err != nil:
			return 0, err
		case n > 0 && (r.body.done || n == len(p) || r.in.empty()):
			return n, nil
		case r.body.done:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		case r.in.empty():
			r.fresh = true
			if m, err := r.more(c, p, until); err != nil || m > 0 {
				return m, err
			}
			continue
		}
		m = copy(p[n:], r.in.unread()[:min(int64(r.in.end-r.in.pos), r.body.available())])
		r.in.pos += m
		n += m
		r.body.consumed(int64(m))
	}
}

// take implements Exchange.Take.
func (r *reply) take() []byte {
	if r.in.empty() || r.body.kind == bodyUnknown || r.body.done || r.body.later != nil {
		return nil
	}
	r.fresh, r.came = r.came, false
	p := r.body.payload(r.in.unread())
	r.in.pos = r.in.end
	return p
}

// more reads from the connection directly into p, and removes the framing in place. Before it waits
// for the next event, more returns the empty buffer to the pool, so that an idle exchange needs no
// buffer. If only framing has arrived, it may return 0 bytes without an error.
func (r *reply) more(c *conn, p []byte, until time.Time) (int, error) {
	if c.poll.inside {
		return 0, ErrNotYet // the step may still use the buffer (Exchange.Room)
	}
	r.release()
	if r.body.kind != bodyChunked {
		p = p[:min(int64(len(p)), r.body.left)]
	}
	n, err := 0, r.ended
	if err == nil {
		n, err = c.read(p, until)
	}
	switch {
	case err == nil:
		return r.body.unframe(p[:n])
	case errors.Is(err, ErrNotYet):
		return 0, err
	// a truncated TLS record returns io.ErrUnexpectedEOF instead
	case r.body.kind == bodyUntilClose && errors.Is(err, io.EOF):
		r.body.done = true
		return 0, io.EOF
	}
	r.ended = err
	return 0, errCut
}

// wait implements Exchange.Wait.
func (r *reply) wait(c *conn, until time.Time) bool {
	if r.body.kind == bodyUnknown || r.body.done || r.body.later != nil || r.ended != nil ||
		!r.in.empty() || !c.fetches() {
		return true
	}
	r.detach()
	// the first attempt usually finds nothing, and returns the buffer to the pool
	c.poll.spare, r.in.small = r.in.small, nil
	r.in.release()
	err := r.fill(c, until) // the next read returns err
	c.poll.releaseSpare()
	r.came = r.came || !r.in.empty()
	return !errors.Is(err, ErrNotYet)
}

// stay implements Exchange.Stay.
func (r *reply) stay(c *conn, g Guard, until time.Time, step func() bool) bool {
	if r.body.kind != bodyChunked || r.body.done || r.body.later != nil || r.ended != nil ||
		!r.in.empty() || !c.fetches() || !c.watchHangUps(g) {
		return r.wait(c, until)
	}
	r.release()
	p := &c.poll
	p.step = func() bool { return r.arrived(p, step) }
	defer func() { p.step, p.inside = nil, false }()
	_, _, err := c.fetch(until)
	if err != nil && !errors.Is(err, ErrNotYet) {
		r.ended = err
	}
	return !errors.Is(err, ErrNotYet)
}

// arrived runs step for the bytes that the poller has fetched, and reports whether to stay.
func (r *reply) arrived(p *poll, step func() bool) bool {
	r.in = received{small: p.fetched, b: p.fetched[:], end: p.count}
	p.fetched, p.count = nil, 0
	r.came = true
	p.inside = true
	more := step()
	p.inside = false
	if !more || !r.in.empty() || r.body.done || r.body.later != nil {
		return false
	}
	r.release()
	return true
}

// release returns the buffer to the pool once all of it has been read.
func (r *reply) release() {
	r.detach()
	r.in.release()
}

// detach marks the buffer as empty, after copying the stored header values out of it. All its bytes
// must have been read.
func (r *reply) detach() {
	if r.in.b != nil {
		r.head.detachNames()
		r.in.pos, r.in.end = 0, 0
	}
}

// framed reports whether the response was read to the end of its framing.
func (r *reply) framed() bool { return r.body.done && r.body.kind != bodyUntilClose }

// surplus reports whether bytes arrived after the response.
func (r *reply) surplus() bool { return r.body.surplus || !r.in.empty() }

// reusable reports whether the connection can carry another response.
func (r *reply) reusable() bool {
	return r.framed() && !r.surplus() && r.ended == nil && r.head.reusable()
}
