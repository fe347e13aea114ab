package queue

import (
	"sync"
	"sync/atomic"
	"time"

	"penstock/routing"
	"penstock/routing/turns"
	"penstock/upstreams"
)

// Queues contains the queues of all models of an edge. Models may share upstreams. A free slot is
// therefore offered in turn to the queues of all models that use its upstream. The slot wakes one
// waiter: the first, in fair order, that can use the slot. A woken waiter may still find no slot,
// because a call for a model without waiters may have acquired it first. The waiter then keeps its
// position.
//
// The number of wake-ups depends on the state of the upstreams rather than on the number of
// OnSlotFreed calls. Queues acts after any change: a slot is freed, an upstream changes, or a
// waiter joins, leaves or finds no slot. It then wakes as many waiters as there are free slots for
// which no waiter was woken yet. A missing or unnecessary call to OnSlotFreed is therefore
// harmless. The route decides whether a waiter can use a slot, so a woken waiter finds no slot only
// if another call has acquired it first. Each event wakes a waiter at most once. If the route ever
// reports a free slot where the upstream has none, this costs only one wake-up and cannot cause a
// loop.
type Queues struct {
	waitingCount atomic.Int64                                            // number of calls in all queues
	byUpstream   atomic.Pointer[map[*upstreams.Upstream]*queuedUpstream] // the upstreams of the active queues

	mu          sync.Mutex // guards the following fields, and the contents of all queues
	eventNumber uint64
	byModel     map[string]*Queue
	retired     map[string]*Queue // replaced or removed queues, in which calls may still be waiting
}

type queuedUpstream struct {
	upstream        *upstreams.Upstream
	queues          atomic.Pointer[[]*Queue]     // queues of the models that have the upstream
	nextQueue       int                          // index of the queue that is next to get an offer
	promisedWaiters [upstreams.PoolAudio + 1]int // by pool: woken waiters that have not tried yet
}

// promisedSlots returns the number of a pool's slots for which a waiter was woken and has not tried
// yet.
func (p *queuedUpstream) promisedSlots(pool upstreams.SlotPool, shared bool) int {
	if !shared {
		return p.promisedWaiters[pool]
	}
	n := 0
	for _, k := range p.promisedWaiters {
		n += k
	}
	return n
}

// New returns an empty set.
func New() *Queues {
	s := &Queues{eventNumber: 1, byModel: map[string]*Queue{}}
	s.byUpstream.Store(&map[*upstreams.Upstream]*queuedUpstream{})
	return s
}

// ForModel returns a model's active queue. If the model has no active queue, ForModel returns its
// retired queue, in which calls may still be waiting. If the model has no queue, ForModel returns a
// new queue, whose waiters are woken only after ApplyConfigs has activated the queue.
func (s *Queues) ForModel(model string) *Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.byModel[model]; q != nil {
		return q
	}
	if q := s.retired[model]; q != nil {
		return q
	}
	return &Queue{queues: s, scheduler: new(turns.Scheduler)}
}

// QueueConfig configures the queue of one model.
type QueueConfig struct {
	Model string
	Queue *Queue
	Depth int
	Route Route
	// Scheduler tracks the service that each key has received. If Line is nil, the queue uses a
	// Scheduler of its own.
	Scheduler *turns.Scheduler
	// Floors contains the floor of each class, by rank. It may be nil.
	Floors []routing.Percent
}

// ApplyConfigs activates the queues of a configuration. Calls that are waiting in other queues stay
// there, and those queues keep their last route. Call OfferAllSlots once the configuration is
// active.
func (s *Queues) ApplyConfigs(uses []QueueConfig) {
	s.replaceQueues(uses)
	for _, u := range uses {
		for _, w := range u.Queue.allWaiters() {
			u.Queue.registerWait(w)
		}
	}
}

func (s *Queues) replaceQueues(uses []QueueConfig) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.byModel // even empty queues, because calls may still join them
	for model, q := range s.retired {
		if q.WaitingCallCount() > 0 {
			left[model] = q
		}
	}
	s.byModel = make(map[string]*Queue, len(uses))
	for _, u := range uses {
		u.Queue.depth, u.Queue.route = u.Depth, u.Route
		if u.Scheduler != nil && u.Scheduler != u.Queue.scheduler {
			u.Queue.changeScheduler(u.Scheduler)
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
			// Two targets may have the same upstream.
			if have := queues[p]; len(have) == 0 || have[len(have)-1] != q {
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

// OnSlotFreed wakes the next waiter for a slot of u. Call it after a slot was released. If no call
// is waiting for u, OnSlotFreed costs almost nothing.
func (s *Queues) OnSlotFreed(u *upstreams.Upstream) {
	if p := s.findAwaitedUpstream(u); p != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.eventNumber++
		s.offerSlots(p)
	}
}

// OnUpstreamChanged is like OnSlotFreed, for any other change of an upstream. The change may affect
// other upstreams of a route. For example, pending upstreams get calls only while no upstream is
// up.
func (s *Queues) OnUpstreamChanged(u *upstreams.Upstream) {
	if p := s.findAwaitedUpstream(u); p != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.eventNumber++
		for _, q := range *p.queues.Load() {
			s.offerSlotsOfTargets(q)
		}
	}
}

// OfferAllSlots is like OnUpstreamChanged, for every upstream. Call it after the configuration has
// changed.
func (s *Queues) OfferAllSlots() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eventNumber++
	for _, p := range *s.byUpstream.Load() {
		s.offerSlots(p)
	}
}

// HasWaitersFor reports whether calls are waiting for a model that uses the upstream.
func (s *Queues) HasWaitersFor(u *upstreams.Upstream) bool { return s.findAwaitedUpstream(u) != nil }

// findAwaitedUpstream returns the queuedUpstream of u if calls are waiting for a model that uses u,
// and nil otherwise.
func (s *Queues) findAwaitedUpstream(u *upstreams.Upstream) *queuedUpstream {
	if s.waitingCount.Load() == 0 {
		return nil
	}
	if p := (*s.byUpstream.Load())[u]; p != nil {
		for _, q := range *p.queues.Load() {
			if q.WaitingCallCount() > 0 {
				return p
			}
		}
	}
	return nil
}

// offerSlots wakes a waiter for each free slot of p for which no waiter was woken yet. The queues
// of p take turns. The caller must hold mu.
func (s *Queues) offerSlots(p *queuedUpstream) {
	queues := *p.queues.Load()
	now := time.Now()
	for idle := 0; idle < len(queues); {
		p.nextQueue = (p.nextQueue + 1) % len(queues)
		if queues[p.nextQueue].wakeNextWaiter(p, now) {
			idle = 0
		} else {
			idle++
		}
	}
}

// offerSlotsOfTargets offers the slots of all upstreams that serve a queue's model. The caller must
// hold mu.
func (s *Queues) offerSlotsOfTargets(q *Queue) {
	if q.WaitingCallCount() == 0 {
		return
	}
	places := *s.byUpstream.Load()
	for _, t := range q.route.Targets() {
		if p := places[t.Upstream]; p != nil {
			s.offerSlots(p)
		}
	}
}
