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

// Errors for waits that do not get a slot.
var (
	// ErrFull means that the queue is full. Await also returns it if this call was evicted to make
	// room for another call.
	ErrFull = errors.New("queue is full")
	// ErrDeadline means that the deadline has passed.
	ErrDeadline = errors.New("waited too long in the queue")
	// ErrNoSlotYet means that the call is still waiting.
	ErrNoSlotYet = errors.New("no slot yet")
	// ErrCanceled means that the caller's done channel was closed.
	ErrCanceled = errors.New("left the queue")
)

// Route contains the methods of a model's route that a queue needs. *routing.Route implements it.
type Route interface {
	Targets() []routing.Target
	UsableSlots(u *upstreams.Upstream, q *routing.Query) routing.UsableSlots
	// RegisterWait registers a waiting call at the upstreams whose models take turns. quit removes
	// the registration. RegisterWait and quit may report a change of an upstream to the queues, so
	// the caller must hold no lock.
	RegisterWait(q *routing.Query) (quit func())
}

// WaitRequest describes a waiting call and its key.
type WaitRequest struct {
	Key      string // id of the call's key; the key that was served least goes first
	Pool     upstreams.SlotPool
	Excluded []upstreams.ID     // upstreams that the call must not use
	Tiers    routing.TierSet    // see routing.Query.Tiers
	Arms     routing.ArmSet     // see routing.Query.Arms
	Needs    upstreams.Features // features that the call requires

	Rank    int             // rank of the call's class; a class with a lower rank goes first
	AgesAt  time.Time       // when the call moves to the first class
	Reserve routing.Percent // share of an upstream's slots that the call must leave free

	Weight   float64 // the key's share of the service relative to other keys; 0 means 1
	Session  uint64  // session of the call; a key's sessions take turns; 0 if unknown
	Expected int64   // estimated service of the call, as computed by turns.ServiceUnits
}

// MaxRanks is the number of distinct ranks in a queue.
const MaxRanks = 8

// Queue contains the calls that are waiting for a model whose slots are all in use. Its length is
// limited, and the callers' deadlines limit the wait. A queue is fair: the key that was served
// least goes first, the sessions of a key take turns, and the calls of a session stay in order.
// Calls of a later class wait behind all calls of earlier classes until they age. A Queue is safe
// for concurrent use. It belongs to a Queues, which wakes its waiters.
type Queue struct {
	queues *Queues
	count  atomic.Int64 // number of waiters; written with queues.mu held

	// queues.mu guards the following fields.
	route            Route
	depth            int
	keys             map[string]*waitingKey
	keyOrder         list.List // of *waitingKey with waiters; the order matters if service is equal
	scheduler        *turns.Scheduler
	classes          []*waiterClass
	ranks            [MaxRanks]rankState
	laterRankWaiters int     // number of waiters in all ranks except the first
	tryingWaiter     *waiter // tries without a wake-up; meanwhile, no other waiter is woken
}

// waitingKey contains the waiters of one key in order.
type waitingKey struct {
	name            string
	weight          float64
	waiters         list.List // of *waiter
	element         *list.Element
	account         *turns.Account
	promisedService int64 // expected service of the woken calls that have not tried yet
	round           uint64
	sessions        map[uint64]keySession // sessions that have waiters
}

// keySession tracks the waiters of one session of a key. A session has one waiter in each round.
type keySession struct {
	waiters int
	round   uint64 // round of the newest waiter
}

