package http1

import (
	"errors"
	"io"
	"time"

	"penstock/upstreams/http1/chunked"
)

// Exchange is one request and its response. Only the owner may call its methods, one at a time.
// Abort is the exception. Call Begin before any other method.
type Exchange struct {
	life    lifetime // shared with Abort
	request delivery
	reply   reply
	answers *AnswerWatch // records response bytes of calls; nil for other exchanges
}

// Begin initialises x for an exchange over t, as Transport.Exchange does. x must be the zero value.
// If w is not nil, it records response bytes.
func (x *Exchange) Begin(t *Transport, w *AnswerWatch) {
	if x.request.t != nil {
		panic("BUG: an exchange is begun twice")
	}
	x.request.t, x.life.upstream, x.answers = t, t.upstream, w
}

// Send sends r on an idle connection, or on a new one, and waits until the whole request is
// written. If the engine responds early and stops reading, Send also returns nil, and Await reads
// the response. A small request on an idle connection is written only in Await, so call Await
// immediately. Send copies r but not its slices. See Request for how long the slices must stay
// unchanged.
//
// The error is a *Failure: Unreachable, Timeout (from the connect or write clock), or Aborted. Call
// Send at most once.
func (x *Exchange) Send(r *Request) error {
	if x.request.c != nil || x.life.failure != nil {
		panic("BUG: an exchange is sent twice")
	}
	if err := x.life.check(); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return x.life.fail(&Failure{Kind: Aborted, Reason: ReasonRequest, Err: err})
	}
	x.request.req = *r
	return x.request.start(&x.life, &x.reply)
}

// Await waits for the response head until the given time (zero: no limit). It skips interim
// responses. A response with status 101 has no body, and its connection is not reused.
//
// When the given time has passed, Await returns ErrNotYet and may be called again. Any other error
// is a *Failure: BadResponse if the response is malformed or truncated, Unreachable if there is no
// response, or Aborted. If a reused connection turns out to be dead, Await sends the request again.
// This retry may take longer than the given time.
func (x *Exchange) Await(until time.Time) error {
	err := x.life.check()
	if err == nil && x.request.c == nil {
		panic("BUG: Await before Send")
	}
	for err == nil {
		var whole bool
		whole, err = x.reply.advance()
		switch {
		case err != nil:
			return x.broken(err)
		case !whole:
			err = x.awaitMore(until)
		case x.request.answersAnother(&x.reply):
			err = x.request.replace(&x.life, &x.reply, true)
		default:
			x.reply.beginBody(x.request.req.Method)
			x.request.req = Request{}
			return nil
		}
	}
	return err
}

// awaitMore waits for more of the head, possibly on another connection.
func (x *Exchange) awaitMore(until time.Time) error {
	switch err := x.request.fill(&x.life, &x.reply, until); {
	case err == nil:
		return nil
	case errors.Is(err, errUnsent):
		return x.request.resume(&x.life, &x.reply)
	case errors.Is(err, errLeftover):
		return x.request.replace(&x.life, &x.reply, true)
	case errors.Is(err, ErrNotYet):
		return x.noReplyYet(until)
	case x.reply.got:
		return x.cutOff(err)
	default:
		return x.request.lost(&x.life, &x.reply, err)
	}
}

// noReplyYet handles a wait that ended without response bytes because the time limit has passed or
// an acknowledgement check is due. It returns nil if the caller should continue to wait, because
// the limit has not passed or the request was sent again.
func (x *Exchange) noReplyYet(until time.Time) error {
	if gone := x.life.check(); gone != nil {
		return gone
	}
	now := time.Now()
	if r := &x.request; r.ack.due(now) && !r.ack.inTime(r.c, now, r.t.ackTimeout) {
		if x.reply.got { // part of a head has arrived
			r.c.reset()
			return x.cutOff(errUnacked)
		}
		return r.lost(&x.life, &x.reply, errUnacked)
	}
	if !until.IsZero() && !now.Before(until) {
		return ErrNotYet
	}
	return nil
}

// Read reads decoded body bytes into p, as many as have arrived. It waits for the first byte until
// the given time (zero: no limit). Call it after Await has returned nil.
//
// Read returns io.EOF at the end of the body (see Framed). When the given time has passed, Read
// returns ErrNotYet and may be called again. Any other error is a *Failure of kind BadResponse or
// Aborted. Read never returns bytes together with an error. Large reads bypass the buffer.
func (x *Exchange) Read(p []byte, until time.Time) (int, error) {
	if err := x.life.check(); err != nil {
		return 0, err
	}
	if x.reply.body.kind == bodyUnknown {
		panic("BUG: Read before Await")
	}
	n, err := x.reply.read(x.request.c, p, until)
	switch {
	case n > 0:
		if x.answers != nil {
			x.answers.Came(x.reply.head.status, p[:n])
		}
		return n, nil
	case err == nil:
		return 0, nil
	case errors.Is(err, ErrNotYet), errors.Is(err, io.EOF):
		if gone := x.life.check(); gone != nil {
			return 0, gone
		}
		return 0, err
	case errors.Is(err, errCut):
		return 0, x.cutOff(x.reply.ended)
	}
	return 0, x.broken(err)
}

