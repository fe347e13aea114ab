package queue

import (
	"container/list"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"penstock/routing"
	"penstock/routing/turns"
	"penstock/upstreams"
)

// A wait without a slot ends with one of these errors.
var (
	// ErrFull is returned if the queue has no room: at once, or later, when a call from another key
	// takes the waiting call's place.
	ErrFull = errors.New("queue is full")
	// ErrDeadline is returned at the deadline.
	ErrDeadline = errors.New("waited too long in the queue")
	// ErrNotYet is returned if the wait continues.
	ErrNotYet = errors.New("no slot yet")
	// ErrLeft is returned if the waiting call has ended.
	ErrLeft = errors.New("left the queue")
)

// Route is a queue's view of its model's upstreams. *routing.Route implements it.
type Route interface {
	Targets() []routing.Target
	Room(u *upstreams.Upstream, q *routing.Query) routing.Room
	// Wait counts a waiting call at the upstreams whose models take turns. quit ends the count.
	// Wait and quit may report a change of an upstream, so callers must hold no lock.
	Wait(q *routing.Query) (quit func())
}

// Need holds the needs of a waiting call, and the key to which the call belongs.
type Need struct {
	Key   string // waiting keys take turns: the least served is next
	Pool  upstreams.Pool
	Tried []upstreams.ID     // upstreams that the call must not be sent to
	Tiers uint8              // tiers that the call's key lists
	Arms  routing.Arms       // the call's arms
	Needs upstreams.Features // features that the call needs from its engine

	Rank    int             // the rank of the call's class; earlier classes go first
	Ages    time.Time       // from then on the call waits in the first class
	Reserve routing.Percent // share of an upstream's slots that it must leave free

	Weight   float64 // the key's weight: weight two is served twice as much as weight one; 0: 1
	Session  uint64  // sessions of a key take turns within it; 0: not known
	Expected int64   // estimated service of the call, measured as in turns.Weight
}

// MaxRanks is the number of ranks of calls that a queue distinguishes.
const MaxRanks = 8

// Queue holds calls that wait a short time for a model whose slots are all taken. The queue's
// length is limited, and the callers' deadlines limit the wait. A queue is fair: the waiting key
// that was served least is next, its sessions take turns, and the calls of a session keep their
// order. Calls of a later class go behind all other calls until they have aged. Its methods may be
// called from any goroutine. Each Queue belongs to a Queues, which wakes the waiters.
type Queue struct {
	queues *Queues
	count  atomic.Int64 // number of waiters; changed with the lock of queues held

	// The lock of queues guards the following fields.
	route   Route
	depth   int
	keys    map[string]*waitingKey
	order   list.List // every *waitingKey that has waiters; among equals the front one is next
	line    *turns.Line
	classes []*waiterClass
	ranks   [MaxRanks]rankState
	behind  int     // waiters of all ranks except the first
	unwoken *waiter // tries to take a slot without a wake-up; meanwhile no other waiter is woken
}

// waitingKey holds one key's waiters in the order of their turns.
type waitingKey struct {
	name     string
	weight   float64
	waiters  list.List // of *waiter
	element  *list.Element
	account  *turns.Account
	promised int64 // expected service of the key's woken calls that have not tried yet
	round    uint64
	sessions map[uint64]session // the waiting sessions
}

// session holds the waiters from one of a key's sessions. In each round a session has one waiter.
type session struct {
	waiters int
	round   uint64 // the newest waiter's round
}

// add inserts a waiter according to its round.
func (k *waitingKey) add(w *waiter) {
	w.round = k.round
	s := k.sessions[w.session]
	if s.waiters > 0 {
		w.round = max(w.round, s.round+1)
	}
	k.sessions[w.session] = session{s.waiters + 1, w.round}
	at := k.waiters.Back()
	for at != nil && at.Value.(*waiter).round > w.round {
		at = at.Prev()
	}
	if at == nil {
		w.element = k.waiters.PushFront(w)
	} else {
		w.element = k.waiters.InsertAfter(w, at)
	}
}

