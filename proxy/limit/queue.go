package limit

import (
	"container/list"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"penstock/routing"
	"penstock/upstreams"
)

// Why a wait ended without a slot.
var (
	// ErrQueueFull is returned if the queue has no room, at once or after a call of another key
	// took it.
	ErrQueueFull = errors.New("queue is full")
	// ErrQueueWait is returned at the deadline.
	ErrQueueWait = errors.New("waited too long in the queue")
	// ErrQueueNotYet is returned while the wait goes on.
	ErrQueueNotYet = errors.New("no slot yet")
	// ErrQueueLeft is returned if the waiting call has ended.
	ErrQueueLeft = errors.New("left the queue")
)

// Route is a queue's view of its model's upstreams. *routing.Route implements it.
type Route interface {
	Targets() []routing.Target
	Room(u *upstreams.Upstream, q *routing.Query) routing.Room
	// Wait counts a waiting call at the upstreams whose models take turns. quit ends that. Both may
	// report a change of an upstream, so no lock may be held.
	Wait(q *routing.Query) (quit func())
}

// Need is what a waiting call needs, and the key that it counts for.
type Need struct {
	Key   string // waiting keys take turns
	Pool  upstreams.Pool
	Tried []upstreams.ID // upstreams that the call must not be sent to
}

// Queue is the short wait of calls for a model whose slots are all taken. Its depth is bounded, and
// its time by the callers' deadlines. It is fair: the waiting keys take turns, and the calls of one
// key keep their order. Its methods may be called from any goroutine. It belongs to Queues, which
// wakes its waiters.
type Queue struct {
	queues *Queues
	count  atomic.Int64 // of waiters; changed with the lock of queues held

	// The lock of queues guards the following fields.
	route   Route
	depth   int
	keys    map[string]*queueKey
	order   list.List // of *queueKey with waiters; the front one is next
	classes []*waiterClass
	unwoken *waiter // tries to take a slot without a wake-up; no waiter is woken meanwhile
}

// queueKey has the waiters of one key, the oldest first.
type queueKey struct {
	name    string
	waiters list.List // of *waiter
	element *list.Element
}

// waiterClass is a group of waiters with equal needs: a slot suits all of them or none.
type waiterClass struct {
	pool    upstreams.Pool
	tried   []upstreams.ID
	waiters int
	asleep  int  // waiters without an offer, with the unwoken one
	fits    bool // the offered slot suits them
}

type waiter struct {
	key       *queueKey
	class     *waiterClass
	element   *list.Element   // nil after it has left
	offered   *queuedUpstream // the upstream that it was woken for; nil: it sleeps
	lastEvent uint64          // the event of its last wake-up
	wake      chan struct{}   // holds one token while offered or evicted is set
	evicted   bool            // evicted
	turns     turns
}

// turns is where a waiter counts among the calls that wait for the turns of their models.
type turns struct {
	mu    sync.Mutex // is taken before that of queues
	quit  func()     // nil: it counts nowhere
	ended bool
}

// Waiting returns the number of waiting calls. If there are some, a new call must wait, too: taking
// a slot directly would jump the queue.
func (q *Queue) Waiting() int { return int(q.count.Load()) }

// Wait joins the queue and returns nil once try has returned true: Join, Await and Leave in one.
func (q *Queue) Wait(done <-chan struct{}, n *Need, deadline time.Time, try func() bool) error {
	w, err := q.Join(n)
	if err != nil {
		return err
	}
	defer w.Leave() // also if try panics
	return w.Await(done, deadline, deadline, try)
}

// Waiting is a call's place in a queue. It belongs to the call's goroutine.
type Waiting struct {
	q     *Queue
	w     *waiter
	first bool // it tries once without being woken
}

// Join takes a place in the queue, which Leave gives back. The error is ErrQueueFull.
//
// If the queue is full, the newest call of the key with the most waiting calls is evicted for this
// one, unless that key would then wait with fewer calls than this one's: a key that floods the
// queue cannot keep others out.
func (q *Queue) Join(n *Need) (*Waiting, error) {
	w, first, err := q.join(n)
	if err != nil {
		return nil, err
	}
	q.awaitTurns(w)
	return &Waiting{q, w, first}, nil
}

// Leave gives the place back, if it was not taken away before.
func (p *Waiting) Leave() {
	p.q.leave(p.w)
	p.w.turns.end()
}

// awaitTurns counts a waiter where the route of its queue leads now.
func (q *Queue) awaitTurns(w *waiter) {
	t := &w.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	q.queues.mu.Lock()
	route := q.route
	q.queues.mu.Unlock()
	if t.ended || route == nil {
		return
	}
	before := t.quit
	t.quit = route.Wait(&routing.Query{Exclude: w.class.tried, Now: time.Now()})
	if before != nil { // after it counts at the next route: its turn at an engine of both stays
		before()
	}
}

// end has the waiter count nowhere any more.
func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	if t.quit != nil {
		t.quit()
		t.quit = nil
	}
}

// Await returns nil once try has returned true. try takes a slot and reports whether it got one.
// Await calls it on the caller's goroutine: once at the start if no other call waits, and then
// whenever a slot is offered to this waiter. No lock is held, so two waiters may try at one time.
//
// The error is ErrQueueWait at the deadline, ErrQueueLeft when done is closed, ErrQueueFull if the
// call was evicted, and ErrQueueNotYet when until comes before all of them: then Await may be
// called again, and the place in the queue stays.
func (p *Waiting) Await(done <-chan struct{}, until, deadline time.Time, try func() bool) error {
	if p.first {
		p.first = false
		if try() {
			return nil
		}
		p.q.sleepAgain(p.w)
	}
	end := ErrQueueWait
	if until.Before(deadline) {
		deadline, end = until, ErrQueueNotYet
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		select {
		case <-done:
			return ErrQueueLeft
		case <-timer.C:
			return end
		case <-p.w.wake:
		}
		if isClosed(done) {
			return ErrQueueLeft // select takes any case that is ready, and an ended call must not take a slot
		}
		if p.q.evicted(p.w) {
			return ErrQueueFull
		}
		if try() {
			return nil
		}
		p.q.sleepAgain(p.w)
	}
}

