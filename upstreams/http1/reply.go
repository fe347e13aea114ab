package http1

import (
	"errors"
	"io"
	"sync"
	"time"

	"penstock/upstreams/http1/chunked"
)

// readBufferSize is the size of a response buffer. An event of a stream usually fits in it.
const readBufferSize = 4 << 10

var readBufferPool = sync.Pool{New: func() any { return new([readBufferSize]byte) }}

// receivedBytes contains the bytes of a response that were received but not read yet, in b[pos:end]. It
// has no buffer while there are no such bytes.
type receivedBytes struct {
	pooledBuf *[readBufferSize]byte // the pooled buffer, if b uses one
	b         []byte
	pos, end  int // pos is 0 until the head is complete
}

func (r *receivedBytes) isEmpty() bool       { return r.pos == r.end }
func (r *receivedBytes) unreadBytes() []byte { return r.b[r.pos:r.end] }

// headSpace returns space for more of the head. The first buffer is large enough for all but
// unusual heads.
func (r *receivedBytes) headSpace() []byte {
	switch {
	case r.b == nil:
		r.pooledBuf = readBufferPool.Get().(*[readBufferSize]byte)
		r.b = r.pooledBuf[:]
	case r.end == len(r.b):
		larger := make([]byte, min(4*len(r.b), maxHeadBytes+readBufferSize))
		copy(larger, r.b[:r.end])
		r.release()
		r.b = larger
	}
	return r.b[r.end:]
}

func (r *receivedBytes) release() {
	if r.pooledBuf != nil {
		readBufferPool.Put(r.pooledBuf)
	}
	r.pooledBuf, r.b = nil, nil
}

// errConnEnded is returned by reply.read if the connection ended within the body. The cause is in
// reply.readErr.
var errConnEnded = errors.New("the connection ended within the body")

// reply is the state of a response while it is received.
type reply struct {
	received      receivedBytes
	head          responseHead
	body          bodyPosition
	readErr       error // the error that ended reading from the connection
	anyReceived   bool  // a byte has arrived
	arrivedInWait bool  // bytes arrived during a wait, before the next read
	hasFreshBytes bool  // bytes arrived during the last read, or during the wait before it
}

// fillBuffer reads the next bytes from the connection. If possible, it uses no buffer while it
// waits.
func (r *reply) fillBuffer(c *conn, until time.Time) error {
	if r.readErr != nil {
		return r.readErr
	}
	var (
		n   int
		err error
	)
	if r.received.b == nil && c.canReadWithPooledBuffer() {
		r.received.pooledBuf, n, err = c.readWithPooledBuffer(until)
		if r.received.pooledBuf != nil {
			r.received.b = r.received.pooledBuf[:]
		}
	} else {
		n, err = c.read(r.received.headSpace(), until)
	}
	r.received.end += n
	r.anyReceived = r.anyReceived || n > 0
	if err != nil && !errors.Is(err, ErrNoBytesYet) && !errors.Is(err, errUnsent) {
		r.readErr = err
	}
	return err
}

// parseHead parses the received bytes of the head. It reports whether the head is complete.
func (r *reply) parseHead() (bool, error) { return r.head.parseReceived(&r.received) }

// hasAnswered reports whether the caller should stop writing the request, because the response has
// begun or the engine has closed the connection. It stores the received bytes. Interim responses do
// not count.
func (r *reply) hasAnswered(c *conn) bool {
	switch c.peek() {
	case queueEmpty:
		return false
	case queueEOF:
		return true
	case queueBroken:
		r.readErr = c.poll.err // peek has cleared the socket's error
		return true
	case queueHasData:
	}
	if err := r.fillBuffer(c, time.Now().Add(time.Millisecond)); err != nil {
		return !errors.Is(err, ErrNoBytesYet) // a TLS record without payload
	}
	done, err := r.parseHead()
	return done || err != nil || r.head.status >= 200
}

// hasTrailingBytes reports whether more bytes arrived together with the complete response.
func (r *reply) hasTrailingBytes(method string) bool {
	if r.body.kind != bodyUnknown {
		return false
	}
	length, rest := r.head.length, r.received.b[r.head.nextLine:r.received.end]
	switch {
	case method == "HEAD", r.head.status == 204, r.head.status == 304:
		length = 0
	case r.head.status == 101:
		return false
	case r.head.isChunked:
		return chunked.HasBytesAfterBody(rest, &replyChunkLimits)
	case !r.head.hasLength:
		return false
	}
	return int64(len(rest)) > length
}

// beginBody prepares to read the body, once the head is complete.
func (r *reply) beginBody(method string) {
	if r.body.kind == bodyUnknown {
		r.body.setFraming(method, &r.head)
		r.received.pos = r.head.nextLine
		r.head.keepValues(r.received.b)
	}
}

// discardReceived discards the received bytes, because they are not the response.
func (r *reply) discardReceived() {
	r.received.release()
	*r = reply{}
}

