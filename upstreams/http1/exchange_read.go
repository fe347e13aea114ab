package http1

import (
	"errors"
	"io"
	"time"

	"penstock/upstreams/http1/chunked"
)

// replyRules are strict where nothing is known to need more.
var replyRules = chunked.Rules{MaxDigits: 16, MaxExtensions: 1<<10 + 1, MaxTrailers: 8 << 10, Folded: true}

// How the body of a reply is read and its framing taken off.

// Read reads decoded bytes of the body into p, as many as have come, waiting for the first one
// until the given time (zero: without limit). Await must have returned nil.
//
// It returns io.EOF when the body is complete by its framing (see Framed), and ErrNotYet when the
// time has passed: calling it again goes on at any byte. Every other error is a *Failure of kind
// BadResponse or Aborted. It never returns bytes together with an error. Large reads go straight
// into p.
func (x *Exchange) Read(p []byte, until time.Time) (int, error) {
	if err := x.check(); err != nil {
		return 0, err
	}
	if x.body == bodyUnknown {
		panic("BUG: Read before Await")
	}
	if x.later != nil {
		return 0, x.bad(x.later)
	}
	n := 0
	x.fresh, x.came = x.came, false
	for {
		if x.body == bodyChunked && !x.done {
			m, err := x.chunks.SkipFraming(x.buf[x.pos:x.end], &replyRules)
			x.pos += m
			if err != nil {
				if n > 0 {
					return n, nil // the offending byte is still there, for the next call
				}
				return 0, x.bad(err)
			}
			x.done = x.chunks.Ended()
		}
		switch {
		case n > 0 && (x.done || n == len(p) || x.pos == x.end):
			return n, nil
		case x.done:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		if x.pos == x.end {
			x.fresh = true
			m, err := x.more(p, until)
			x.noteProgress(m)
			if err != nil || m > 0 {
				return m, err
			}
			continue
		}
		m := copy(p[n:], x.buf[x.pos:x.end][:min(int64(x.end-x.pos), x.available())])
		x.pos += m
		n += m
		x.consumed(int64(m))
		x.noteProgress(m)
	}
}

// noteProgress reports n bytes of the body to the watch of the upstream's answers.
func (x *Exchange) noteProgress(n int) {
	if n > 0 && x.answers != nil {
		x.answers.BodyCame(x.head.status)
	}
}

// available returns how much payload follows without framing in between.
func (x *Exchange) available() int64 {
	if x.body != bodyChunked {
		return x.left
	}
	return x.chunks.Payload()
}

// consumed counts payload that was consumed.
func (x *Exchange) consumed(n int64) {
	switch x.body {
	case bodyChunked:
		x.chunks.Take(n)
	case bodySized:
		x.left -= n
		x.done = x.left == 0
	}
}

// more reads from the connection straight into p once the buffer is empty, and takes the framing
// off in place. The buffer is given back before that: an exchange that waits for the next event of
// a stream holds none. It may return 0 bytes without an error, when only framing has come.
func (x *Exchange) more(p []byte, until time.Time) (int, error) {
	x.releaseBuffer()
	if x.body != bodyChunked {
		p = p[:min(int64(len(p)), x.left)]
	}
	n, err := 0, x.readErr
	if err == nil {
		n, err = x.c.read(p, until)
	}
	switch {
	case err == nil && x.body == bodyChunked:
		return x.unframe(p[:n])
	case err == nil:
		x.consumed(int64(n))
		return n, nil
	case errors.Is(err, ErrNotYet):
		if gone := x.check(); gone != nil {
			return 0, gone
		}
		return 0, ErrNotYet
	case x.body == bodyUntilClose && errors.Is(err, io.EOF): // not io.ErrUnexpectedEOF, which is a cut TLS record
		if gone := x.check(); gone != nil {
			return 0, gone
		}
		x.done = true
		return 0, io.EOF
	}
	return 0, x.cutOff(err)
}

// unframe moves the payload in p to its beginning and returns its length. What follows the end of
// the body is no part of this exchange, and the connection is not used again.
func (x *Exchange) unframe(p []byte) (n int, err error) {
	n, read, err := x.chunks.Unframe(p, &replyRules)
	x.done = x.chunks.Ended()
	x.surplus = read < len(p) && err == nil
	switch {
	case err == nil:
		return n, nil
	case n > 0:
		x.later = err // after the payload before it
		return n, nil
	}
	return 0, x.bad(err)
}

// Wait waits until there is something for Read, or until the given time has passed (zero: without
// limit): bytes, the end of the body or a failure, which Read then returns. It is optional. A
// caller that waits first and then allocates what it reads into holds no memory while nothing
// comes, and neither does the exchange. It may return early.
func (x *Exchange) Wait(until time.Time) {
	if x.check() != nil || x.body == bodyUnknown || x.done || x.later != nil || x.readErr != nil || x.pos < x.end || !x.c.fetches() {
		return
	}
	x.releaseBuffer()
	n, err := x.fetch(until)
	x.came = x.came || n > 0
	if x.end = n; err != nil && !errors.Is(err, ErrNotYet) {
		x.readErr = err
	}
}

// releaseBuffer gives the buffer back, once all of it has been read. Header values that are kept
// move out of it first.
func (x *Exchange) releaseBuffer() {
	if x.buf == nil {
		return
	}
	if x.inBuf {
		x.detachNames()
	}
	x.dropBuffer()
	x.pos, x.end = 0, 0
}