// join adds a waiter. first reports that no other call waits: then this one tries to take a slot at
// once.
func (q *Queue) join(n *Need) (w *waiter, first bool, err error) {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	if q.Waiting() >= q.depth && !q.makeRoom(n.Key) {
		return nil, false, ErrQueueFull
	}
	k := q.keys[n.Key]
	if k == nil {
		k = &queueKey{name: n.Key}
		k.element = q.order.PushBack(k)
		if q.keys == nil {
			q.keys = make(map[string]*queueKey)
		}
		q.keys[n.Key] = k
	}
	w = &waiter{key: k, class: q.class(n), wake: make(chan struct{}, 1)}
	w.class.waiters++
	w.class.asleep++
	w.element = k.waiters.PushBack(w)
	q.queues.waiting.Add(1)
	if first = q.count.Add(1) == 1; first {
		q.unwoken = w
	} else {
		q.queues.offerQueue(q)
	}
	return w, first, nil
}

// class returns the class of a need. There is one for each pool, and few more, because waiting
// calls rarely have attempts.
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

// all returns the waiters.
func (q *Queue) all() (all []*waiter) {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	for e := q.order.Front(); e != nil; e = e.Next() {
		for w := e.Value.(*queueKey).waiters.Front(); w != nil; w = w.Next() {
			all = append(all, w.Value.(*waiter))
		}
	}
	return all
}

// makeRoom evicts the newest waiter of the key with the most waiters, unless that key would then
// have fewer waiters than the newcomer's.
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
	w.evicted = true
	q.remove(w)
	w.notify()
	return true
}

// evicted reports whether a woken waiter was evicted.
func (q *Queue) evicted(w *waiter) bool {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	return w.evicted
}

// leave removes a waiter, for any reason. A slot that it was woken for and has not taken is offered
// to the others.
func (q *Queue) leave(w *waiter) {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	q.remove(w)
}

// remove is leave with the lock held.
func (q *Queue) remove(w *waiter) {
	if w.element == nil {
		return
	}
	k, c, first := w.key, w.class, q.unwoken == w
	k.waiters.Remove(w.element)
	w.element = nil
	q.count.Add(-1)
	q.queues.waiting.Add(-1)
	if k.waiters.Len() == 0 {
		q.order.Remove(k.element)
		delete(q.keys, k.name)
	} else if first {
		q.order.MoveToBack(k.element) // it has had its turn, although without a wake-up
	}
	if c.waiters--; c.waiters == 0 {
		q.classes = slices.DeleteFunc(q.classes, func(x *waiterClass) bool { return x == c })
	}
	if p := w.offered; p != nil {
		w.offered = nil
		p.promised[c.pool]--
		q.queues.offer(p)
		return
	}
	c.asleep--
	if first {
		q.unwoken = nil
		q.queues.offerQueue(q)
	}
}

// sleepAgain puts a waiter back to sleep that found no slot. Its key comes to the front again,
// because it got nothing. Slots that were freed while it was awake were not offered to it, so all
// are offered again.
func (q *Queue) sleepAgain(w *waiter) {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	if w.element == nil {
		return // evicted meanwhile
	}
	if p := w.offered; p != nil {
		w.offered = nil
		w.class.asleep++
		p.promised[w.class.pool]--
		q.order.MoveToFront(w.key.element)
		q.queues.offer(p) // a reload may have removed it from the route
	} else {
		q.unwoken = nil
	}
	q.queues.offerQueue(q)
}

// wakeNext wakes the next waiter that a slot of p suits, and reports whether there is one. Waiters
// whose calls no upstream may take are woken, too, so that they can fail.
func (q *Queue) wakeNext(p *queuedUpstream, now time.Time) bool {
	if q.Waiting() == 0 || q.unwoken != nil {
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
		c.fits = room.Slots > p.promisedSlots(c.pool, room.Shared)
		suits = suits || c.fits
	}
	if !suits {
		return false
	}
	for e := q.order.Front(); e != nil; e = e.Next() {
		k := e.Value.(*queueKey)
		if p.upstream.Breaker.Bars(k.name) {
			continue // the free slot is a breaker's trial, which another key may be
		}
		for f := k.waiters.Front(); f != nil; f = f.Next() {
			if w := f.Value.(*waiter); w.class.fits && q.wakeFor(w, p) {
				q.order.MoveToBack(k.element)
				return true
			}
		}
	}
	return false
}

// wakeAll wakes every waiter of a class.
func (q *Queue) wakeAll(c *waiterClass, p *queuedUpstream) {
	for e := q.order.Front(); e != nil; e = e.Next() {
		for f := e.Value.(*queueKey).waiters.Front(); f != nil; f = f.Next() {
			if w := f.Value.(*waiter); w.class == c {
				q.wakeFor(w, p)
			}
		}
	}
}

// wakeFor wakes a waiter to try p, unless it is awake or has been woken since the last event.
func (q *Queue) wakeFor(w *waiter, p *queuedUpstream) bool {
	if w.offered != nil || w.lastEvent >= q.queues.events {
		return false
	}
	w.offered, w.lastEvent = p, q.queues.events
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

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
