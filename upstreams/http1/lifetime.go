package http1

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// An open lifetime becomes aborted or closed. An aborted lifetime becomes closed.
const (
	lifeOpen uint32 = iota
	lifeAborted
	lifeClosed
)

// lifetime is the state that an exchange's owner shares with Abort. The mutex serialises abort and
// close. Whichever comes first gets the connection: abort closes it, or the owner returns it to the
// idle pool.
type lifetime struct {
	state       atomic.Uint32 // changed under mu
	isWriting   atomic.Bool   // the request is being written
	inPoller    atomic.Bool   // the owner is in Exchange.StayInPoller
	mu          sync.Mutex
	mayHaveSent bool               // bytes of the request may have been sent; only the owner accesses it
	liveConn    *conn              // closed by abort
	cancel      context.CancelFunc // called by abort while connecting
	cause       error              // the argument passed to abort

	// Only the owner accesses the following fields.
	upstream string
	failure  error // the first failure, returned by all later calls
}

func (l *lifetime) abort(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	l.mu.Lock()
	if l.state.Load() != lifeOpen {
		l.mu.Unlock()
		return
	}
	l.cause = cause
	l.state.Store(lifeAborted)
	c, cancel := l.liveConn, l.cancel
	l.liveConn, l.cancel = nil, nil
	l.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	if c != nil {
		if l.isWriting.Load() {
			c.resetOnClose()
		}
		if l.inPoller.Load() {
			c.interruptStay() // the owner then closes the connection
		} else {
			c.close()
		}
	}
}

// close ends the exchange and returns the previous state.
func (l *lifetime) close() (before uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before = l.state.Load()
	l.state.Store(lifeClosed)
	l.liveConn, l.cancel = nil, nil
	return before
}

// setAbortable sets the connection that abort closes and the function that abort calls. Both may be
// nil. If the exchange cannot continue, setAbortable returns the reason and sets nothing.
func (l *lifetime) setAbortable(c *conn, cancel context.CancelFunc) error {
	l.mu.Lock()
	if l.state.Load() == lifeOpen {
		l.liveConn, l.cancel = c, cancel
	}
	l.mu.Unlock()
	return l.checkOpen()
}

// checkOpen returns the reason why the exchange cannot continue, or nil.
func (l *lifetime) checkOpen() error {
	if l.state.Load() == lifeOpen || l.failure != nil {
		return l.failure
	}
	l.mu.Lock()
	cause, reason := l.cause, ReasonAborted
	l.mu.Unlock()
	if cause == nil {
		cause, reason = net.ErrClosed, ReasonClosed
	}
	l.failure = &Failure{Kind: KindAborted, Upstream: l.upstream, Reason: reason, Sent: l.mayHaveSent, Err: cause}
	return l.failure
}

// fail records a failure and closes the connection. It does nothing if the exchange was aborted or
// has already failed.
func (l *lifetime) fail(f *Failure) error {
	if err := l.checkOpen(); err != nil {
		return err
	}
	f.Upstream, f.Sent = l.upstream, l.mayHaveSent
	l.failure = f
	l.mu.Lock()
	c := l.liveConn
	l.mu.Unlock()
	switch {
	case c == nil:
	case l.inPoller.Load():
		c.interruptStay() // this is called from a step, and close would wait for that step
	default:
		c.close()
	}
	return f
}
