package listen

import (
	"sync"
	"sync/atomic"

	"penstock/config/instant"
	"penstock/proxy/telemetry/guard"
)

// Waiter is notified when its client disconnects.
type Waiter interface {
	// ClientGone is called at most once between Watch and Unwatch, on the goroutine of the watch.
	// It must not block, and must not call the connection.
	ClientGone()
}

// clientState records whether the client has disconnected, and the Waiter to notify.
type clientState struct {
	mu     sync.Mutex
	waiter Waiter
	gone   bool

	// Number of consecutive checks without an acknowledgment; used only by the watch.
	unackedChecks int
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

func (s *clientState) isGone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

func (s *clientState) withWaiter(f func(Waiter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiter != nil {
		f(s.waiter)
	}
}

func (s *clientState) hasWaiter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiter != nil
}

// idleState records whether the connection is waiting for its next request. The times are of type
// instant.Time.
type idleState struct {
	since atomic.Int64 // start of the idle time; 0 once a request has started
	// When the wait for a complete request started; 0 if the connection is not waiting.
	waiting     atomic.Int64
	interrupted atomic.Bool // whether CloseGracefully interrupted a read
}

func (s *idleState) idle() {
	now := int64(instant.Now())
	s.since.Store(now)
	s.waiting.Store(now)
}

// begun records that the first byte of a request has arrived. From then on, the listener may evict
// the connection until the request headers are complete. If known is true, an earlier request on
// the connection had a valid key, and the listener must not evict it.
func (s *idleState) begun(known bool) {
	s.since.Store(0)
	if known {
		s.waiting.Store(0)
	} else {
		s.waiting.Store(int64(instant.Now()))
	}
}

func (s *idleState) complete() {
	s.since.Store(0)
	s.waiting.Store(0)
}