// addWaiter inserts a waiter by its round.
func (k *waitingKey) addWaiter(w *waiter) {
	w.round = k.round
	s := k.sessions[w.session]
	if s.waiters > 0 {
		w.round = max(w.round, s.round+1)
	}
	k.sessions[w.session] = keySession{s.waiters + 1, w.round}
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

func (k *waitingKey) removeWaiter(w *waiter) {
	k.waiters.Remove(w.element)
	w.element = nil
	s := k.sessions[w.session]
	if s.waiters--; s.waiters == 0 {
		delete(k.sessions, w.session)
	} else {
		k.sessions[w.session] = s
	}
}

// waiterClass is a group of waiters that have the same needs. If one of them can use a slot, all of
// them can.
type waiterClass struct {
	pool       upstreams.SlotPool
	tried      []upstreams.ID
	tiers      routing.TierSet
	arms       routing.ArmSet
	needs      upstreams.Features
	reserve    routing.Percent
	waiters    int
	asleep     int  // number of waiters that are offered no slot, including the tryingWaiter
	canUseSlot bool // the waiters can use the offered slot
}

type waiter struct {
	key              *waitingKey
	class            *waiterClass
	element          *list.Element   // element in the key's list; nil after the waiter has left
	offered          *queuedUpstream // the upstream whose slot is offered; nil while the waiter is asleep
	lastEvent        uint64          // the event that last woke the waiter
	wake             chan struct{}   // has one token after an offer or an eviction
	evicted          bool            // removed from the queue to make room for another call
	turnRegistration turnRegistration
	session          uint64
	round            uint64 // see waitingKey.addWaiter
	expected         int64
	rank             int // rank of the class
	agesAt           time.Time
	joinedOverDepth  bool // joined a full queue because a slot was free
}

// turnRegistration is a waiter's registration at the engines whose models take turns.
type turnRegistration struct {
	mu         sync.Mutex // acquired before queues.mu
	unregister func()     // nil if not registered
	ended      bool
}

type rankState struct {
	waiters int
	floor   routing.Percent // share of the freed slots while calls of this rank are waiting
	credit  routing.Percent // part of the floor that the rank has not received yet; 100 is one slot
}

// rankAt returns the waiter's rank at a time. The rank is 0 once the waiter has aged.
func (w *waiter) rankAt(now time.Time) int {
	if w.rank > 0 && now.Before(w.agesAt) {
		return w.rank
	}
	return 0
}

// WaitingCallCount returns the number of waiting calls. If it is not 0, a new call must join the queue
// before it tries to acquire a slot.
func (q *Queue) WaitingCallCount() int { return int(q.count.Load()) }

// WaitingInRank returns the number of waiting calls that have the given rank.
func (q *Queue) WaitingInRank(rank int) int {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	return q.ranks[rank].waiters
}

// Wait joins the queue and returns nil once try has returned true. It combines Join, Await and
// Leave.
func (q *Queue) Wait(done <-chan struct{}, n *WaitRequest, deadline time.Time, try func() bool) error {
	w, err := q.Join(n)
	if err != nil {
		return err
	}
	defer w.Leave() // even if try panics
	return w.Await(done, deadline, deadline, try)
}

// Entry is a waiting call's entry in a queue. Only the call's goroutine may use the Entry.
type Entry struct {
	q          *Queue
	w          *waiter
	triesFirst bool // Await first tries once without a wake-up
}

// Join adds a call to the queue. The caller must call Entry.Leave. The only possible error is
// ErrFull.
//
// If the queue is full, Join evicts the newest call of the key that has the most waiting calls. It
// evicts no call if that key would then have fewer waiting calls than this call's key. A key that
// floods the queue therefore cannot block other keys. If this call can use a free slot that no
// waiter can use, Join evicts no call. If another call acquires that slot first, a call is evicted
// after all.
func (q *Queue) Join(n *WaitRequest) (*Entry, error) {
	w, first, err := q.join(n)
	if err != nil {
		return nil, err
	}
	q.registerWait(w)
	return &Entry{q, w, first}, nil
}

// Leave removes the call from the queue if the call is still in it.
func (p *Entry) Leave() {
	p.q.removeWaiter(p.w)
	p.w.turnRegistration.endRegistration()
}

// registerWait registers a waiter at the queue's current route, instead of an earlier route.
func (q *Queue) registerWait(w *waiter) {
	t := &w.turnRegistration
	t.mu.Lock()
	defer t.mu.Unlock()
	q.queues.mu.Lock()
	route := q.route
	q.queues.mu.Unlock()
	if t.ended || route == nil {
		return
	}
	before := t.unregister
	t.unregister = route.RegisterWait(&routing.Query{Exclude: w.class.tried, Tiers: w.class.tiers, Now: time.Now()})
	if before != nil { // last, so that the waiter keeps its turn at engines in both routes
		before()
	}
}

func (t *turnRegistration) endRegistration() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	if t.unregister != nil {
		t.unregister()
		t.unregister = nil
	}
}

