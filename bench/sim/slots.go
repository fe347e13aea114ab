package sim

import (
	"errors"
	"sync"
	"sync/atomic"
)

// Why a request got no slot.
var (
	errFull = errors.New("queue is full")
	errGone = errors.New("client has left")
)

// slots hands out the places of the running batch, first come, first served. It knows neither time nor sockets.
type slots struct {
	mu            sync.Mutex
	limit, queue  int // queue below 0: no bound
	kv, kvUsed    int // kv 0: not limited
	running, peak int
	waiting       int
	first, last   *waiter
	grown         atomic.Int64 // tokens that running requests have added to their prompts
}

type waiter struct {
	ready      chan struct{}
	need       int
	granted    bool
	prev, next *waiter
}

func newSlots(limit, queue, kv int) *slots { return &slots{limit: limit, queue: queue, kv: kv} }

// enter waits for a slot and for need tokens of room. It returns errFull at once when the queue is full, errGone when gone
// closes first. After nil the caller must call leave exactly once with the same need.
func (s *slots) enter(gone <-chan struct{}, need int) error {
	s.mu.Lock()
	if s.first == nil && s.fits(need) {
		s.take(need)
		s.mu.Unlock()
		return nil
	}
	if s.queue >= 0 && s.waiting >= s.queue {
		s.mu.Unlock()
		return errFull
	}
	w := &waiter{ready: make(chan struct{}), need: need, prev: s.last}
	if s.last != nil {
		s.last.next = w
	} else {
		s.first = w
	}
	s.last = w
	s.waiting++
	s.mu.Unlock()

	select {
	case <-w.ready:
		return nil
	case <-gone:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.granted { // the grant and the farewell crossed
		s.release(need)
	} else {
		s.unlink(w)
	}
	s.grant() // the head may have been what blocked the rest
	return errGone
}

// leave gives the slot back.
func (s *slots) leave(need int) {
	s.mu.Lock()
	s.release(need)
	s.grant()
	s.mu.Unlock()
}

// grow counts tokens that a running request has generated; below 0 gives them back. Called for each token, so no lock.
func (s *slots) grow(n int) { s.grown.Add(int64(n)) }

func (s *slots) fits(need int) bool {
	return s.running < s.limit && (s.kv == 0 || s.running == 0 || s.kvUsed+int(s.grown.Load())+need <= s.kv)
}

func (s *slots) take(need int) {
	s.running++
	s.kvUsed += need
	s.peak = max(s.peak, s.running)
}

func (s *slots) release(need int) {
	s.running--
	s.kvUsed -= need
}

// grant gives free slots to the head of the queue; nobody overtakes.
func (s *slots) grant() {
	for w := s.first; w != nil && s.fits(w.need); w = s.first {
		s.unlink(w)
		w.granted = true
		s.take(w.need)
		close(w.ready)
	}
}

func (s *slots) unlink(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		s.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		s.last = w.prev
	}
	w.prev, w.next = nil, nil
	s.waiting--
}

func (s *slots) resize(limit int) {
	s.mu.Lock()
	s.limit = limit
	s.grant()
	s.mu.Unlock()
}

func (s *slots) load() (running, waiting, peak int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running, s.waiting, s.peak
}

// room is how much of the cache running requests use, and the number of slots.
func (s *slots) room() (used, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kvUsed + int(s.grown.Load()), s.limit
}

func (s *slots) clearPeak() {
	s.mu.Lock()
	s.peak = s.running
	s.mu.Unlock()
}
