package limit

import (
	"container/list"
	"errors"
	"sync"
	"time"
)

// Why a wait ended without a place.
var (
	// ErrQueueFull is returned when the queue has no room, at once or when a call of another key took the room.
	ErrQueueFull = errors.New("queue is full")
	// ErrQueueWait is returned at the deadline.
	ErrQueueWait = errors.New("waited too long in the queue")
	// ErrQueueLeft is returned when the waiting call has gone.
	ErrQueueLeft = errors.New("left the queue")
)

// Queue is the short wait of calls for a model whose places are all taken. It is bounded in depth, in time by the
// callers' deadlines, and fair: the keys that wait take turns, and the calls of one key keep their order. Its methods
// may be called from any goroutine; the zero value refuses everybody, until SetDepth.
//
// The queue does not know the places. A waiter tries to take one itself when it is told to: each Signal gives one
// waiter a turn, and a turn is never lost, because one that leaves with an unused turn hands it on, and so does one that
// finds no place: a place may suit another call, of another pool, or one that has not tried that engine. That costs nothing:
// the waiter keeps its position, and a signal comes by everybody once at most.
type Queue struct {
	mu    sync.Mutex
	depth int
	count int
	round uint64 // signals so far
	spare bool   // everybody has looked since the last signal: a place that there may be fits none of them
	keys  map[string]*queueKey
	order list.List // of *queueKey with waiters; the front one is the next to be served
}

// queueKey is the waiters of one key, the oldest first.
type queueKey struct {
	name    string
	waiters list.List // of *waiter
	at      *list.Element
}

type waiter struct {
	key  *queueKey
	at   *list.Element // nil when it has left
	turn bool          // a turn that it has not taken up
	seen uint64        // the round of the last turn
	paid bool          // its key has gone to the end of the order for the turn
	wake chan struct{} // holds one token while turn or evicted is set
	out  bool          // evicted
}

// NewQueue returns a queue for up to depth waiting calls.
func NewQueue(depth int) *Queue { return &Queue{depth: depth} }

// SetDepth changes the depth. Calls that wait stay, also when they are more.
func (q *Queue) SetDepth(depth int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.depth = depth
}

// Waiting returns the number of calls that wait. A newcomer that finds some should wait too and not look for a place of
// its own: it would push in.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count
}

// Wait joins the queue and returns nil once try has returned true. try takes a place and reports whether it got one; it
// is called on the caller's goroutine, once at the start when nobody else waits, and then at every turn. It is called
// without a lock held, so two waiters may try at one time.
//
// The error says why there is no place: ErrQueueFull, ErrQueueWait at the deadline, ErrQueueLeft when done is closed. When
// the queue is full and a call of the key that waits with the most calls can make room, without that key then waiting
// with fewer than this one, the newest of them is sent away instead: a key that floods the queue cannot keep others out.
//
// A place that became free between the caller's last look and its joining is not missed, also when it fits none of those who
// waited before, provided that whoever frees a place frees it first and calls Signal then.
func (q *Queue) Wait(done <-chan struct{}, key string, deadline time.Time, try func() bool) error {
	w, first, err := q.join(key)
	if err != nil {
		return err
	}
	defer q.leave(w) // also when try panics
	if first {
		if try() {
			q.handOn(w)
			return nil
		}
		q.passOver(w)
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		select {
		case <-done:
			return ErrQueueLeft
		case <-timer.C:
			return ErrQueueWait
		case <-w.wake:
		}
		if closed(done) {
			return ErrQueueLeft // select takes any case that is ready; a call that has gone takes no place
		}
		if !q.takeTurn(w) {
			return ErrQueueFull
		}
		if try() {
			q.handOn(w)
			return nil
		}
		q.passOver(w)
	}
}

// Signal gives one waiter a turn. Whoever frees a place calls it, after the place is free.
func (q *Queue) Signal() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.signal()
}

// Broadcast gives every waiter a turn. It is for places that come otherwise than by being freed: an upstream that came up, or
// a limit that was raised.
func (q *Queue) Broadcast() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for range q.count {
		q.signal()
	}
}

func (q *Queue) signal() {
	q.round++
	q.spare = false
	if w := q.give(); w != nil {
		w.paid = true
		q.order.MoveToBack(w.key.at)
	}
}

// give gives a turn to the first key, in order, that has a waiter which has none and has had none in this round, and to the
// oldest of those. It returns nil when there is nobody left.
func (q *Queue) give() *waiter {
	for e := q.order.Front(); e != nil; e = e.Next() {
		k := e.Value.(*queueKey)
		for f := k.waiters.Front(); f != nil; f = f.Next() {
			if w := f.Value.(*waiter); !w.turn && w.seen < q.round {
				w.turn, w.seen, w.paid = true, q.round, false
				w.notify()
				return w
			}
		}
	}
	return nil
}

// join adds a waiter of key. first reports that nobody waited before.
func (q *Queue) join(key string) (w *waiter, first bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count >= q.depth && !q.makeRoom(key) {
		return nil, false, ErrQueueFull
	}
	k := q.keys[key]
	if k == nil {
		k = &queueKey{name: key}
		k.at = q.order.PushBack(k)
		if q.keys == nil {
			q.keys = make(map[string]*queueKey)
		}
		q.keys[key] = k
	}
	w = &waiter{key: k, wake: make(chan struct{}, 1)}
	w.at = k.waiters.PushBack(w)
	q.count++
	if q.count > 1 && q.spare {
		w.turn, w.seen = true, q.round
		w.notify()
	}
	return w, q.count == 1, nil
}

// makeRoom sends the newest waiter of the key with the most waiters away, if that key stays no worse off than the
// newcomer's would be.
func (q *Queue) makeRoom(newcomer string) bool {
	own := 0
	if k := q.keys[newcomer]; k != nil {
		own = k.waiters.Len()
	}
	var most *queueKey
	for e := q.order.Front(); e != nil; e = e.Next() {
		if k := e.Value.(*queueKey); most == nil || k.waiters.Len() > most.waiters.Len() {
			most = k
		}
	}
	if q.depth <= 0 || most == nil || most.waiters.Len() < own+2 {
		return false
	}
	w := most.waiters.Back().Value.(*waiter)
	w.out = true
	q.remove(w)
	w.notify()
	return true
}

// leave removes a waiter, whatever the reason, and hands an unused turn on.
func (q *Queue) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(w)
}

func (q *Queue) remove(w *waiter) {
	if w.at == nil {
		return
	}
	k := w.key
	k.waiters.Remove(w.at)
	w.at = nil
	q.count--
	if k.waiters.Len() == 0 {
		q.order.Remove(k.at)
		delete(q.keys, k.name)
	}
	if w.turn {
		w.turn = false
		q.signal()
	}
}

// takeTurn takes the turn up, before the try: a Signal that comes while the waiter tries is another turn. It is false for a
// waiter that was sent away.
func (q *Queue) takeTurn(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.turn = false
	return !w.out
}

// handOn gives a waiter that found a place a turn that it will leave behind: places that were freed while nobody waited
// had no Signal that anybody heard, so whoever finds one lets the next look for another.
func (q *Queue) handOn(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.turn = w.at != nil
	if w.turn && !w.paid {
		q.order.MoveToBack(w.key.at)
	}
}

// passOver puts the key of a waiter that tried in vain to the front again, since its turn was none, and lets the next one
// try.
func (q *Queue) passOver(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.at != nil && w.paid {
		q.order.MoveToFront(w.key.at)
	}
	q.spare = q.give() == nil
}

func (w *waiter) notify() {
	select {
	case w.wake <- struct{}{}:
	default: // it has a token already
	}
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