// Await returns nil once try has returned true. try must attempt to acquire a slot and report
// whether it has succeeded. Await calls try on the caller's goroutine: immediately if no other call
// is waiting, and whenever this waiter is offered a slot. Await holds no lock while try runs, so
// more than one waiter may try concurrently. Await returns ErrDeadline at the deadline, ErrCanceled
// when done is closed, and ErrFull if the call was evicted.
//
// If until is before deadline, Await returns ErrNoSlotYet at the time until. The call then stays in
// the queue, and Await may be called again.
func (p *Entry) Await(done <-chan struct{}, until, deadline time.Time, try func() bool) error {
	if p.triesFirst {
		p.triesFirst = false
		if try() {
			return nil
		}
		p.q.putWaiterBackToSleep(p.w)
	}
	end := ErrDeadline
	if until.Before(deadline) {
		deadline, end = until, ErrNoSlotYet
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		select {
		case <-done:
			return ErrCanceled
		case <-timer.C:
			return end
		case <-p.w.wake:
		}
		if isClosed(done) {
			// Select may choose either ready case, but a call that has ended must not acquire a
			// slot.
			return ErrCanceled
		}
		if p.q.wasEvicted(p.w) {
			return ErrFull
		}
		if try() {
			return nil
		}
		p.q.putWaiterBackToSleep(p.w)
	}
}

// join adds a waiter. If no other call is waiting, first is true, and this call may try
// immediately.
func (q *Queue) join(n *WaitRequest) (w *waiter, first bool, err error) {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	k, passes := q.keys[n.Key], false
	if q.WaitingCallCount() >= q.depth {
		own := 0
		if k != nil {
			own = k.waiters.Len()
		}
		if passes = canUseFreeSlot(q, n); !passes && !q.evictForNewCall(n.Rank, own) {
			return nil, false, ErrFull
		}
	}
	if k != nil && k.waiters.Len() == 0 {
		k = nil // its last call was evicted
	}
	if k == nil {
		k = &waitingKey{
			name: n.Key, weight: n.Weight, account: q.scheduler.StartWait(n.Key, n.Weight, time.Now()), sessions: make(map[uint64]keySession, 1),
		}
		k.element = q.keyOrder.PushBack(k)
		if q.keys == nil {
			q.keys = make(map[string]*waitingKey)
		}
		q.keys[n.Key] = k
	}
	w = &waiter{key: k, class: q.getOrAddClass(n), wake: make(chan struct{}, 1), rank: n.Rank, agesAt: n.AgesAt, joinedOverDepth: passes}
	w.session, w.expected = n.Session, n.Expected
	q.ranks[w.rank].waiters++
	if w.rank > 0 {
		q.laterRankWaiters++
	}
	w.class.waiters++
	w.class.asleep++
	k.addWaiter(w)
	q.queues.waitingCount.Add(1)
	if first = q.count.Add(1) == 1; first {
		q.tryingWaiter = w
	} else {
		q.queues.offerSlotsOfTargets(q)
	}
	return w, first, nil
}

// getOrAddClass returns the class for a waiting call, and adds it if necessary. There are only a
// few classes, because few waiting calls have already tried an upstream.
func (q *Queue) getOrAddClass(n *WaitRequest) *waiterClass {
	for _, c := range q.classes {
		if c.pool == n.Pool && c.tiers == n.Tiers && c.arms == n.Arms && c.needs == n.Needs && c.reserve == n.Reserve &&
			slices.Equal(c.tried, n.Excluded) {
			return c
		}
	}
	c := &waiterClass{pool: n.Pool, tried: slices.Clone(n.Excluded), tiers: n.Tiers, arms: n.Arms, needs: n.Needs, reserve: n.Reserve}
	q.classes = append(q.classes, c)
	return c
}

// changeScheduler moves the waiting keys to a different scheduler. queues.mu must be held.
func (q *Queue) changeScheduler(line *turns.Scheduler) {
	q.scheduler = line
	now := time.Now()
	for e := q.keyOrder.Front(); e != nil; e = e.Next() {
		k := e.Value.(*waitingKey)
		k.account.EndWait(now)
		k.account = line.StartWait(k.name, k.weight, now)
	}
}

func (q *Queue) allWaiters() (all []*waiter) {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	for e := q.keyOrder.Front(); e != nil; e = e.Next() {
		for w := e.Value.(*waitingKey).waiters.Front(); w != nil; w = w.Next() {
			all = append(all, w.Value.(*waiter))
		}
	}
	return all
}