// remove undoes add.
func (k *waitingKey) remove(w *waiter) {
	k.waiters.Remove(w.element)
	w.element = nil
	s := k.sessions[w.session]
	if s.waiters--; s.waiters == 0 {
		delete(k.sessions, w.session)
	} else {
		k.sessions[w.session] = s
	}
}

// waiterClass is a group of waiters with equal needs: a slot suits all of them or none.
type waiterClass struct {
	pool    upstreams.Pool
	tried   []upstreams.ID
	tiers   uint8
	arms    routing.Arms
	needs   upstreams.Features
	reserve routing.Percent
	waiters int
	asleep  int  // waiters without an offer, including the unwoken one
	fits    bool // the slot on offer suits them
}

type waiter struct {
	key       *waitingKey
	class     *waiterClass
	element   *list.Element   // nil after the waiter has left
	offered   *queuedUpstream // the upstream that the waiter was woken for; nil: it sleeps
	lastEvent uint64          // the event that last woke the waiter
	wake      chan struct{}   // holds one token while offered or evicted is set
	evicted   bool            // the waiter lost its place
	counts    counts
	session   uint64
	round     uint64 // the round in its session; see waitingKey.add
	expected  int64
	rank      int // the rank of its class
	ages      time.Time
	passes    bool // the waiter joined a full queue because a slot was free
}

// counts records the upstreams at which a waiter counts as waiting for its model's turn.
type counts struct {
	mu    sync.Mutex // is locked before the mutex of queues
	quit  func()     // nil: it counts nowhere
	ended bool
}

// rankState is the queue's state of one class of calls.
type rankState struct {
	waiters int
	floor   routing.Percent // share of the slots freed while calls of the class wait
	credit  routing.Percent // share that the class has not yet received; a slot is 100
}

// rankAt returns the waiter's current rank: its own rank, or the first rank once it has aged.
func (w *waiter) rankAt(now time.Time) int {
	if w.rank > 0 && now.Before(w.ages) {
		return w.rank
	}
	return 0
}

// Waiting returns the number of waiting calls. If any call waits, a new call must wait, too:
// otherwise it would jump the queue.
func (q *Queue) Waiting() int { return int(q.count.Load()) }

// WaitingOf returns the number of waiting calls of a rank.
func (q *Queue) WaitingOf(rank int) int {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	return q.ranks[rank].waiters
}

// Wait joins the queue and returns nil once try has returned true. It does the work of Join, Await
// and Leave.
func (q *Queue) Wait(done <-chan struct{}, n *Need, deadline time.Time, try func() bool) error {
	w, err := q.Join(n)
	if err != nil {
		return err
	}
	defer w.Leave() // even if try panics
	return w.Await(done, deadline, deadline, try)
}

// Waiting is a call's place in a queue. It belongs to the call's goroutine.
type Waiting struct {
	q     *Queue
	w     *waiter
	first bool // it tries once without being woken
}

// Join takes a place in the queue, which Leave gives back. The error is ErrFull.
//
// If the queue is full, Join evicts the newest call of the key with the most waiting calls, unless
// that key would then have fewer waiting calls than this call's key. A key that floods the queue
// therefore cannot keep other keys out. Nothing is evicted if a free slot suits this call but no
// waiter: the call passes through the queue, and needs a place only if another call is faster.
func (q *Queue) Join(n *Need) (*Waiting, error) {
	w, first, err := q.join(n)
	if err != nil {
		return nil, err
	}
	q.awaitTurns(w)
	return &Waiting{q, w, first}, nil
}

// Leave gives the place back, unless the call has been evicted.
func (p *Waiting) Leave() {
	p.q.leave(p.w)
	p.w.counts.end()
}

// awaitTurns counts a waiter at the queue's current route.
func (q *Queue) awaitTurns(w *waiter) {
	t := &w.counts
	t.mu.Lock()
	defer t.mu.Unlock()
	q.queues.mu.Lock()
	route := q.route
	q.queues.mu.Unlock()
	if t.ended || route == nil {
		return
	}
	before := t.quit
	t.quit = route.Wait(&routing.Query{Exclude: w.class.tried, Tiers: w.class.tiers, Now: time.Now()})
	if before != nil { // only now, so that an engine that both routes have keeps the waiter's turn
		before()
	}
}

