package http1

import (
	"errors"
	"io"
	"time"

	"penstock/upstreams/http1/chunked"
)

// Exchange is one request and its response. Only the owner may call its methods, one at a time,
// except for Abort. Call Begin before any other method.
type Exchange struct {
	life     lifetime // shared with Abort
	delivery requestDelivery
	reply    reply
	answers  *AnswerWatch // records response bytes of calls; nil for other exchanges
}

// Begin initialises x for an exchange over t, like Transport.NewExchange does. x must be the zero
// value. If w is not nil, the exchange records its response bytes in w.
func (x *Exchange) Begin(t *Transport, w *AnswerWatch) {
	if x.delivery.t != nil {
		panic("BUG: an exchange is begun twice")
	}
	x.delivery.t, x.life.upstream, x.answers = t, t.upstream, w
}

// Send sends r on an idle connection or on a new connection, and waits until the whole request is
// written. If the engine responds early and stops reading, Send also returns nil, and Await reads
// the response. A small request on an idle connection is written only in Await, so call Await
// immediately. Send copies r but not its slices. See Request for how long the slices must stay
// unchanged.
//
// The error is a *Failure of kind KindUnreachable, KindTimeout (with TimeoutConnect or TimeoutWrite) or
// KindAborted. Call Send at most once.
func (x *Exchange) Send(r *Request) error {
	if x.delivery.c != nil || x.life.failure != nil {
		panic("BUG: an exchange is sent twice")
	}
	if err := x.life.checkOpen(); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return x.life.fail(&Failure{Kind: KindAborted, Reason: ReasonRequest, Err: err})
	}
	x.delivery.setRequest(r)
	return x.delivery.start(&x.life, &x.reply)
}

// Await waits for the response head until the given time (zero: no limit). It skips interim
// responses. A response with status 101 has no body, and its connection is not reused.
//
// When the given time has passed, Await returns ErrNoBytesYet and may be called again. Any other error
// is a *Failure: of kind KindBadResponse if the response is malformed or truncated, KindUnreachable
// if there is no response, or KindAborted. If a reused connection turns out to be dead, Await sends
// the request again. This retry may take longer than the given time.
func (x *Exchange) Await(until time.Time) error {
	err := x.life.checkOpen()
	if err == nil && x.delivery.c == nil {
		panic("BUG: Await before Send")
	}
	if err == nil && x.reply.body.kind != bodyUnknown { // the head has already arrived
		return nil
	}
	for err == nil {
		var whole bool
		whole, err = x.reply.parseHead()
		switch {
		case err != nil:
			return x.failInvalid(err)
		case !whole:
			err = x.awaitMore(until)
		case x.delivery.hasBytesBesideResponse(&x.reply):
			err = x.delivery.resendOnNewConn(&x.life, &x.reply, true)
		default:
			x.reply.beginBody(x.delivery.req.Method)
			x.delivery.releaseRequest()
			return nil
		}
	}
	return err
}

// awaitMore waits for more of the head, possibly on another connection.
func (x *Exchange) awaitMore(until time.Time) error {
	switch err := x.delivery.fillHead(&x.life, &x.reply, until); {
	case err == nil:
		return nil
	case errors.Is(err, errUnsent):
		return x.delivery.resumeWrite(&x.life, &x.reply)
	case errors.Is(err, errBytesBeforeRequestArrived):
		return x.delivery.resendOnNewConn(&x.life, &x.reply, true)
	case errors.Is(err, ErrNoBytesYet):
		return x.handleWaitTimeout(until)
	case x.reply.anyReceived:
		return x.failTruncated(err)
	default:
		return x.delivery.handleLostConn(&x.life, &x.reply, err)
	}
}

// handleWaitTimeout handles a wait that has ended without response bytes, because the time limit
// has passed or an acknowledgement check is due. It returns nil if the caller should continue to
// wait, because the limit has not passed or the request was sent again.
func (x *Exchange) handleWaitTimeout(until time.Time) error {
	if gone := x.life.checkOpen(); gone != nil {
		return gone
	}
	now := time.Now()
	if r := &x.delivery; r.ack.isDue(now) && !r.ack.isAckedInTime(r.c, now, r.t.ackTimeout) {
		if x.reply.anyReceived { // part of a head has arrived
			r.c.resetOnClose()
			return x.failTruncated(errUnacked)
		}
		return r.handleLostConn(&x.life, &x.reply, errUnacked)
	}
	if !until.IsZero() && !now.Before(until) {
		return ErrNoBytesYet
	}
	return nil
}

