package attempt

import (
	"sync/atomic"

	"penstock/upstreams/http1"
)

// Canceler lets other goroutines cancel a call. Any goroutine may call Cancel. Only the call's
// goroutine may call the other methods.
type Canceler struct {
	cause    atomic.Pointer[cancelCause]
	done     atomic.Pointer[chan struct{}]
	exchange atomic.Pointer[http1.Exchange]
	shadow   atomic.Pointer[Canceler] // Abort of the call's shadow, which Cancel also cancels
}

type cancelCause struct{ err error }

// Cancel cancels the call. It immediately closes the connection to the engine and wakes the call if
// the call is waiting. If Cancel is called more than once, only the first err counts.
func (a *Canceler) Cancel(err error) {
	if !a.cause.CompareAndSwap(nil, &cancelCause{err}) {
		return
	}
	if x := a.exchange.Load(); x != nil {
		x.Abort(err)
	}
	if left := a.done.Load(); left != nil {
		close(*left)
	}
	if shadow := a.shadow.Load(); shadow != nil {
		shadow.Cancel(err)
	}
}

// AttachShadow makes Cancel also cancel the shadow of the call. If the call was already canceled,
// AttachShadow cancels the shadow immediately.
func (a *Canceler) AttachShadow(of *Canceler) {
	a.shadow.Store(of)
	if err := a.Cause(); err != nil {
		of.Cancel(err)
	}
}

// DetachShadow detaches the shadow after the call has been answered. The shadow then continues even
// if the client disconnects.
func (a *Canceler) DetachShadow() { a.shadow.Store(nil) }

// Cause returns why the call was canceled, or nil.
func (a *Canceler) Cause() error {
	if c := a.cause.Load(); c != nil {
		return c.err
	}
	return nil
}

// SetExchange stores the exchange that Cancel closes. SetExchange stores x before it reads the
// cause. Therefore, either SetExchange sees the cause or Cancel sees x.
func (a *Canceler) SetExchange(x *http1.Exchange) {
	a.exchange.Store(x)
	if err := a.Cause(); err != nil {
		x.Abort(err)
	}
}

// ClearExchange undoes SetExchange. The caller must call it before it closes the exchange.
func (a *Canceler) ClearExchange() { a.exchange.Store(nil) }

// Done returns a channel that Cancel closes. A call selects on the channel while it waits for
// something other than an engine. ok is false if the call was already canceled.
func (a *Canceler) Done() (left <-chan struct{}, ok bool) {
	ch := make(chan struct{})
	a.done.Store(&ch)
	return ch, a.Cause() == nil
}
