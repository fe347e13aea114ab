package scheduler

import (
	"container/list"
	"errors"
	"math"
	"sync"
	"sync/atomic"
)

// Errors that Acquire and Requeue return if a request gets no slot.
var (
	ErrQueueFull  = errors.New("queue is full")
	ErrClientLeft = errors.New("client has left")
)

// Slots assigns the slots of the running batch, and the room in the engine's cache. The lowest
// priority number is served first, and requests of equal priority are served in the order of
// arrival. Slots does not depend on time or sockets.
type Slots struct {
	mu           sync.Mutex
	limit, queue int // a negative queue has no limit
	kv           int // room in tokens; 0 means no limit
	peak         int
	waiting      list.List // *slotWaiter elements; the next request is first
	holders      list.List // *SlotHolder elements; the youngest is last
	pins         BlockPins // blocks of the holders
	running      atomic.Int32
	used         atomic.Int64 // prompt and response tokens of running requests
}

type slotWaiter struct {
	ready    chan struct{}
	holder   *SlotHolder
	granted  bool
	priority int
}

// SlotHolder is a request that holds a slot. Its owner calls AddTokens for generated tokens, and
// calls Release exactly once at the end.
type SlotHolder struct {
	blocks  []uint64 // blocks of the prompt, which other requests may share
	own     int      // number of tokens outside blocks
	evicted atomic.Bool
	place   *list.Element // element in Slots.holders
}

// WasPreempted reports whether the request was preempted. If so, its owner must call Requeue.
func (t *SlotHolder) WasPreempted() bool { return t.evicted.Load() }

// NewSlots returns limit slots, a queue of the given length (negative: no limit), and room for kv
// tokens (0: no limit).
func NewSlots(limit, queue, kv int) *Slots { return &Slots{limit: limit, queue: queue, kv: kv} }

// Acquire waits until there is a slot, and room for need tokens. The given blocks, which other
// requests may share, are part of these tokens. Requests with a lower priority number are served
// first. Acquire borrows the slice blocks until Release. If the queue is full, it immediately
// returns ErrQueueFull. If gone is closed first, it returns ErrClientLeft. If the error is nil, the
// caller must call Release with the SlotHolder exactly once.
func (s *Slots) Acquire(gone <-chan struct{}, need int, blocks []uint64, priority int) (*SlotHolder, error) {
	s.mu.Lock()
	t := &SlotHolder{own: need}
	if s.kv > 0 {
		t.blocks, t.own = blocks, max(0, need-len(blocks)*BlockTokens)
	}
	if s.waiting.Len() == 0 && s.hasRoomFor(t) {
		s.addHolder(t)
		s.mu.Unlock()
		return t, nil
	}
	if s.queue >= 0 && s.waiting.Len() >= s.queue {
		s.mu.Unlock()
		return nil, ErrQueueFull
	}
	w := &slotWaiter{ready: make(chan struct{}), holder: t, priority: priority}
	return t, s.waitForGrant(w, s.insertWaiter(w), gone)
}

// insertWaiter inserts a waiter after all waiters with the same or a lower priority number.
func (s *Slots) insertWaiter(w *slotWaiter) *list.Element {
	for at := s.waiting.Back(); at != nil; at = at.Prev() {
		if at.Value.(*slotWaiter).priority <= w.priority {
			return s.waiting.InsertAfter(w, at)
		}
	}
	return s.waiting.PushFront(w)
}

// Requeue moves a preempted SlotHolder to the head of the queue, and waits until there is a slot
// and room for all of its tokens. If Requeue returns ErrClientLeft, the holder has neither a slot
// nor room.
func (s *Slots) Requeue(t *SlotHolder, gone <-chan struct{}) error {
	s.mu.Lock()
	s.removeHolder(t)
	t.evicted.Store(false)
	w := &slotWaiter{ready: make(chan struct{}), holder: t, priority: math.MinInt}
	return s.waitForGrant(w, s.waiting.PushFront(w), gone)
}

// waitForGrant waits at a position in the queue. The caller holds s.mu, which waitForGrant unlocks.
func (s *Slots) waitForGrant(w *slotWaiter, at *list.Element, gone <-chan struct{}) error {
	s.grantFreeSlots()
	s.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-gone:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.granted { // the slot was granted at the moment when the client left
		s.removeHolder(w.holder)
	} else {
		s.waiting.Remove(at)
	}
	s.grantFreeSlots() // this waiter may have blocked others at the head of the queue
	return ErrClientLeft
}

// Release frees the slot and the room.
func (s *Slots) Release(t *SlotHolder) {
	s.mu.Lock()
	s.removeHolder(t)
	s.grantFreeSlots()
	s.mu.Unlock()
}

// AddTokens adds tokens that a running request has generated. If the tokens of all requests exceed
// the room, the youngest request is preempted. When its next token is due, it notices this and
// calls Requeue. It must then read its prompt again, as in vLLM. A request that runs alone is never
// preempted.
func (s *Slots) AddTokens(t *SlotHolder, n int) {
	t.own += n
	if used := s.used.Add(int64(n)); s.kv > 0 && used > int64(s.kv) {
		s.mu.Lock()
		if s.running.Load() > 1 {
			s.holders.Back().Value.(*SlotHolder).evicted.Store(true)
		}
		s.mu.Unlock()
	}
}

func (s *Slots) hasRoomFor(t *SlotHolder) bool {
	n := int(s.running.Load())
	return n < s.limit && (s.kv == 0 || n == 0 || int(s.used.Load())+t.own+s.pins.CountUnheld(t.blocks)*BlockTokens <= s.kv)
}

func (s *Slots) addHolder(t *SlotHolder) {
	s.used.Add(int64(t.own + s.pins.AddHolder(t.blocks)*BlockTokens))
	s.peak = max(s.peak, int(s.running.Add(1)))
	t.place = s.holders.PushBack(t)
}

func (s *Slots) removeHolder(t *SlotHolder) {
	s.used.Add(-int64(t.own + s.pins.RemoveHolder(t.blocks)*BlockTokens))
	s.running.Add(-1)
	s.holders.Remove(t.place)
}

// grantFreeSlots gives free slots to the requests at the head of the queue. No request overtakes
// another.
func (s *Slots) grantFreeSlots() {
	for at := s.waiting.Front(); at != nil; at = s.waiting.Front() {
		w := at.Value.(*slotWaiter)
		if !s.hasRoomFor(w.holder) {
			return
		}
		s.waiting.Remove(at)
		w.granted = true
		s.addHolder(w.holder)
		close(w.ready)
	}
}

// Running returns the number of running requests, without locking.
func (s *Slots) Running() int { return int(s.running.Load()) }

// Resize changes the number of slots. Running requests continue.
func (s *Slots) Resize(limit int) {
	s.mu.Lock()
	s.limit = limit
	s.grantFreeSlots()
	s.mu.Unlock()
}

// RequestCounts returns how many requests run and how many wait, and the highest number of running
// requests so far.
func (s *Slots) RequestCounts() (running, waiting, peak int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.running.Load()), s.waiting.Len(), s.peak
}

// UsedTokensAndSlots returns the number of cache tokens used by running requests, and the number of
// slots.
func (s *Slots) UsedTokensAndSlots() (used, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.used.Load()), s.limit
}

// ClearPeak resets the peak to the number of running requests.
func (s *Slots) ClearPeak() {
	s.mu.Lock()
	s.peak = int(s.running.Load())
	s.mu.Unlock()
}
