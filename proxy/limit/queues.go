package limit

import (
	"sync"
	"sync/atomic"
	"time"

	"penstock/upstreams"
)

// Queues are the queues of all models of an edge. Models may share upstreams, so a slot that becomes free is offered to the
// queues of just those models that have its upstream, one after the other, and wakes one waiter: the first, in fair order,
// that the slot suits. A waiter that is woken has been promised nothing for certain, since a call of a model that nobody
// waits for may be faster; it then keeps its position.
//
// The state of the upstreams decides, and not what was signalled: whenever a slot is freed, an upstream changes, a waiter
// comes, goes or finds nothing, as many waiters are woken as there are free slots that nobody was woken for yet. So a signal
// cannot be lost, and one too many wakes nobody. That a slot suits a waiter is what the route would say to it, so a waiter
// that is woken in vain has been overtaken. Each event wakes a waiter once at most: should route and upstream ever disagree,
// it costs a turn and no loop.
type Queues struct {
	waiting atomic.Int64                                   // calls, in all queues
	places  atomic.Pointer[map[*upstreams.Upstream]*place] // of the queues in use

	mu      sync.Mutex // guards what follows, and all queues
	events  uint64
	byModel map[string]*Queue
	left    map[string]*Queue // of models that have none any more, while calls may wait there
}

// place is one upstream as the queues see it.
type place struct {
	upstream *upstreams.Upstream
	queues   atomic.Pointer[[]*Queue]     // of the models that have the upstream
	next     int                          // the queue that is asked first
	promised [upstreams.PoolAudio + 1]int // waiters that were woken for a slot of a pool and have not looked yet
}

// promises returns how many of the slots that a pool has here are spoken for.
func (p *place) promises(pool upstreams.Pool, shared bool) int {
	if !shared {
		return p.promised[pool]
	}
	n := 0
	for _, k := range p.promised {
		n += k
	}
	return n
}

// NewQueues returns the queues of an edge that has none yet.
func NewQueues() *Queues {
	s := &Queues{events: 1, byModel: map[string]*Queue{}}
	s.places.Store(&map[*upstreams.Upstream]*place{})
	return s
}

// Of returns the queue of a model: the one in use or in which calls may still wait, or a new one, in which nobody is woken until
// Use has it.
func (s *Queues) Of(model string) *Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.byModel[model]; q != nil {
		return q
	}
	if q := s.left[model]; q != nil {
		return q
	}
	return &Queue{set: s}
}

// Use is one model's queue as a configuration wants it.
type Use struct {
	Model string
	Queue *Queue
	Depth int
	Route Route
}

// Use puts the queues of a configuration into use. Calls that wait in another queue stay there, on the route that it had
// last. Call Look once the configuration is in force.
func (s *Queues) Use(uses []Use) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.byModel // also where nobody waits: a call on the configuration before may be about to
	for model, q := range s.left {
		if q.Waiting() > 0 {
			left[model] = q
		}
	}
	s.byModel = make(map[string]*Queue, len(uses))
	for _, u := range uses {
		u.Queue.depth, u.Queue.route = u.Depth, u.Route
		s.byModel[u.Model] = u.Queue
		delete(left, u.Model)
	}
	s.left = left
	old := *s.places.Load()
	places := make(map[*upstreams.Upstream]*place, len(old))
	queues := map[*place][]*Queue{}
	add := func(q *Queue) {
		for _, t := range q.route.Targets() {
			p := places[t.Upstream]
			if p == nil {
				if p = old[t.Upstream]; p == nil {
					p = &place{upstream: t.Upstream}
				}
				places[t.Upstream] = p
			}
			if have := queues[p]; len(have) == 0 || have[len(have)-1] != q { // of two targets on one upstream
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
	s.places.Store(&places)
}

// Freed wakes the one who waited longest for a slot of an upstream. Whoever gives one back calls it, after that. It costs
// next to nothing where nobody waits for the upstream.
func (s *Queues) Freed(u *upstreams.Upstream) {
	if p := s.awaited(u); p != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events++
		s.offer(p)
	}
}

// Changed is Freed for any other change of what an upstream takes. That may decide over its neighbours too: those of a route
// that were never probed take calls only while none that is up does.
func (s *Queues) Changed(u *upstreams.Upstream) {
	if p := s.awaited(u); p != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events++
		for _, q := range *p.queues.Load() {
			s.look(q)
		}
	}
}

// Look is Changed for every upstream: for a new configuration.
func (s *Queues) Look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events++
	for _, p := range *s.places.Load() {
		s.offer(p)
	}
}

// awaited returns the place of an upstream if calls wait for a model that has it, else nil.
func (s *Queues) awaited(u *upstreams.Upstream) *place {
	if s.waiting.Load() == 0 {
		return nil
	}
	if p := (*s.places.Load())[u]; p != nil {
		for _, q := range *p.queues.Load() {
			if q.Waiting() > 0 {
				return p
			}
		}
	}
	return nil
}

// offer wakes as many waiters as p has free slots that nobody was woken for. The queues that share it take turns. Called
// with mu held.
func (s *Queues) offer(p *place) {
	queues := *p.queues.Load()
	now := time.Now()
	for idle := 0; idle < len(queues); {
		p.next = (p.next + 1) % len(queues)
		if queues[p.next].give(p, now) {
			idle = 0
		} else {
			idle++
		}
	}
}

// look offers the slots of every upstream that a queue's model has. Called with mu held.
func (s *Queues) look(q *Queue) {
	if q.Waiting() == 0 {
		return
	}
	places := *s.places.Load()
	for _, t := range q.route.Targets() {
		if p := places[t.Upstream]; p != nil {
			s.offer(p)
		}
	}
}