// Read reads decoded body bytes into p, as many as have arrived. It waits for the first byte until
// the given time (zero: no limit). Call it after Await has returned nil.
//
// Read returns io.EOF at the end of the body (see IsFramed). When the given time has passed, Read
// returns ErrNoBytesYet and may be called again. Any other error is a *Failure of kind KindBadResponse
// or KindAborted. Read never returns bytes together with an error. Large reads bypass the buffer.
func (x *Exchange) Read(p []byte, until time.Time) (int, error) {
	if err := x.life.checkOpen(); err != nil {
		return 0, err
	}
	if x.reply.body.kind == bodyUnknown {
		panic("BUG: Read before Await")
	}
	n, err := x.reply.read(x.delivery.c, p, until)
	switch {
	case n > 0:
		if x.answers != nil {
			x.answers.RecordBytes(int(x.reply.head.status), p[:n])
		}
		return n, nil
	case err == nil:
		return 0, nil
	case errors.Is(err, ErrNoBytesYet), errors.Is(err, io.EOF):
		if gone := x.life.checkOpen(); gone != nil {
			return 0, gone
		}
		return 0, err
	case errors.Is(err, errConnEnded):
		return 0, x.failTruncated(x.reply.readErr)
	}
	return 0, x.failInvalid(err)
}

// TakeBuffered returns the unread payload that has arrived, without waiting or copying. It returns
// nil if no payload has arrived or if Read would return an error. The caller may modify the bytes.
// They are valid until the next call to Read, WaitReadable, TakeBuffered or Close.
func (x *Exchange) TakeBuffered() []byte {
	if x.life.checkOpen() != nil {
		return nil
	}
	p := x.reply.takeBuffered()
	if len(p) > 0 && x.answers != nil {
		x.answers.RecordBytes(int(x.reply.head.status), p)
	}
	return p
}

// SpareBuffer returns the unused part of the buffer that contains the received bytes. A step of
// StayInPoller may write to it until the step returns, for example a translation of the bytes that
// TakeBuffered has returned.
func (x *Exchange) SpareBuffer() []byte { return x.reply.received.b[x.reply.received.end:] }

// WaitReadable waits until Read would return bytes, the end of the body or a failure, but at most
// until the given time (zero: no limit). If the caller allocates its buffer only after
// WaitReadable, neither the caller nor the exchange needs a buffer during the wait. Calling
// WaitReadable is optional, and it may return early. It returns false if the given time passes
// first.
func (x *Exchange) WaitReadable(until time.Time) bool {
	return x.life.checkOpen() != nil || x.reply.waitReadable(x.delivery.c, until)
}

// Stepper handles the bytes that arrive during Exchange.StayInPoller.
type Stepper interface {
	// Step reports whether to continue to wait. It must not block, and must not call the exchange's
	// WaitReadable, StayInPoller or Close. Within Step, Read returns ErrNoBytesYet instead of waiting.
	Step() bool
}

// StayInPoller is like WaitReadable, but calls s.Step as soon as bytes arrive, and continues to wait
// as long as Step returns true. This saves a read that would find nothing. Step runs within the
// runtime's poller. If an exchange cannot stay in the poller, StayInPoller only calls WaitReadable
// and never calls Step.
func (x *Exchange) StayInPoller(until time.Time, s Stepper) bool {
	x.life.inPoller.Store(true) // set before checkOpen, so that no abort is missed
	defer x.endStay()
	if x.life.checkOpen() != nil {
		return true
	}
	if !x.reply.beginStay(x.delivery.c, x.delivery.t.guard, s) {
		return x.reply.waitReadable(x.delivery.c, until)
	}
	_, _, err := x.delivery.c.readWithPooledBuffer(until)
	return x.reply.hasStayed(err)
}

// endStay undoes beginStay, even after a panic.
func (x *Exchange) endStay() {
	if x.delivery.c != nil {
		p := &x.delivery.c.poll
		p.staying, p.stepper, p.isInStep = nil, nil, false
	}
	x.life.inPoller.Store(false)
}

