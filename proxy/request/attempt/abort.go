package attempt

import (
	"sync/atomic"

	"penstock/upstreams/http1"
)

// Abort ends a call from outside. Any goroutine may call End. Only the call's own goroutine may
// call the other methods.
type Abort struct {
	cause    atomic.Pointer[cause]
	left     atomic.Pointer[chan struct{}]
	exchange atomic.Pointer[http1.Exchange]
	shadow   atomic.Pointer[Abort] // aborts a copy of the call, which ends with the call
}

// cause is why a call was ended from outside.
type cause struct{ err error }

// End ends the call for the given reason. It closes the engine's connection at once, and wakes a
// call that waits. The first reason wins.
func (a *Abort) End(err error) {
	if !a.cause.CompareAndSwap(nil, &cause{err}) {
		return
	}
	if x := a.exchange.Load(); x != nil {
		x.Abort(err)
	}
	if left := a.left.Load(); left != nil {
		close(*left)
	}
	if shadow := a.shadow.Load(); shadow != nil {
		shadow.End(err)
	}
}

// Shadow makes a copy of the call end when the call ends, as Publish does for an exchange.
func (a *Abort) Shadow(of *Abort) {
	a.shadow.Store(of)
	if err := a.Cause(); err != nil {
		of.End(err)
	}
}

// Answered detaches the copy of a call whose answer is complete. The copy then continues even if
// the client leaves.
func (a *Abort) Answered() { a.shadow.Store(nil) }

// Cause returns why the call was ended from outside, or nil.
func (a *Abort) Cause() error {
	if c := a.cause.Load(); c != nil {
		return c.err
	}
	return nil
}

// Publish makes x the exchange that End closes. It stores x before it checks the cause, so that no
// End is missed: Publish notices an earlier End, and a later End finds x.
func (a *Abort) Publish(x *http1.Exchange) {
	a.exchange.Store(x)
	if err := a.Cause(); err != nil {
		x.Abort(err)
	}
}

// Withdraw undoes Publish. It must run before the exchange is closed.
func (a *Abort) Withdraw() { a.exchange.Store(nil) }

// Wait returns a channel for a call that waits for something other than an engine. End closes the
// channel. ok is false if the call has already ended.
func (a *Abort) Wait() (left <-chan struct{}, ok bool) {
	ch := make(chan struct{})
	a.left.Store(&ch)
	return ch, a.Cause() == nil
}
