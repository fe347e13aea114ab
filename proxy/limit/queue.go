package limit

import (
	"container/list"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"penstock/routing"
	"penstock/upstreams"
)

// Why a wait ended without a slot.
var (
	// ErrQueueFull is returned when the queue has no room, at once or when a call of another key took the room.
	ErrQueueFull = errors.New("queue is full")
	// ErrQueueWait is returned at the deadline.
	ErrQueueWait = errors.New("waited too long in the queue")
	// ErrQueueLeft is returned when the waiting call has gone.
	ErrQueueLeft = errors.New("left the queue")
)

// Route is what a queue knows of its model's upstreams. *routing.Route is the implementation.
type Route interface {
	Targets() []routing.Target
	Room(u *upstreams.Upstream, q *routing.Query) routing.Room
}

// Need is what a waiting call needs, and who pays for its place in the queue.
type Need struct {
	Key   string // the keys that wait take turns
	Pool  upstreams.Pool
	Tried []upstreams.ID // upstreams that the call is not to be sent to
}

// Queue is the short wait of calls for a model whose slots are all taken. It is bounded in depth, in time by the callers'
// deadlines, and fair: the keys that wait take turns, and the calls of one key keep their order. Its methods may be called
// from any goroutine. It belongs to Queues, which wakes its waiters.
type Queue struct {
	set   *Queues
	count atomic.Int64 // of waiters; changed with the set's lock held

	// What follows is guarded by the set's lock.
	route   Route
	depth   int
	keys    map[string]*queueKey
	order   list.List // of *queueKey with waiters; the front one is the next to be served
	classes []*waiterClass
	first   *waiter // looks for a slot without having been woken; nobody is woken meanwhile
}

// queueKey is the waiters of one key, the oldest first.
type queueKey struct {
	name    string
	waiters list.List // of *waiter
	at      *list.Element
}

// waiterClass is what some waiters of a queue have in common: a slot suits all of them or none.
type waiterClass struct {
	pool    upstreams.Pool
	tried   []upstreams.ID
	waiters int
	asleep  int  // waiters without a turn, the first one too
	fits    bool // the slot that is being given away suits them
}

type waiter struct {
	key   *queueKey
	class *waiterClass
	at    *list.Element // nil when it has left
	turn  *place        // where it was told to look; nil: it sleeps
	seen  uint64        // the event of its last turn
	wake  chan struct{} // holds one token while turn or out is set
	out   bool          // evicted
}

// Waiting returns the number of calls that wait. A newcomer that finds some should wait too and not look for a slot of
// its own: it would push in.
func (q *Queue) Waiting() int { return int(q.count.Load()) }

// Wait joins the queue and returns nil once try has returned true. try takes a slot and reports whether it got one; it
// is called on the caller's goroutine, once at the start when nobody else waits, and then whenever there is a slot for
// this waiter. It is called without a lock held, so two waiters may try at one time.
//
// The error says why there is no slot: ErrQueueFull, ErrQueueWait at the deadline, ErrQueueLeft when done is closed. When
// the queue is full and a call of the key that waits with the most calls can make room, without that key then waiting
// with fewer than this one, the newest of them is sent away instead: a key that floods the queue cannot keep others out.
func (q *Queue) Wait(done <-chan struct{}, n *Need, deadline time.Time, try func() bool) error {
	w, first, err := q.join(n)
	if err != nil {
		return err
	}
	defer q.leave(w) // also when try panics
	if first {
		if try() {
			return nil
		}
		q.rest(w)
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
			return ErrQueueLeft // select takes any case that is ready; a call that has gone takes no slot
		}
		if q.evicted(w) {
			return ErrQueueFull
		}
		if try() {
			return nil
		}
		q.rest(w)
	}
}

// join adds a waiter. first reports that nobody waited before: then it is to look for itself.
func (q *Queue) join(n *Need) (w *waiter, first bool, err error) {
	q.set.mu.Lock()
	defer q.set.mu.Unlock()
	if q.Waiting() >= q.depth && !q.makeRoom(n.Key) {
		return nil, false, ErrQueueFull
	}
	k := q.keys[n.Key]
	if k == nil {
		k = &queueKey{name: n.Key}
		k.at = q.order.PushBack(k)
		if q.keys == nil {
			q.keys = make(map[string]*queueKey)
		}
		q.keys[n.Key] = k
	}
	w = &waiter{key: k, class: q.class(n), wake: make(chan struct{}, 1)}
	w.class.waiters++
	w.class.asleep++
	w.at = k.waiters.PushBack(w)
	q.set.waiting.Add(1)
	if first = q.count.Add(1) == 1; first {
		q.first = w
	} else {
		q.set.look(q)
	}
	return w, first, nil
}