// canUseFreeSlot reports whether a new call can use a free slot. It does not count slots for which
// a waiter was woken, nor one slot for the tryingWaiter.
func canUseFreeSlot(q *Queue, n *WaitRequest) bool {
	taken := 0
	if q.tryingWaiter != nil {
		taken = 1
	}
	if q.depth <= 0 {
		return false
	}
	places := *q.queues.byUpstream.Load()
	for _, t := range q.route.Targets() {
		p := places[t.Upstream]
		if p == nil || t.Upstream.Breaker.BarsKeyFromTrial(n.Key) {
			continue
		}
		room := q.route.UsableSlots(t.Upstream, &routing.Query{
			Pool: n.Pool, Exclude: n.Excluded, Tiers: n.Tiers, Arms: n.Arms, Needs: n.Needs, Reserve: n.Reserve, Now: time.Now(),
		})
		if room.Slots > p.promisedSlots(n.Pool, room.Shared)+taken {
			return true
		}
	}
	return false
}

// evictForNewCall evicts a waiter to make room for a new call, and reports whether it could. of is
// the rank of the new call, and own is the number of waiters of the call's key. It evicts the
// newest waiter of the last rank, if that rank is behind the new call's rank. Otherwise it evicts
// the newest waiter of the same rank from the key that has the most waiters. That key must not be
// left with fewer waiters than the new call's key.
func (q *Queue) evictForNewCall(of, own int) bool {
	for rank := len(q.ranks) - 1; rank > of && q.laterRankWaiters > 0; rank-- {
		if q.ranks[rank].waiters > 0 {
			q.evictWaiter(q.newestWaiter(rank))
			return true
		}
	}
	w := q.newestWaiter(of)
	if q.depth <= 0 || w == nil || w.key.waiters.Len() < own+2 {
		return false
	}
	q.evictWaiter(w)
	return true
}