// failInvalid fails the exchange because the engine sent an invalid response.
func (x *Exchange) failInvalid(err error) error {
	reason := ReasonInvalid
	wire, ours := errors.AsType[*wireError](err)
	switch {
	case ours:
		reason = wire.reason
	case errors.Is(err, chunked.ErrTooLarge):
		reason = ReasonTooLarge
	}
	return x.life.fail(&Failure{Kind: KindBadResponse, Reason: reason, Err: err})
}

// failTruncated fails the exchange because its connection ended in the middle of the response.
func (x *Exchange) failTruncated(err error) error {
	err = x.delivery.c.endReason(err)
	reason := x.delivery.c.failureReason(err)
	if reason == ReasonEOF {
		return x.failInvalid(errTruncated)
	}
	return x.life.fail(&Failure{Kind: KindBadResponse, Reason: reason, Err: err})
}

// Abort aborts the exchange. It may be called from any goroutine, at any time, any number of times.
// Abort closes the connection immediately. All running and later calls return a *Failure of kind
// KindAborted. Its Err is the cause passed to the first Abort, or context.Canceled if that cause is
// nil. After Close, Abort does nothing.
func (x *Exchange) Abort(cause error) { x.life.abort(cause) }

// Close ends the exchange. If the connection is reusable, Close returns it to the idle pool.
// Otherwise Close closes it. A second call does nothing.
func (x *Exchange) Close() { x.CloseWithNow(time.Now()) }

// CloseWithNow is like Close, but the caller passes the current time.
func (x *Exchange) CloseWithNow(now time.Time) {
	before := x.life.close()
	if before == lifeClosed {
		return
	}
	if c := x.delivery.c; c != nil {
		if before == lifeOpen && x.isReusable() {
			x.delivery.t.idle.putConn(c, x.reply.head.idle, now)
		} else {
			c.hasUnsolicited = x.reply.isFramedEnd() && x.reply.hasSurplus()
			x.delivery.t.discard(c)
		}
	}
	x.delivery.c, x.reply.head.valueBuf = nil, nil
	x.delivery.releaseRequest()
	x.reply.received.release()
}

// isReusable reports whether the connection can serve another exchange.
func (x *Exchange) isReusable() bool {
	return x.life.failure == nil && !x.delivery.isIncomplete && x.reply.isReusable()
}

// Status returns the response status, or 0 before Await has returned nil.
func (x *Exchange) Status() int {
	if x.reply.body.kind == bodyUnknown {
		return 0
	}
	return int(x.reply.head.status)
}

// Header returns the value of a response header, or nil. The name is case-insensitive. If the
// header occurs more than once, Header returns the first value. Header supports only Content-Type,
// Content-Length, Transfer-Encoding, Connection, Keep-Alive, Retry-After, Content-Encoding,
// X-Request-Id and Content-Disposition, with values up to 1 KiB. The value is valid until the next
// Read.
func (x *Exchange) Header(name string) []byte { return x.reply.head.value(name) }

// ContentLength returns the length of the body, or -1 if it is unknown in advance.
func (x *Exchange) ContentLength() int64 {
	switch x.reply.body.kind {
	case bodyNone:
		return 0
	case bodySized:
		return x.reply.head.length
	}
	return -1
}

// IsFramed reports whether the body's framing marks its end. If it returns false, the body ends
// when the engine closes the connection, so io.EOF does not prove that the body is complete.
func (x *Exchange) IsFramed() bool {
	return x.reply.body.kind != bodyUntilClose && x.reply.body.kind != bodyUnknown
}

// SendCount returns how many times the request was sent: 0 before Send, normally 1, and 2 after a
// retry on a new connection.
func (x *Exchange) SendCount() int { return int(x.delivery.sendCount) }

// WasSentAtOnce reports whether the request was sent without waiting, because it was small and an
// idle connection was available.
func (x *Exchange) WasSentAtOnce() bool {
	return x.delivery.reusedConn && x.delivery.sendCount <= 1 && x.delivery.fitsOneWrite
}

// IsReadFresh reports whether the last Read returned bytes that arrived during that Read, or during a
// WaitReadable just before it. If it returns false, the bytes had arrived earlier, for example with
// the head.
func (x *Exchange) IsReadFresh() bool { return x.reply.hasFreshBytes }
