package http1

import (
	"errors"
	"io"
	"time"

	"penstock/upstreams/http1/chunked"
)

// Exchange is one request and its reply. Only the owner may call its methods, one at a time; any
// goroutine may call Abort. The zero value needs Begin.
type Exchange struct {
	life    lifetime // shared with Abort
	request delivery
	reply   reply
	answers *AnswerWatch // of the upstream, for a call; nil: not a call
}

// Begin initialises the zero x for an exchange over t, as Transport.Exchange does. w records the
// engine's answers, and may be nil.
func (x *Exchange) Begin(t *Transport, w *AnswerWatch) {
	if x.request.t != nil {
		panic("BUG: an exchange is begun twice")
	}
	x.request.t, x.life.upstream, x.answers = t, t.upstream, w
}

// Send sends r on an idle connection, or on a new connection if there is none, and waits until the
// whole request has been written. If the engine answers and stops reading before the end of the
// request, Send also returns nil, and Await reads the answer. A small request for an idle
// connection is written only by Await, which must follow at once. Send copies r but not its slices;
// Request says how long they must not change.
//
// The error is a *Failure: Unreachable, Timeout (from the connect or write clock), or Aborted. Send
// may be called once.
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

// Await waits for the head of the reply, until the given time (zero: without limit). Interim
// replies are skipped. A reply with status 101 has no body, and its connection is not kept.
//
// It returns ErrNotYet when that time has passed; another call then continues. Any other error is a
// *Failure: BadResponse if the reply does not parse or is truncated, Unreachable if there is no
// reply, or Aborted. If a reused connection turns out to be dead only now, Await sends the request
// again. The time that this takes may exceed the time limit.
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

// awaitMore waits for more of the head, on another connection if necessary.
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

// noReplyYet handles a wait that ended without a reply, because the time limit has passed or
// because the acknowledgement must be checked. It returns nil if the caller should keep waiting:
// the limit has not passed, or the request was sent again after it reached no host.
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

// Read reads into p the decoded body bytes that have arrived. It waits for the first byte until the
// given time (zero: without limit). Await must have returned nil before.
//
// It returns io.EOF when the body is complete by its framing (see Framed), and ErrNotYet once the
// time has passed; another call continues at any byte. Every other error is a *Failure of kind
// BadResponse or Aborted. It never returns bytes together with an error. Large reads go directly
// into p.
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

// Take returns the unread payload that has arrived, without waiting and without copying it. It
// returns nil if there is none or if Read would return an error. The caller owns the bytes, and
// may change them, until its next call of Read, Wait, Take or Close.
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

// Wait waits until Read has something to return (bytes, the end of the body or a failure), or until
// the given time has passed (zero: without limit). It is optional. If the caller waits first and
// then allocates its buffer, neither the caller nor the exchange holds memory during the wait. Wait
// may return early. It returns false if the time has passed and nothing has arrived.
func (x *Exchange) Wait(until time.Time) bool {
	return x.life.check() != nil || x.reply.wait(x.request.c, until)
}

// Stay is Wait with a step, which handles bytes as soon as they arrive. Stay continues to wait as
// long as step returns true, and returns what Wait returns. A step saves a read that finds nothing.
//
// The step runs within the runtime's poller. It must not wait for anything, and it must not call
// Wait, Stay or Close. A Read in it returns ErrNotYet instead of waiting. Some exchanges cannot
// stay; Stay is then Wait, and step is not called.
func (x *Exchange) Stay(until time.Time, step func() bool) bool {
	x.life.staying.Store(true) // before the check: an abort before it is seen there, and a later one interrupts
	defer x.life.staying.Store(false)
	return x.life.check() != nil || x.reply.stay(x.request.c, x.request.t.guard, until, step)
}

// broken fails the exchange because of what the engine sent.
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

// cutOff fails the exchange because its connection ended within the reply.
func (x *Exchange) cutOff(err error) error {
	err = x.request.c.ended(err)
	reason := x.request.c.reasonOf(err)
	if reason == ReasonEOF {
		return x.broken(errTruncated)
	}
	return x.life.fail(&Failure{Kind: BadResponse, Reason: reason, Err: err})
}

// Abort ends the exchange. Any goroutine may call it at any time, any number of times. Abort
// closes the connection at once, and every running or later call returns a *Failure of kind
// Aborted whose Err is the first call's cause (nil: context.Canceled). After Close it does
// nothing.
func (x *Exchange) Abort(cause error) { x.life.abort(cause) }

// Close ends the exchange on the owner's side. It keeps a reusable connection for another exchange,
// and closes any other. A second call does nothing.
func (x *Exchange) Close() { x.CloseAt(time.Now()) }

// CloseAt is Close for a caller that has already read the clock.
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

// reusable reports whether the connection can be used for another exchange.
func (x *Exchange) reusable() bool {
	return x.life.failure == nil && !x.request.cut && x.reply.reusable()
}

// Status returns the status of the reply, or 0 before Await has returned nil.
func (x *Exchange) Status() int {
	if x.reply.body.kind == bodyUnknown {
		return 0
	}
	return x.reply.head.status
}

// Header returns the value of a reply's header, or nil. It ignores the name's case, and returns the
// first of several headers. Only Content-Type, Content-Length, Transfer-Encoding, Connection,
// Keep-Alive, Retry-After, Content-Encoding, X-Request-Id and Content-Disposition are kept, and
// values up to 1 KiB. The value is valid until the next Read.
func (x *Exchange) Header(name string) []byte { return x.reply.head.value(name) }

// ContentLength returns the length of the body that Read will yield, or -1 if that length is
// unknown in advance.
func (x *Exchange) ContentLength() int64 {
	switch x.reply.body.kind {
	case bodyNone:
		return 0
	case bodySized:
		return x.reply.head.length
	}
	return -1
}

// Framed reports whether the body's framing marks its end. If not, the body ends when the engine
// closes the connection, and io.EOF does not prove that the body is complete.
func (x *Exchange) Framed() bool {
	return x.reply.body.kind != bodyUntilClose && x.reply.body.kind != bodyUnknown
}

// Sends returns the number of times that the request was sent: 0 before Send, and 2 after a dead
// connection was replaced.
func (x *Exchange) Sends() int { return int(x.request.sends) }

// AtOnce reports whether the request was sent without waiting: it was small, and an idle
// connection was available.
func (x *Exchange) AtOnce() bool {
	return x.request.reused && x.request.sends <= 1 && x.request.small
}

// Fresh reports whether bytes arrived from the engine during the last Read, or during a Wait just
// before that Read. If not, the last Read returned bytes that had arrived earlier, for example with
// the head.
func (x *Exchange) Fresh() bool { return x.reply.fresh }
