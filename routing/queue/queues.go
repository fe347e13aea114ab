package queue

import (
	"sync"
	"sync/atomic"
	"time"

	"penstock/routing"
	"penstock/routing/turns"
	"penstock/upstreams"
)

// Queues holds the queues of all of an edge's models. Models may share upstreams, so a free slot is
// offered in turn to the queues of the models that have its upstream. The slot wakes one waiter:
// the first, in fair order, that the slot suits. A woken waiter may still get no slot, because a
// call for a model without waiters may take it first. The waiter then keeps its position.
//
// The upstreams' state decides who is woken, not the signals. Whenever a slot is freed, an upstream
// changes, or a waiter joins, leaves or finds no slot, Queues wakes as many waiters as there are
// free slots without a woken waiter. So a lost signal does no harm, and a surplus signal wakes no
// waiter. The route itself decides whether a slot suits a waiter, so a waiter is woken in vain only
// if another call took the slot first. Each event wakes a waiter at most once. If the route and an
// upstream ever disagree, the disagreement costs one wake-up and causes no loop.
type Queues struct {
	waiting    atomic.Int64                                            // calls, in all queues
	byUpstream atomic.Pointer[map[*upstreams.Upstream]*queuedUpstream] // the upstreams of the queues in use

	mu      sync.Mutex // guards the following fields, and all queues
	events  uint64
	byModel map[string]*Queue
	retired map[string]*Queue // queues whose models no longer have one, while calls may still wait
}

// queuedUpstream is the queues' state of one upstream.
type queuedUpstream struct {
	upstream *upstreams.Upstream
	queues   atomic.Pointer[[]*Queue]     // the queues of the models that have the upstream
	next     int                          // the queue that is offered the next slot first
	promised [upstreams.PoolAudio + 1]int // waiters that were woken for a slot of a pool and have not tried yet
}

// promisedSlots returns the number of slots of a pool that have a woken waiter.
func (p *queuedUpstream) promisedSlots(pool upstreams.Pool, shared bool) int {
	if !shared {
		return p.promised[pool]
	}
	n := 0
	for _, k := range p.promised {
		n += k
	}
	return n
}

// New returns an empty set.
func New() *Queues {
	s := &Queues{events: 1, byModel: map[string]*Queue{}}
	s.byUpstream.Store(&map[*upstreams.Upstream]*queuedUpstream{})
	return s
}

// ForModel returns a model's queue: the queue in use, a queue in which calls may still wait, or a
// new queue. A new queue's waiters are woken once the queue is passed to Apply.
func (s *Queues) ForModel(model string) *Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.byModel[model]; q != nil {
		return q
	}
	if q := s.retired[model]; q != nil {
		return q
	}
	return &Queue{queues: s, line: new(turns.Line)}
}

// Use is one model's queue in a configuration.
type Use struct {
	Model string
	Queue *Queue
	Depth int
	Route Route
	// Line accounts for the keys' service; nil: the queue has a line of its own.
	Line *turns.Line
	// Floors are the classes' floors, in order; nil: none.
	Floors []routing.Percent
}

// Apply puts a configuration's queues into use. Calls that wait in another queue stay there, on its
// last route. Call OfferAll once the configuration is in force.
func (s *Queues) Apply(uses []Use) {
	s.apply(uses)
	for _, u := range uses {
		for _, w := range u.Queue.all() {
			u.Queue.awaitTurns(w)
		}
	}
}

func (s *Queues) apply(uses []Use) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.byModel // including queues without waiters, which a call on the last configuration may be about to join
	for model, q := range s.retired {
		if q.Waiting() > 0 {
			left[model] = q
		}
	}
	s.byModel = make(map[string]*Queue, len(uses))
	for _, u := range uses {
		u.Queue.depth, u.Queue.route = u.Depth, u.Route
		if u.Line != nil && u.Line != u.Queue.line {
			u.Queue.moveTo(u.Line)
		}
		for i := range u.Queue.ranks {
			u.Queue.ranks[i].floor = 0
			if i < len(u.Floors) {
				u.Queue.ranks[i].floor = u.Floors[i]
			}
		}
		s.byModel[u.Model] = u.Queue
		delete(left, u.Model)
	}
	s.retired = left
	old := *s.byUpstream.Load()
	places := make(map[*upstreams.Upstream]*queuedUpstream, len(old))
	queues := map[*queuedUpstream][]*Queue{}
	add := func(q *Queue) {
		for _, t := range q.route.Targets() {
			p := places[t.Upstream]
			if p == nil {
				if p = old[t.Upstream]; p == nil {
					p = &queuedUpstream{upstream: t.Upstream}
				}
				places[t.Upstream] = p
			}
			if have := queues[p]; len(have) == 0 || have[len(have)-1] != q { // two targets may be on one upstream
				queues[p] = append(have, q)
			}
		}
	}
	for _, u := range uses {
		add(u.Queue)
	}
	for _, q := range left {
		add(q)
	}
	for p, qs := range queues {
		p.queues.Store(&qs)
	}
	s.byUpstream.Store(&places)
}

// SlotFreed wakes the next waiter for an upstream's slot. Call it after a slot has been released.
// While no call waits for the upstream, SlotFreed costs next to nothing.
func (s *Queues) SlotFreed(u *upstreams.Upstream) {
	if p := s.awaitedUpstream(u); p != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events++
		s.offer(p)
	}
}

// UpstreamChanged does the same as SlotFreed after any other change of an upstream. Such a change
// may affect other upstreams of a route: for example, upstreams that were never probed take calls
// only while no upstream is up.
func (s *Queues) UpstreamChanged(u *upstreams.Upstream) {
	if p := s.awaitedUpstream(u); p != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events++
		for _, q := range *p.queues.Load() {
			s.offerQueue(q)
		}
	}
}

// OfferAll does the same as UpstreamChanged for every upstream. It is for a new configuration.
func (s *Queues) OfferAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events++
	for _, p := range *s.byUpstream.Load() {
		s.offer(p)
	}
}

// Awaited reports whether calls wait for a model that has an upstream.
func (s *Queues) Awaited(u *upstreams.Upstream) bool { return s.awaitedUpstream(u) != nil }

// awaitedUpstream returns an upstream's state if calls wait for a model that has the upstream, and
// nil otherwise.
func (s *Queues) awaitedUpstream(u *upstreams.Upstream) *queuedUpstream {
	if s.waiting.Load() == 0 {
		return nil
	}
	if p := (*s.byUpstream.Load())[u]; p != nil {
		for _, q := range *p.queues.Load() {
			if q.Waiting() > 0 {
				return p
			}
		}
	}
	return nil
}

// offer wakes as many waiters as the upstream p has free slots without a woken waiter. The queues
// that share p take turns. The caller holds mu.
func (s *Queues) offer(p *queuedUpstream) {
	queues := *p.queues.Load()
	now := time.Now()
	for idle := 0; idle < len(queues); {
		p.next = (p.next + 1) % len(queues)
		if queues[p.next].wakeNext(p, now) {
			idle = 0
		} else {
			idle++
		}
	}
}

// offerQueue offers the slots of all upstreams that a queue's model has. The caller holds mu.
func (s *Queues) offerQueue(q *Queue) {
	if q.Waiting() == 0 {
		return
	}
	places := *s.byUpstream.Load()
	for _, t := range q.route.Targets() {
		if p := places[t.Upstream]; p != nil {
			s.offer(p)
		}
	}
}