// Take returns the unread payload that has arrived, without waiting or copying. It returns nil if
// no payload has arrived or if Read would return an error. The caller may modify the bytes. They
// are valid until the next call of Read, Wait, Take or Close.
func (x *Exchange) Take() []byte {
	if x.life.check() != nil {
		return nil
	}
	p := x.reply.take()
	if len(p) > 0 && x.answers != nil {
		x.answers.Came(x.reply.head.status, p)
	}
	return p
}

// Room returns the unused part of the buffer that contains the received bytes. It is for a step of
// Stay: until the step returns, it may write there, for example the translation of what Take
// returns.
func (x *Exchange) Room() []byte { return x.reply.in.b[x.reply.in.end:] }

// Wait waits until Read would return bytes, the end of the body or a failure, but at most until the
// given time (zero: no limit). If the caller allocates its buffer only after Wait, neither the
// caller nor the exchange needs memory during the wait. Calling Wait is optional, and it may return
// early. It returns false if the given time passes first.
func (x *Exchange) Wait(until time.Time) bool {
	return x.life.check() != nil || x.reply.wait(x.request.c, until)
}

// Stay is like Wait, but calls step as soon as bytes arrive, and continues to wait as long as step
// returns true. This saves a read that would find nothing.
//
// step runs within the runtime's poller. It must not block, and must not call Wait, Stay or Close.
// Within step, Read returns ErrNotYet instead of waiting. Some exchanges cannot stay in the poller.
// For these, Stay is Wait, and step is not called.
func (x *Exchange) Stay(until time.Time, step func() bool) bool {
	x.life.staying.Store(true) // set before the check, so that an abort is either seen by the check or interrupts the stay
	defer x.life.staying.Store(false)
	return x.life.check() != nil || x.reply.stay(x.request.c, x.request.t.guard, until, step)
}

// broken fails the exchange because the engine sent an invalid response.
func (x *Exchange) broken(err error) error {
	reason := ReasonInvalid
	wire, ours := errors.AsType[*wireError](err)
	switch {
	case ours:
		reason = wire.reason
	case errors.Is(err, chunked.ErrTooLarge):
		reason = ReasonTooLarge
	}
	return x.life.fail(&Failure{Kind: BadResponse, Reason: reason, Err: err})
}

// cutOff fails the exchange because its connection ended in the middle of the response.
func (x *Exchange) cutOff(err error) error {
	err = x.request.c.ended(err)
	reason := x.request.c.reasonOf(err)
	if reason == ReasonEOF {
		return x.broken(errTruncated)
	}
	return x.life.fail(&Failure{Kind: BadResponse, Reason: reason, Err: err})
}

// Abort aborts the exchange. It may be called from any goroutine, at any time, any number of times.
// Abort closes the connection immediately. All running and later calls return a *Failure of kind
// Aborted. Its Err is the cause of the first Abort, or context.Canceled if that cause is nil. After
// Close, Abort does nothing.
func (x *Exchange) Abort(cause error) { x.life.abort(cause) }

// Close ends the exchange. If the connection is reusable, Close returns it to the idle pool.
// Otherwise Close closes it. A second call does nothing.
func (x *Exchange) Close() { x.CloseAt(time.Now()) }

// CloseAt is like Close, but takes the current time from the caller.
func (x *Exchange) CloseAt(now time.Time) {
	before := x.life.close()
	if before == lifeClosed {
		return
	}
	if c := x.request.c; c != nil {
		if before == lifeOpen && x.reusable() {
			x.request.t.idle.put(c, x.reply.head.idle, now)
		} else {
			c.unsolicited = x.reply.framed() && x.reply.surplus()
			x.request.t.discard(c)
		}
	}
	x.request.c, x.reply.head.names = nil, nil
	x.request.req = Request{}
	x.reply.in.release()
}

// reusable reports whether the connection can serve another exchange.
func (x *Exchange) reusable() bool {
	return x.life.failure == nil && !x.request.cut && x.reply.reusable()
}

// Status returns the response status, or 0 before Await has returned nil.
func (x *Exchange) Status() int {
	if x.reply.body.kind == bodyUnknown {
		return 0
	}
	return x.reply.head.status
}

// Header returns the value of a response header, or nil. The name is case-insensitive. If the
// header has more than one value, Header returns the first. Header supports only Content-Type,
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

// Framed reports whether the body's framing marks its end. If it returns false, the body ends when
// the engine closes the connection, so io.EOF does not prove that the body is complete.
func (x *Exchange) Framed() bool {
	return x.reply.body.kind != bodyUntilClose && x.reply.body.kind != bodyUnknown
}

// Sends returns how many times the request was sent: 0 before Send, 1 normally, 2 after a retry on
// a new connection.
func (x *Exchange) Sends() int { return int(x.request.sends) }

// AtOnce reports whether the request was sent without waiting, because it was small and an idle
// connection was available.
func (x *Exchange) AtOnce() bool {
	return x.request.reused && x.request.sends <= 1 && x.request.small
}

// Fresh reports whether the last Read returned bytes that arrived during that Read, or during a
// Wait just before it. If it returns false, the bytes had arrived earlier, for example with the
// head.
func (x *Exchange) Fresh() bool { return x.reply.fresh }