// newestWaiter returns the newest waiter of the given rank from the key that has the most waiters,
// or nil.
func (q *Queue) newestWaiter(rank int) (newest *waiter) {
	for e := q.keyOrder.Front(); e != nil; e = e.Next() {
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

func (q *Queue) evictWaiter(w *waiter) {
	w.evicted = true
	q.removeWaiterLocked(w)
	w.notify()
}

func (q *Queue) wasEvicted(w *waiter) bool {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	return w.evicted
}

// removeWaiter removes a waiter. If the waiter was woken for a slot that it has not acquired,
// removeWaiter offers the slot to other waiters.
func (q *Queue) removeWaiter(w *waiter) {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	q.removeWaiterLocked(w)
}

// removeWaiterLocked is like removeWaiter, but the caller must hold queues.mu.
func (q *Queue) removeWaiterLocked(w *waiter) {
	if w.element == nil {
		return
	}
	k, c, first := w.key, w.class, q.tryingWaiter == w
	k.removeWaiter(w)
	q.count.Add(-1)
	if q.ranks[w.rank].waiters--; q.ranks[w.rank].waiters == 0 {
		q.ranks[w.rank].credit = 0
	}
	if w.rank > 0 {
		q.laterRankWaiters--
	}
	q.queues.waitingCount.Add(-1)
	if k.waiters.Len() == 0 {
		q.keyOrder.Remove(k.element)
		delete(q.keys, k.name)
		k.account.EndWait(time.Now())
	} else if first {
		q.keyOrder.MoveToBack(k.element) // not moved yet, because w was not woken
	}
	if c.waiters--; c.waiters == 0 {
		q.classes = slices.DeleteFunc(q.classes, func(x *waiterClass) bool { return x == c })
	}
	if p := w.offered; p != nil {
		w.offered = nil
		k.promisedService -= w.expected
		p.promisedWaiters[c.pool]--
		q.queues.offerSlots(p)
		return
	}
	c.asleep--
	if first {
		q.tryingWaiter = nil
		q.queues.offerSlotsOfTargets(q)
	}
}

// putWaiterBackToSleep puts a waiter that found no slot back to sleep, and moves its key to the front.
// Slots that were freed while the waiter was awake were not offered to it, so all free slots are
// offered again.
func (q *Queue) putWaiterBackToSleep(w *waiter) {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	if w.element == nil {
		return // the waiter was evicted in the meantime
	}
	if p := w.offered; p != nil {
		w.offered = nil
		w.key.promisedService -= w.expected
		w.class.asleep++
		p.promisedWaiters[w.class.pool]--
		q.keyOrder.MoveToFront(w.key.element)
		q.queues.offerSlots(p) // needed if a reload has removed p from the route
	} else {
		q.tryingWaiter = nil
	}
	if w.joinedOverDepth { // the queue was full, and another call acquired the slot first
		w.joinedOverDepth = false
		if q.WaitingCallCount() > q.depth && !q.evictForNewCall(w.rank, w.key.waiters.Len()-1) {
			q.evictWaiter(w)
		}
	}
	q.queues.offerSlotsOfTargets(q)
}

// wakeNextWaiter wakes the next waiter that can use a slot of p, and reports whether there was such
// a waiter. It also wakes waiters whose calls can no longer use any upstream, so that these calls
// fail.
func (q *Queue) wakeNextWaiter(p *queuedUpstream, now time.Time) bool {
	if q.WaitingCallCount() == 0 || q.tryingWaiter != nil {
		return false
	}
	suits := false
	for _, c := range q.classes {
		c.canUseSlot = false
		if c.asleep == 0 {
			continue
		}
		room := q.route.UsableSlots(p.upstream, &routing.Query{
			Pool: c.pool, Exclude: c.tried, Tiers: c.tiers, Arms: c.arms, Needs: c.needs, Reserve: c.reserve, Now: now,
		})
		if room.None {
			q.wakeAllInClass(c, p)
			continue
		}
		c.canUseSlot = room.Slots > p.promisedSlots(c.pool, room.Shared)
		suits = suits || c.canUseSlot
	}
	if !suits {
		return false
	}
	if q.laterRankWaiters == 0 {
		return q.wakeNextInRank(p, now, 0, false)
	}
	for rank := range q.ranks {
		if q.ranks[rank].credit >= slotCredit && q.wakeNextInRank(p, now, rank, true) {
			return true
		}
	}
	for rank := range q.ranks {
		if q.wakeNextInRank(p, now, rank, false) {
			return true
		}
	}
	return false
}

// slotCredit is the credit for one slot.
const slotCredit = 100

// wakeNextInRank wakes the next waiter of the given rank that can use a slot of p. If own is true,
// rank is compared with the waiter's original rank, otherwise with its current rank. wakeNextInRank
// picks the key that was served least. The expected service of a key's woken calls counts as
// served.
func (q *Queue) wakeNextInRank(p *queuedUpstream, now time.Time, rank int, own bool) bool {
	var next *waiter
	var least float64
	for e := q.keyOrder.Front(); e != nil; e = e.Next() {
		k := e.Value.(*waitingKey)
		served := k.account.WeightedServiceAfter(k.promisedService)
		if next != nil && served >= least || p.upstream.Breaker.BarsKeyFromTrial(k.name) {
			continue // the breaker may be half-open, and this key must not use its trial
		}
		for f := k.waiters.Front(); f != nil; f = f.Next() {
			w := f.Value.(*waiter)
			of := w.rank
			if !own {
				of = w.rankAt(now)
			}
			if w.class.canUseSlot && of == rank && q.isWaiterWakeable(w) {
				next, least = w, served
				break
			}
		}
	}
	if next == nil {
		return false
	}
	q.wakeWaiterForSlot(next, p)
	q.keyOrder.MoveToBack(next.key.element)
	q.updateCredits(next.rank)
	return true
}

// updateCredits updates the credits of all ranks after a waiter of rank served was woken for a
// slot.
func (q *Queue) updateCredits(served int) {
	if q.laterRankWaiters == 0 {
		return
	}
	for i := range q.ranks {
		if r := &q.ranks[i]; i == served {
			r.credit = max(0, r.credit+r.floor-slotCredit)
		} else if r.waiters > 0 {
			r.credit = min(2*slotCredit, r.credit+r.floor)
		}
	}
}

func (q *Queue) wakeAllInClass(c *waiterClass, p *queuedUpstream) {
	for e := q.keyOrder.Front(); e != nil; e = e.Next() {
		for f := e.Value.(*waitingKey).waiters.Front(); f != nil; f = f.Next() {
			if w := f.Value.(*waiter); w.class == c && q.isWaiterWakeable(w) {
				q.wakeWaiterForSlot(w, p)
			}
		}
	}
}

// isWaiterWakeable reports whether a waiter is asleep and was not woken by the current event.
func (q *Queue) isWaiterWakeable(w *waiter) bool {
	return w.offered == nil && w.lastEvent < q.queues.eventNumber
}

// wakeWaiterForSlot wakes a waiter to try to acquire a slot of p.
func (q *Queue) wakeWaiterForSlot(w *waiter, p *queuedUpstream) {
	w.offered, w.lastEvent = p, q.queues.eventNumber
	w.key.promisedService += w.expected
	w.key.round = max(w.key.round, w.round)
	w.class.asleep--
	p.promisedWaiters[w.class.pool]++
	w.notify()
}

func (w *waiter) notify() {
	select {
	case w.wake <- struct{}{}:
	default: // the channel already has a token
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
