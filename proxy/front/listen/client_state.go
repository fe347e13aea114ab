package listen

import (
	"sync"
	"sync/atomic"

	"penstock/config/instant"
	"penstock/proxy/telemetry/guard"
)

// DisconnectWaiter is notified when its client disconnects.
type DisconnectWaiter interface {
	// OnDisconnect is called at most once between WatchDisconnect and UnwatchDisconnect, on the
	// watch's goroutine. It must not block, and must not call the connection's methods.
	OnDisconnect()
}

// disconnectState records whether the client has disconnected, and the DisconnectWaiter to notify.
type disconnectState struct {
	mu              sync.Mutex
	waiter          DisconnectWaiter
	hasDisconnected bool

	// Number of consecutive checks without an acknowledgment; used only by the watch.
	unackedChecks int
}

func (s *disconnectState) setWaiter(w DisconnectWaiter) (gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasDisconnected {
		s.waiter = w
	}
	return s.hasDisconnected
}

func (s *disconnectState) clearWaiter(w DisconnectWaiter) {
	s.mu.Lock()
	if s.waiter == w {
		s.waiter = nil
	}
	s.mu.Unlock()
}

func (s *disconnectState) markGone(g *guard.Guard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasDisconnected {
		return
	}
	s.hasDisconnected = true
	if s.waiter != nil {
		g.PanicIfInjected(guard.PlaceClients)
		s.waiter.OnDisconnect()
	}
}

func (s *disconnectState) isGone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasDisconnected
}

func (s *disconnectState) callWithWaiter(f func(DisconnectWaiter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiter != nil {
		f(s.waiter)
	}
}

func (s *disconnectState) hasWaiter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiter != nil
}

// idleState records whether the connection is waiting for its next request. The times are of type
// instant.Time.
type idleState struct {
	idleSince atomic.Int64 // start of the idle time; 0 once a request has started
	// When the wait for a complete request started; 0 if the connection is not waiting.
	waitingSince    atomic.Int64
	readInterrupted atomic.Bool // whether CloseGracefully or parkIdleConns interrupted a read
	// Whether the connection is parked (park.go), or is about to be.
	isParked atomic.Bool
}

func (s *idleState) markIdle() {
	now := int64(instant.Now())
	s.idleSince.Store(now)
	s.waitingSince.Store(now)
}

// markRequestBegun records that the first byte of a request has arrived. From then on, the listener may
// evict the connection until the request headers are complete. If known is true, an earlier request
// on the connection had a valid key, and the listener must not evict it.
func (s *idleState) markRequestBegun(known bool) {
	s.idleSince.Store(0)
	if known {
		s.waitingSince.Store(0)
	} else {
		s.waitingSince.Store(int64(instant.Now()))
	}
}

func (s *idleState) markRequestComplete() {
	s.idleSince.Store(0)
	s.waitingSince.Store(0)
}