// class returns the class of a need. There is one for each pool, and few more: a call that waits has rarely been tried.
func (q *Queue) class(n *Need) *waiterClass {
	for _, c := range q.classes {
		if c.pool == n.Pool && slices.Equal(c.tried, n.Tried) {
			return c
		}
	}
	c := &waiterClass{pool: n.Pool, tried: slices.Clone(n.Tried)}
	q.classes = append(q.classes, c)
	return c
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

// evicted reports whether a waiter that was woken was sent away.
func (q *Queue) evicted(w *waiter) bool {
	q.set.mu.Lock()
	defer q.set.mu.Unlock()
	return w.out
}

// leave removes a waiter, whatever the reason. What it had been woken for, and anything else that it has not taken, is for
// the others.
func (q *Queue) leave(w *waiter) {
	q.set.mu.Lock()
	defer q.set.mu.Unlock()
	q.remove(w)
}

// remove is leave with the lock held.
func (q *Queue) remove(w *waiter) {
	if w.at == nil {
		return
	}
	k, c, first := w.key, w.class, q.first == w
	k.waiters.Remove(w.at)
	w.at = nil
	q.count.Add(-1)
	q.set.waiting.Add(-1)
	if k.waiters.Len() == 0 {
		q.order.Remove(k.at)
		delete(q.keys, k.name)
	} else if first {
		q.order.MoveToBack(k.at) // it has had its turn, though nobody gave it
	}
	if c.waiters--; c.waiters == 0 {
		q.classes = slices.DeleteFunc(q.classes, func(x *waiterClass) bool { return x == c })
	}
	if p := w.turn; p != nil {
		w.turn = nil
		p.promised[c.pool]--
		q.set.offer(p)
		return
	}
	c.asleep--
	if first {
		q.first = nil
		q.set.look(q)
	}
}

// rest puts a waiter to sleep that tried in vain. Its key comes to the front again, since its turn was none. Slots that came
// while it was awake have passed it over, so all are looked at.
func (q *Queue) rest(w *waiter) {
	q.set.mu.Lock()
	defer q.set.mu.Unlock()
	if w.at == nil {
		return // sent away meanwhile
	}
	if p := w.turn; p != nil {
		w.turn = nil
		w.class.asleep++
		p.promised[w.class.pool]--
		q.order.MoveToFront(w.key.at)
		q.set.offer(p) // a reload may have taken it from the route
	} else {
		q.first = nil
	}
	q.set.look(q)
}

// give wakes the waiter whose turn it is of those that a slot at p suits, and reports whether there is one. Where nothing
// will ever suit some of them, because no upstream may take their calls, those are woken to be told.
func (q *Queue) give(p *place, now time.Time) bool {
	if q.Waiting() == 0 || q.first != nil {
		return false
	}
	suits := false
	for _, c := range q.classes {
		c.fits = false
		if c.asleep == 0 {
			continue
		}
		room := q.route.Room(p.upstream, &routing.Query{Pool: c.pool, Exclude: c.tried, Now: now})
		if room.None {
			q.wakeAll(c, p)
			continue
		}
		c.fits = room.Slots > p.promises(c.pool, room.Shared)
		suits = suits || c.fits
	}
	if !suits {
		return false
	}
	for e := q.order.Front(); e != nil; e = e.Next() {
		k := e.Value.(*queueKey)
		if p.upstream.Bars(k.name) {
			continue // it is the trial of a breaker that is free, and others may be that
		}
		for f := k.waiters.Front(); f != nil; f = f.Next() {
			if w := f.Value.(*waiter); w.class.fits && q.wakeFor(w, p) {
				q.order.MoveToBack(k.at)
				return true
			}
		}
	}
	return false
}

// wakeAll wakes every waiter of a class.
func (q *Queue) wakeAll(c *waiterClass, p *place) {
	for e := q.order.Front(); e != nil; e = e.Next() {
		for f := e.Value.(*queueKey).waiters.Front(); f != nil; f = f.Next() {
			if w := f.Value.(*waiter); w.class == c {
				q.wakeFor(w, p)
			}
		}
	}
}

// wakeFor wakes a waiter to look at p, unless it is awake or has been woken since the last event.
func (q *Queue) wakeFor(w *waiter, p *place) bool {
	if w.turn != nil || w.seen >= q.set.events {
		return false
	}
	w.turn, w.seen = p, q.set.events
	w.class.asleep--
	p.promised[w.class.pool]++
	w.notify()
	return true
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
