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

// slots hands out the places of the running batch and the room in its cache, first come, first
// served. It knows neither time nor sockets.
type slots struct {
	mu           sync.Mutex
	limit, queue int // queue below 0: no bound
	kv           int // 0: not limited
	peak         int
	waiting      int
	first, last  *waiter
	youngest     *slotHolder
	running      atomic.Int32
	used         atomic.Int64 // tokens that running requests hold: what they came with and what they have said since
}

type waiter struct {
	ready      chan struct{}
	tenant     *slotHolder
	granted    bool
	prev, next *waiter
}

// slotHolder is a request that holds a slot. Its owner calls grow for the tokens it says and leave,
// once, at the end.
type slotHolder struct {
	held         int // tokens
	evicted      atomic.Bool
	older, newer *slotHolder
}

func newSlots(limit, queue, kv int) *slots { return &slots{limit: limit, queue: queue, kv: kv} }

// enter waits for a slot and for need tokens of room. It returns errFull at once when the queue is
// full, errGone when gone closes first. Without an error the caller must call leave exactly once
// with the slotHolder.
func (s *slots) enter(gone <-chan struct{}, need int) (*slotHolder, error) {
	s.mu.Lock()
	t := &slotHolder{held: need}
	if s.first == nil && s.fits(need) {
		s.take(t)
		s.mu.Unlock()
		return t, nil
	}
	if s.queue >= 0 && s.waiting >= s.queue {
		s.mu.Unlock()
		return nil, errFull
	}
	w := &waiter{ready: make(chan struct{}), tenant: t, prev: s.last}
	if s.last != nil {
		s.last.next = w
	} else {
		s.first = w
	}
	s.last = w
	return t, s.await(w, gone)
}

// back takes an evicted slotHolder from its slot to the head of the queue, with all that it holds,
// and waits for its return. After errGone it holds nothing.
func (s *slots) back(t *slotHolder, gone <-chan struct{}) error {
	s.mu.Lock()
	s.release(t)
	t.evicted.Store(false)
	w := &waiter{ready: make(chan struct{}), tenant: t, next: s.first}
	if s.first != nil {
		s.first.prev = w
	} else {
		s.last = w
	}
	s.first = w
	return s.await(w, gone)
}

// await counts a waiter that has just been linked and waits; s.mu is held and given back.
func (s *slots) await(w *waiter, gone <-chan struct{}) error {
	s.waiting++
	s.grant()
	s.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-gone:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.granted { // the grant and the farewell crossed
		s.release(w.tenant)
	} else {
		s.unlink(w)
	}
	s.grant() // the head may have been what blocked the rest
	return errGone
}

// leave gives the slot and the room back.
func (s *slots) leave(t *slotHolder) {
	s.mu.Lock()
	s.release(t)
	s.grant()
	s.mu.Unlock()
}

// grow counts tokens that a running request has said. When they do not fit any more, the request
// that came last is evicted: it finds out at its next token, goes back and reads everything again,
// as in vLLM. A request that runs alone never is.
func (s *slots) grow(t *slotHolder, n int) {
	t.held += n
	if used := s.used.Add(int64(n)); s.kv > 0 && used > int64(s.kv) {
		s.mu.Lock()
		if s.running.Load() > 1 {
			s.youngest.evicted.Store(true)
		}
		s.mu.Unlock()
	}
}

func (s *slots) fits(need int) bool {
	n := int(s.running.Load())
	return n < s.limit && (s.kv == 0 || n == 0 || int(s.used.Load())+need <= s.kv)
}

func (s *slots) take(t *slotHolder) {
	s.used.Add(int64(t.held))
	s.peak = max(s.peak, int(s.running.Add(1)))
	if s.youngest != nil {
		s.youngest.newer = t
	}
	t.older, s.youngest = s.youngest, t
}

func (s *slots) release(t *slotHolder) {
	s.used.Add(-int64(t.held))
	s.running.Add(-1)
	if t.older != nil {
		t.older.newer = t.newer
	}
	if t.newer != nil {
		t.newer.older = t.older
	} else {
		s.youngest = t.older
	}
	t.older, t.newer = nil, nil
}

// grant gives free slots to the head of the queue; nobody overtakes.
func (s *slots) grant() {
	for w := s.first; w != nil && s.fits(w.tenant.held); w = s.first {
		s.unlink(w)
		w.granted = true
		s.take(w.tenant)
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
	return int(s.running.Load()), s.waiting, s.peak
}

// room is how much of the cache running requests use, and the number of slots.
func (s *slots) room() (used, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.used.Load()), s.limit
}

func (s *slots) clearPeak() {
	s.mu.Lock()
	s.peak = int(s.running.Load())
	s.mu.Unlock()
}
