package scheduler

import (
	"container/list"
	"errors"
	"math"
	"sync"
	"sync/atomic"
)

// The reasons why a request got no slot.
var (
	ErrFull = errors.New("queue is full")
	ErrGone = errors.New("client has left")
)

// Slots assigns slots of the running batch and room in the engine's cache: the lowest priority
// number first and, within one priority, first come, first served. It knows neither time nor
// sockets.
type Slots struct {
	mu           sync.Mutex
	limit, queue int // negative queue: no limit
	kv           int // 0: not limited
	peak         int
	waiting      list.List // of *waiter; the next one comes first
	holders      list.List // of *SlotHolder; the youngest comes last
	pins         Pins      // of the holders
	running      atomic.Int32
	used         atomic.Int64 // tokens of running requests: prompts and answers so far
}

type waiter struct {
	ready    chan struct{}
	tenant   *SlotHolder
	granted  bool
	priority int
}

// SlotHolder is a request that holds a slot. Its owner calls Grow for the tokens that it writes and
// finally Leave, once.
type SlotHolder struct {
	blocks  []uint64 // of the prompt; may be shared with others
	own     int      // further tokens
	evicted atomic.Bool
	place   *list.Element // its element in holders
}

// Evicted reports whether other requests have taken the slot, so that the owner must requeue.
func (t *SlotHolder) Evicted() bool { return t.evicted.Load() }

// NewSlots returns slots with a queue (negative: unlimited) and room for kv tokens (0: unlimited).
func NewSlots(limit, queue, kv int) *Slots { return &Slots{limit: limit, queue: queue, kv: kv} }

// Enter waits for a slot and for room for need tokens. Other requests may share the blocks.
// Requests with a lower priority number are served first. Enter borrows blocks until Leave. Enter
// returns ErrFull at once if the queue is full, and ErrGone if gone closes first. Without an error,
// the caller must call Leave exactly once with the SlotHolder.
func (s *Slots) Enter(gone <-chan struct{}, need int, blocks []uint64, priority int) (*SlotHolder, error) {
	s.mu.Lock()
	t := &SlotHolder{own: need}
	if s.kv > 0 {
		t.blocks, t.own = blocks, max(0, need-len(blocks)*BlockTokens)
	}
	if s.waiting.Len() == 0 && s.fits(t) {
		s.take(t)
		s.mu.Unlock()
		return t, nil
	}
	if s.queue >= 0 && s.waiting.Len() >= s.queue {
		s.mu.Unlock()
		return nil, ErrFull
	}
	w := &waiter{ready: make(chan struct{}), tenant: t, priority: priority}
	return t, s.await(w, s.link(w), gone)
}

// link puts a waiter after all waiters with the same or a lower priority number.
func (s *Slots) link(w *waiter) *list.Element {
	for at := s.waiting.Back(); at != nil; at = at.Prev() {
		if at.Value.(*waiter).priority <= w.priority {
			return s.waiting.InsertAfter(w, at)
		}
	}
	return s.waiting.PushFront(w)
}

// Requeue moves an evicted SlotHolder from its slot to the head of the queue, with all the room
// that it holds, and waits for another slot. After ErrGone it holds nothing.
func (s *Slots) Requeue(t *SlotHolder, gone <-chan struct{}) error {
	s.mu.Lock()
	s.release(t)
	t.evicted.Store(false)
	w := &waiter{ready: make(chan struct{}), tenant: t, priority: math.MinInt}
	return s.await(w, s.waiting.PushFront(w), gone)
}

// await waits at a position in the queue. The caller holds s.mu, and await unlocks it.
func (s *Slots) await(w *waiter, at *list.Element, gone <-chan struct{}) error {
	s.grant()
	s.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-gone:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.granted { // granted while the client left
		s.release(w.tenant)
	} else {
		s.waiting.Remove(at)
	}
	s.grant() // the head may have blocked the other waiters
	return ErrGone
}

// Leave gives back the slot and the room.
func (s *Slots) Leave(t *SlotHolder) {
	s.mu.Lock()
	s.release(t)
	s.grant()
	s.mu.Unlock()
}

// Grow counts tokens that a running request has written. If the tokens no longer fit, the youngest
// request is evicted: at its next token it notices this and requeues. It must then read its prompt
// again, as in vLLM. A request that runs alone is never evicted.
func (s *Slots) Grow(t *SlotHolder, n int) {
	t.own += n
	if used := s.used.Add(int64(n)); s.kv > 0 && used > int64(s.kv) {
		s.mu.Lock()
		if s.running.Load() > 1 {
			s.holders.Back().Value.(*SlotHolder).evicted.Store(true)
		}
		s.mu.Unlock()
	}
}

func (s *Slots) fits(t *SlotHolder) bool {
	n := int(s.running.Load())
	return n < s.limit && (s.kv == 0 || n == 0 || int(s.used.Load())+t.own+s.pins.Fresh(t.blocks)*BlockTokens <= s.kv)
}

func (s *Slots) take(t *SlotHolder) {
	s.used.Add(int64(t.own + s.pins.Hold(t.blocks)*BlockTokens))
	s.peak = max(s.peak, int(s.running.Add(1)))
	t.place = s.holders.PushBack(t)
}

func (s *Slots) release(t *SlotHolder) {
	s.used.Add(-int64(t.own + s.pins.Drop(t.blocks)*BlockTokens))
	s.running.Add(-1)
	s.holders.Remove(t.place)
}

// grant gives free slots to the head of the queue; no request overtakes another.
func (s *Slots) grant() {
	for at := s.waiting.Front(); at != nil; at = s.waiting.Front() {
		w := at.Value.(*waiter)
		if !s.fits(w.tenant) {
			return
		}
		s.waiting.Remove(at)
		w.granted = true
		s.take(w.tenant)
		close(w.ready)
	}
}

// Running returns the number of running requests, without taking the lock.
func (s *Slots) Running() int { return int(s.running.Load()) }

// Resize changes the number of slots; running requests continue.
func (s *Slots) Resize(limit int) {
	s.mu.Lock()
	s.limit = limit
	s.grant()
	s.mu.Unlock()
}

// Load returns the numbers of running and waiting requests, and the highest number that have run at
// once.
func (s *Slots) Load() (running, waiting, peak int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.running.Load()), s.waiting.Len(), s.peak
}

// Room returns the tokens in the cache that running requests use, and the number of slots.
func (s *Slots) Room() (used, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.used.Load()), s.limit
}

// ClearPeak restarts the peak count.
func (s *Slots) ClearPeak() {
	s.mu.Lock()
	s.peak = int(s.running.Load())
	s.mu.Unlock()
}
