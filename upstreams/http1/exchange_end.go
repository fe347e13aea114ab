package http1

import (
	"context"
	"errors"
	"net"
	"time"

	"penstock/upstreams/http1/chunked"
)

// How an exchange ends: given up by Abort, by its owner with Close, or by a failure.

// Abort ends the exchange, from any goroutine, at any time, any number of times: its connection is
// closed at once, and every call that is under way or follows returns a *Failure of kind Aborted
// whose Err is the first call's cause (nil: context.Canceled). After Close it does nothing.
func (x *Exchange) Abort(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	x.mu.Lock()
	if x.state.Load() != stateOpen {
		x.mu.Unlock()
		return
	}
	x.cause = cause
	x.state.Store(stateAborted)
	c, cancel := x.live, x.cancel
	x.live, x.cancel = nil, nil
	x.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	if c != nil {
		if x.sending.Load() {
			c.reset()
		}
		c.close()
	}
}

// Close ends the exchange on the owner's side. It keeps the connection for another exchange if that
// is reusable, and closes it otherwise. A second call does nothing.
func (x *Exchange) Close() { x.CloseAt(time.Now()) }

// CloseAt is Close for a caller that has read the clock already.
func (x *Exchange) CloseAt(now time.Time) {
	reusable := x.reusable()
	x.mu.Lock()
	state := x.state.Load()
	x.state.Store(stateClosed)
	x.live, x.cancel = nil, nil
	x.mu.Unlock()
	if state == stateClosed {
		return
	}
	if x.c != nil {
		if reusable && state == stateOpen {
			x.t.keepIdle(x.c, x.head.idle, now)
		} else {
			x.c.unsolicited = x.done && x.body != bodyUntilClose && (x.surplus || x.pos != x.end)
			x.discard(x.c)
		}
	}
	x.c, x.names = nil, nil
	x.req = Request{}
	x.dropBuffer()
}

// reusable reports whether the connection is at the boundary between two exchanges and both sides
// keep it.
func (x *Exchange) reusable() bool {
	return x.err == nil && x.done && x.body != bodyUntilClose && x.pos == x.end && !x.surplus && !x.cut && x.readErr == nil && x.head.reusable()
}

// check returns why the exchange cannot go on, or nil.
func (x *Exchange) check() error {
	if x.state.Load() == stateOpen {
		return x.err
	}
	if x.err == nil {
		x.mu.Lock()
		cause := x.cause
		x.mu.Unlock()
		reason := ReasonAborted
		if cause == nil {
			cause, reason = net.ErrClosed, ReasonClosed
		}
		x.err = &Failure{Kind: Aborted, Upstream: x.t.upstream, Reason: reason, Sent: x.touched, Err: cause}
	}
	return x.err
}

// failWith records how the exchange failed, unless it was aborted or had failed before, and closes
// its connection.
func (x *Exchange) failWith(f *Failure) error {
	if err := x.check(); err != nil {
		return err
	}
	f.Sent = f.Sent || x.touched
	x.err = f
	if x.c != nil {
		x.c.close()
	}
	return f
}

func (x *Exchange) fail(k Kind, reason string, err error) error {
	return x.failWith(&Failure{Kind: k, Upstream: x.t.upstream, Reason: reason, Err: err})
}

func (x *Exchange) failTimeout(clock string, err error) error {
	return x.failWith(&Failure{Kind: Timeout, Upstream: x.t.upstream, Clock: clock, Reason: ReasonTimeout, Err: err})
}

// bad fails the exchange because of what the engine sent.
func (x *Exchange) bad(err error) error {
	reason := ReasonInvalid
	var w *wireError
	switch {
	case errors.As(err, &w):
		reason = w.reason
	case errors.Is(err, chunked.ErrTooLarge):
		reason = ReasonTooLarge
	}
	return x.fail(BadResponse, reason, err)
}

// cutOff fails the exchange because the connection ended within the reply.
func (x *Exchange) cutOff(err error) error {
	err = x.c.ended(err)
	if reason := x.c.reasonOf(err); reason != ReasonEOF {
		return x.fail(BadResponse, reason, err)
	}
	return x.fail(BadResponse, ReasonTruncated, errTruncated)
}
