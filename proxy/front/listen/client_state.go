package listen

import (
	"sync"
	"sync/atomic"

	"penstock/config/instant"
	"penstock/proxy/telemetry/guard"
)

// Waiter is notified when its client has gone.
type Waiter interface {
	// ClientGone is called at most once between Watch and Unwatch, on the watch's goroutine. It
	// must not block and must not call the connection.
	ClientGone()
}

// clientState records whether a connection's client has gone, and the waiter to notify.
type clientState struct {
	mu     sync.Mutex
	waiter Waiter
	gone   bool

	unackedChecks int // consecutive checks without an acknowledgement; only the watch uses it
}

func (s *clientState) watch(w Waiter) (gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone {
		s.waiter = w
	}
	return s.gone
}

func (s *clientState) unwatch(w Waiter) {
	s.mu.Lock()
	if s.waiter == w {
		s.waiter = nil
	}
	s.mu.Unlock()
}

// hasLeft records that the client has gone and notifies the waiter.
func (s *clientState) hasLeft(g *guard.Guard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return
	}
	s.gone = true
	if s.waiter != nil {
		g.Point(guard.Clients)
		s.waiter.ClientGone()
	}
}

// isGone reports whether the client has left.
func (s *clientState) isGone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// withWaiter calls f with the current waiter, if any.
func (s *clientState) withWaiter(f func(Waiter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiter != nil {
		f(s.waiter)
	}
}

// hasWaiter reports whether a call of the client is running.
func (s *clientState) hasWaiter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiter != nil
}

// idleState records whether a connection waits for its next request. Times are instant.Times.
type idleState struct {
	since       atomic.Int64 // 0: a request has started
	waiting     atomic.Int64 // when the wait for a complete request started; 0: not waiting
	interrupted atomic.Bool  // CloseGracefully has interrupted a read
}

// idle records that the connection waits for a request.
func (s *idleState) idle() {
	now := int64(instant.Now())
	s.since.Store(now)
	s.waiting.Store(now)
}

// begun records the first byte of a request. The time limit for the rest of the head starts now. If
// known is true, the client has sent a valid key on an earlier request, and the limit does not
// apply.
func (s *idleState) begun(known bool) {
	s.since.Store(0)
	if known {
		s.waiting.Store(0)
	} else {
		s.waiting.Store(int64(instant.Now()))
	}
}

// complete records that the head of a request has been received.
func (s *idleState) complete() {
	s.since.Store(0)
	s.waiting.Store(0)
}