// read implements Exchange.Read. At the end of the body it returns io.EOF. Unlike Exchange.Read, it
// returns errConnEnded or a framing error instead of a Failure.
func (r *reply) read(c *conn, p []byte, until time.Time) (n int, err error) {
	if r.body.deferredErr != nil {
		return 0, r.body.deferredErr
	}
	r.hasFreshBytes, r.arrivedInWait = r.arrivedInWait, false
	for {
		m, err := r.body.skipFraming(r.received.unreadBytes())
		r.received.pos += m
		switch {
		case err != nil && n > 0: // the next call parses the invalid byte again and returns err
			return n, nil
		case err != nil:
			return 0, err
		case n > 0 && (r.body.isDone || n == len(p) || r.received.isEmpty()):
			return n, nil
		case r.body.isDone:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		case r.received.isEmpty():
			r.hasFreshBytes = true
			if m, err := r.readFromConn(c, p, until); err != nil || m > 0 {
				return m, err
			}
			continue
		}
		m = copy(p[n:], r.received.unreadBytes()[:min(int64(r.received.end-r.received.pos), r.body.payloadAvailable())])
		r.received.pos += m
		n += m
		r.body.consume(int64(m))
	}
}

// takeBuffered implements Exchange.TakeBuffered.
func (r *reply) takeBuffered() []byte {
	if r.received.isEmpty() || r.body.kind == bodyUnknown || r.body.isDone || r.body.deferredErr != nil {
		return nil
	}
	r.hasFreshBytes, r.arrivedInWait = r.arrivedInWait, false
	p := r.body.takePayload(r.received.unreadBytes())
	r.received.pos = r.received.end
	return p
}

// readFromConn reads from the connection directly into p, and removes the framing in place. Before
// it waits, it returns the empty buffer to the pool, so that a waiting exchange needs no buffer. If
// only framing has arrived, it may return 0 bytes without an error.
func (r *reply) readFromConn(c *conn, p []byte, until time.Time) (int, error) {
	if c.poll.isInStep {
		return 0, ErrNoBytesYet // the step may still use the buffer (Exchange.SpareBuffer)
	}
	r.release()
	if r.body.kind != bodyChunked {
		p = p[:min(int64(len(p)), r.body.left)]
	}
	n, err := 0, r.readErr
	if err == nil {
		n, err = c.read(p, until)
	}
	switch {
	case err == nil:
		return r.body.unframe(p[:n])
	case errors.Is(err, ErrNoBytesYet):
		return 0, err
	// If a TLS record is truncated, the error is io.ErrUnexpectedEOF instead.
	case r.body.kind == bodyUntilClose && errors.Is(err, io.EOF):
		r.body.isDone = true
		return 0, io.EOF
	}
	r.readErr = err
	return 0, errConnEnded
}

// waitReadable implements Exchange.WaitReadable.
func (r *reply) waitReadable(c *conn, until time.Time) bool {
	if r.body.kind == bodyUnknown || r.body.isDone || r.body.deferredErr != nil || r.readErr != nil ||
		!r.received.isEmpty() || !c.canReadWithPooledBuffer() {
		return true
	}
	r.markBufferEmpty()
	// The first read usually finds nothing, and then returns the buffer to the pool.
	c.poll.spare, r.received.pooledBuf = r.received.pooledBuf, nil
	r.received.release()
	err := r.fillBuffer(c, until) // the next read returns err
	c.poll.releaseSpare()
	r.arrivedInWait = r.arrivedInWait || !r.received.isEmpty()
	return !errors.Is(err, ErrNoBytesYet)
}

// beginStay prepares for a stay in the poller. It returns false if the reply must wait without s.
func (r *reply) beginStay(c *conn, g Guard, s Stepper) bool {
	if r.body.kind != bodyChunked || r.body.isDone || r.body.deferredErr != nil || r.readErr != nil ||
		!r.received.isEmpty() || !c.canReadWithPooledBuffer() || !c.watchHangUps(g) {
		return false
	}
	r.release()
	c.poll.staying, c.poll.stepper = r, s
	return true
}

// hasStayed records the error that ended a stay. It returns false if no bytes have arrived.
func (r *reply) hasStayed(err error) bool {
	if err != nil && !errors.Is(err, ErrNoBytesYet) {
		r.readErr = err
	}
	return !errors.Is(err, ErrNoBytesYet)
}

// runStep runs p.stepper for the bytes that were fetched, and reports whether to stay in the poller.
func (r *reply) runStep(p *pollOps) bool {
	r.received = receivedBytes{pooledBuf: p.fetched, b: p.fetched[:], end: p.fetchedBytes}
	p.fetched, p.fetchedBytes = nil, 0
	r.arrivedInWait = true
	p.isInStep = true
	more := p.stepper.Step()
	p.isInStep = false
	if !more || !r.received.isEmpty() || r.body.isDone || r.body.deferredErr != nil {
		return false
	}
	r.release()
	return true
}

// release returns the buffer to the pool once all of it has been read.
func (r *reply) release() {
	r.markBufferEmpty()
	r.received.release()
}

// markBufferEmpty marks the buffer as empty, after copying the stored header values out of it. All
// bytes in the buffer must have been read.
func (r *reply) markBufferEmpty() {
	if r.received.b != nil {
		r.head.detachValues()
		r.received.pos, r.received.end = 0, 0
	}
}

// isFramedEnd reports whether the response was read to the end of its framing.
func (r *reply) isFramedEnd() bool { return r.body.isDone && r.body.kind != bodyUntilClose }

// hasSurplus reports whether bytes arrived after the response.
func (r *reply) hasSurplus() bool { return r.body.hasSurplus || !r.received.isEmpty() }

// isReusable reports whether the connection can be used for another exchange.
func (r *reply) isReusable() bool {
	return r.isFramedEnd() && !r.hasSurplus() && r.readErr == nil && r.head.isReusable()
}