// end stops counting the waiter.
func (t *counts) end() {
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
// whenever a slot is offered to this waiter. No lock is held, so two waiters may try at the same
// time.
//
// The error is ErrDeadline at the deadline, ErrLeft when done is closed, and ErrFull if the call
// was evicted. It is ErrNotYet if until comes first. The call then keeps its place in the queue,
// and Await may be called again.
func (p *Waiting) Await(done <-chan struct{}, until, deadline time.Time, try func() bool) error {
	if p.first {
		p.first = false
		if try() {
			return nil
		}
		p.q.sleepAgain(p.w)
	}
	end := ErrDeadline
	if until.Before(deadline) {
		deadline, end = until, ErrNotYet
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		select {
		case <-done:
			return ErrLeft
		case <-timer.C:
			return end
		case <-p.w.wake:
		}
		if isClosed(done) {
			return ErrLeft // select takes any case that is ready, and an ended call must not take a slot
		}
		if p.q.evicted(p.w) {
			return ErrFull
		}
		if try() {
			return nil
		}
		p.q.sleepAgain(p.w)
	}
}

// join adds a waiter. first reports that no other call waits, so that this call tries to take a
// slot at once.
func (q *Queue) join(n *Need) (w *waiter, first bool, err error) {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	k, passes := q.keys[n.Key], false
	if q.Waiting() >= q.depth {
		own := 0
		if k != nil {
			own = k.waiters.Len()
		}
		if passes = suited(q, n); !passes && !q.makeRoom(n.Rank, own) {
			return nil, false, ErrFull
		}
	}
	if k != nil && k.waiters.Len() == 0 {
		k = nil // its last call was evicted
	}
	if k == nil {
		k = &waitingKey{
			name: n.Key, weight: n.Weight, account: q.line.Wait(n.Key, n.Weight, time.Now()), sessions: make(map[uint64]session, 1),
		}
		k.element = q.order.PushBack(k)
		if q.keys == nil {
			q.keys = make(map[string]*waitingKey)
		}
		q.keys[n.Key] = k
	}
	w = &waiter{key: k, class: q.class(n), wake: make(chan struct{}, 1), rank: n.Rank, ages: n.Ages, passes: passes}
	w.session, w.expected = n.Session, n.Expected
	q.ranks[w.rank].waiters++
	if w.rank > 0 {
		q.behind++
	}
	w.class.waiters++
	w.class.asleep++
	k.add(w)
	q.queues.waiting.Add(1)
	if first = q.count.Add(1) == 1; first {
		q.unwoken = w
	} else {
		q.queues.offerQueue(q)
	}
	return w, first, nil
}

// class returns the class for a need. There is one class for each pool and few others, because
// waiting calls have rarely tried an upstream before.
func (q *Queue) class(n *Need) *waiterClass {
	for _, c := range q.classes {
		if c.pool == n.Pool && c.tiers == n.Tiers && c.arms == n.Arms && c.needs == n.Needs && c.reserve == n.Reserve &&
			slices.Equal(c.tried, n.Tried) {
			return c
		}
	}
	c := &waiterClass{pool: n.Pool, tried: slices.Clone(n.Tried), tiers: n.Tiers, arms: n.Arms, needs: n.Needs, reserve: n.Reserve}
	q.classes = append(q.classes, c)
	return c
}

// moveTo moves the waiting keys to another line. The lock of queues is held.
func (q *Queue) moveTo(line *turns.Line) {
	q.line = line
	now := time.Now()
	for e := q.order.Front(); e != nil; e = e.Next() {
		k := e.Value.(*waitingKey)
		k.account.Leave(now)
		k.account = line.Wait(k.name, k.weight, now)
	}
}

// all returns the waiters.
func (q *Queue) all() (all []*waiter) {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	for e := q.order.Front(); e != nil; e = e.Next() {
		for w := e.Value.(*waitingKey).waiters.Front(); w != nil; w = w.Next() {
			all = append(all, w.Value.(*waiter))
		}
	}
	return all
}

// suited reports whether a free slot suits a newcomer. It does not count slots for which a waiter
// was woken, or which a waiter is about to take.
func suited(q *Queue, n *Need) bool {
	taken := 0
	if q.unwoken != nil {
		taken = 1
	}
	if q.depth <= 0 {
		return false
	}
	places := *q.queues.byUpstream.Load()
	for _, t := range q.route.Targets() {
		p := places[t.Upstream]
		if p == nil || t.Upstream.Breaker.Bars(n.Key) {
			continue
		}
		room := q.route.Room(t.Upstream, &routing.Query{
			Pool: n.Pool, Exclude: n.Tried, Tiers: n.Tiers, Arms: n.Arms, Reserve: n.Reserve, Now: time.Now(),
		})
		if room.Slots > p.promisedSlots(n.Pool, room.Shared)+taken {
			return true
		}
	}
	return false
}

// makeRoom evicts a waiter for a newcomer. of is the newcomer's rank, and own the number of waiters
// that the newcomer's key already has. makeRoom evicts the newest waiter of the last class behind
// the newcomer's. If there is no such class, it evicts the newest waiter of the newcomer's class
// from the key with the most waiters, unless that key would then have fewer waiters than the
// newcomer's key.
func (q *Queue) makeRoom(of, own int) bool {
	for rank := len(q.ranks) - 1; rank > of && q.behind > 0; rank-- {
		if q.ranks[rank].waiters > 0 {
			q.evict(q.newest(rank))
			return true
		}
	}
	w := q.newest(of)
	if q.depth <= 0 || w == nil || w.key.waiters.Len() < own+2 {
		return false
	}
	q.evict(w)
	return true
}

// newest returns a rank's newest waiter, or nil. It takes the waiter from the key with the most
// waiters.
func (q *Queue) newest(rank int) (newest *waiter) {
	for e := q.order.Front(); e != nil; e = e.Next() {
		k := e.Value.(*waitingKey)
		if newest != nil && k.waiters.Len() <= newest.key.waiters.Len() {
			continue
		}
		for f := k.waiters.Back(); f != nil; f = f.Prev() {
			if w := f.Value.(*waiter); w.rank == rank {
				newest = w
				break
			}
		}
	}
	return newest
}

// evict removes a waiter from its place.
func (q *Queue) evict(w *waiter) {
	w.evicted = true
	q.remove(w)
	w.notify()
}

// evicted reports whether a woken waiter was evicted.
func (q *Queue) evicted(w *waiter) bool {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	return w.evicted
}

// leave removes a waiter, for any reason. If the waiter was woken for a slot and has not taken it,
// the slot is offered to the other waiters.
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
	k.remove(w)
	q.count.Add(-1)
	if q.ranks[w.rank].waiters--; q.ranks[w.rank].waiters == 0 {
		q.ranks[w.rank].credit = 0
	}
	if w.rank > 0 {
		q.behind--
	}
	q.queues.waiting.Add(-1)
	if k.waiters.Len() == 0 {
		q.order.Remove(k.element)
		delete(q.keys, k.name)
		k.account.Leave(time.Now())
	} else if first {
		q.order.MoveToBack(k.element) // it has had its turn, although without a wake-up
	}
	if c.waiters--; c.waiters == 0 {
		q.classes = slices.DeleteFunc(q.classes, func(x *waiterClass) bool { return x == c })
	}
	if p := w.offered; p != nil {
		w.offered = nil
		k.promised -= w.expected
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

// sleepAgain puts a waiter that found no slot back to sleep. Its key moves to the front again,
// because it got nothing. Slots that were freed while the waiter was awake were not offered to it,
// so all of these slots are offered again.
func (q *Queue) sleepAgain(w *waiter) {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	if w.element == nil {
		return // evicted meanwhile
	}
	if p := w.offered; p != nil {
		w.offered = nil
		w.key.promised -= w.expected
		w.class.asleep++
		p.promised[w.class.pool]--
		q.order.MoveToFront(w.key.element)
		q.queues.offer(p) // a reload may have removed it from the route
	} else {
		q.unwoken = nil
	}
	if w.passes { // another call took the slot first
		w.passes = false
		if q.Waiting() > q.depth && !q.makeRoom(w.rank, w.key.waiters.Len()-1) {
			q.evict(w)
		}
	}
	q.queues.offerQueue(q)
}

// wakeNext wakes the next waiter that a slot of the upstream p suits, and reports whether there is
// one. It also wakes waiters whose calls no upstream may take, so that these calls can fail.
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
		room := q.route.Room(p.upstream, &routing.Query{
			Pool: c.pool, Exclude: c.tried, Tiers: c.tiers, Arms: c.arms, Needs: c.needs, Reserve: c.reserve, Now: now,
		})
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
	if q.behind == 0 {
		return q.wakeRank(p, now, 0, false)
	}
	for rank := range q.ranks {
		if q.ranks[rank].credit >= aSlot && q.wakeRank(p, now, rank, true) {
			return true
		}
	}
	for rank := range q.ranks {
		if q.wakeRank(p, now, rank, false) {
			return true
		}
	}
	return false
}

// aSlot is the credit of a rankState for one slot.
const aSlot = 100

// wakeRank wakes the next waiter whose class fits. It considers the waiters whose current rank is
// the given rank or, if own is set, those whose own rank is the given rank. Among them it chooses
// the key that was served least, including the expected service of the key's woken calls.
func (q *Queue) wakeRank(p *queuedUpstream, now time.Time, rank int, own bool) bool {
	var next *waiter
	var least float64
	for e := q.order.Front(); e != nil; e = e.Next() {
		k := e.Value.(*waitingKey)
		served := k.account.With(k.promised)
		if next != nil && served >= least || p.upstream.Breaker.Bars(k.name) {
			continue // the free slot may be a breaker's trial, which a call of another key may take
		}
		for f := k.waiters.Front(); f != nil; f = f.Next() {
			w := f.Value.(*waiter)
			of := w.rank
			if !own {
				of = w.rankAt(now)
			}
			if w.class.fits && of == rank && q.wakeable(w) {
				next, least = w, served
				break
			}
		}
	}
	if next == nil {
		return false
	}
	q.wakeFor(next, p)
	q.order.MoveToBack(next.key.element)
	q.credit(next.rank)
	return true
}

// credit records a slot for which a waiter of a rank was woken.
func (q *Queue) credit(served int) {
	if q.behind == 0 {
		return
	}
	for i := range q.ranks {
		if r := &q.ranks[i]; i == served {
			r.credit = max(0, r.credit+r.floor-aSlot)
		} else if r.waiters > 0 {
			r.credit = min(2*aSlot, r.credit+r.floor)
		}
	}
}

// wakeAll wakes every waiter of a class.
func (q *Queue) wakeAll(c *waiterClass, p *queuedUpstream) {
	for e := q.order.Front(); e != nil; e = e.Next() {
		for f := e.Value.(*waitingKey).waiters.Front(); f != nil; f = f.Next() {
			if w := f.Value.(*waiter); w.class == c && q.wakeable(w) {
				q.wakeFor(w, p)
			}
		}
	}
}

// wakeable reports whether a waiter is asleep and has not been woken since the last event.
func (q *Queue) wakeable(w *waiter) bool { return w.offered == nil && w.lastEvent < q.queues.events }

// wakeFor wakes a waiter to try p.
func (q *Queue) wakeFor(w *waiter, p *queuedUpstream) {
	w.offered, w.lastEvent = p, q.queues.events
	w.key.promised += w.expected
	w.key.round = max(w.key.round, w.round)
	w.class.asleep--
	p.promised[w.class.pool]++
	w.notify()
}

func (w *waiter) notify() {
	select {
	case w.wake <- struct{}{}:
	default: // the channel has a token already
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
