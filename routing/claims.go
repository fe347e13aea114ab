package routing

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"penstock/routing/turns"
	"penstock/upstreams"
)

// longestHold bounds how long before a client is due a slot is kept for it.
const longestHold = 2 * time.Second

// mostClaims bounds the claims on one model. A key that is refused beyond it holds none.
const mostClaims = 1024

// servedFor is how long it counts for the order of claims when a key was served last.
const servedFor = time.Minute

// Claims are what keys that were refused for want of a slot hold on the next one, at models without
// a queue: a client that comes back when its Retry-After says so would otherwise meet a pool that
// another key's flood, which never waits, has filled in between.
//
// A key has one claim on a model. It lasts from the refusal until a quarter of its hold behind the
// moment at which the client is due. While it does, a call of another key may not take the last
// free slots if that key has more slots there than the claim's. Keys with as many take turns, as
// they do in a queue: the one that was served less goes first. There the claim counts only around the
// moment at which its client is due, unless the other key floods, that is calls before it was told
// to. So no slot is idle for long among keys with one call each, and a key that is alone is never
// refused.
//
// Without a live claim an Acquire costs one atomic load more.
type Claims struct {
	live    atomic.Int64  // claims, with those that have ended since the last look
	yielded atomic.Uint64 // calls that were refused although a slot was free

	mu     sync.Mutex
	groups []*claimGroup
}

// claimGroup are the keys that claim one model's slots of one pool, and those that have got one
// beside them.
type claimGroup struct {
	route *Route
	pool  upstreams.Pool
	keys  []claimant
}

// claimant is a key at one model's slots.
type claimant struct {
	key    string
	served time.Time      // when it last got a slot; zero: not while there were claims
	waits  *turns.Account // what it was served, while it has a claim
	due    time.Time      // when its client comes back; zero: it has no claim
	hold   time.Duration  // how long before that the claim counts
	floods bool           // it has called before it was due
	rank   int            // of its last call
}

// grace is how long the claim counts behind the time at which its client is due.
func (c *claimant) grace() time.Duration { return c.hold / 4 }

// claims reports whether the key has a claim.
func (c *claimant) claims() bool { return !c.due.IsZero() }

// hasTurn reports whether it is the claimant's turn, whose client is due after a wait, rather than
// that of a key with as many slots that was served so much; nil: one that is not known here. A client that comes when it
// was told to does not wait for others that are late.
func (c *claimant) hasTurn(o *claimant, served float64, wait time.Duration) bool {
	soon, own := wait <= c.grace()/4, c.waits.Served()
	switch {
	case o == nil:
		return soon && own <= served
	case o.claims() && !o.floods:
		return false
	case own == served && o.claims():
		return c.due.Before(o.due)
	}
	return (soon || o.floods) && own <= served
}

// Yielded returns how many calls were refused although a slot was free.
func (c *Claims) Yielded() uint64 { return c.yielded.Load() }

// before has slots look full to a call of a key that heeds claims, which must go before it. It
// reports whether there are any. No lock is held from here to after, as to take a slot may ask a
// fleet's store, and no function is passed for it, as that would put the query on the heap.
func (c *Claims) before(r *Route, q *Query) (kept bool) {
	if c.live.Load() > 0 {
		c.keep(r, q)
	}
	return len(q.full) > 0
}

// after makes a claim for such a call if it was refused, and settles its key's if it was not.
func (c *Claims) after(r *Route, q *Query, kept bool, err error) {
	switch {
	case isFull(err):
		c.mu.Lock()
		defer c.mu.Unlock()
		c.claim(r, q)
		if kept {
			c.yielded.Add(1)
		}
	case err == nil && c.live.Load() > 0:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.serve(r, q)
	}
}

// keep has the upstreams look full whose free slots are kept for claims that go before q.
func (c *Claims) keep(r *Route, q *Query) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(q.Now)
	for _, g := range c.groups {
		if !g.keeps(r, q) {
			continue
		}
		for i := range g.route.targets {
			if t := &g.route.targets[i]; t.Tier == g.route.targets[0].Tier && t.arm == 0 {
				q.full = append(q.full, t.Upstream.ID())
			}
		}
	}
}

// sweep forgets the claims whose clients have not come back, and what nothing depends on.
func (c *Claims) sweep(now time.Time) {
	for _, g := range c.groups {
		for i := range g.keys {
			if k := &g.keys[i]; k.claims() && now.Sub(k.due) > k.grace() {
				c.end(k, now)
			}
		}
		g.keys = slices.DeleteFunc(g.keys, func(k claimant) bool {
			return !k.claims() && now.Sub(k.served) > servedFor
		})
	}
	c.groups = slices.DeleteFunc(c.groups, func(g *claimGroup) bool { return len(g.keys) == 0 })
}

// end ends a key's claim.
func (c *Claims) end(k *claimant, now time.Time) {
	k.waits.Leave(now)
	k.due, k.floods, k.waits = time.Time{}, false, nil
	c.live.Add(-1)
}

// group returns the keys at what a query asks for, or nil.
func (c *Claims) group(r *Route, q *Query) *claimGroup {
	for _, g := range c.groups {
		if g.route.ID == r.ID && g.pool == q.Pool {
			return g
		}
	}
	return nil
}

// claim has the key hold a claim, or renews one whose client was due and has met a full pool again.
func (c *Claims) claim(r *Route, q *Query) {
	g := c.group(r, q)
	if g == nil {
		g = &claimGroup{pool: q.Pool}
		c.groups = append(c.groups, g)
	}
	g.route = r // of the newest configuration
	k := g.claimant(q.Key)
	switch {
	case k == nil:
		return
	case k.claims() && q.Now.Before(k.due):
		k.floods = true
		return
	}
	if !k.claims() {
		c.live.Add(1)
		k.waits = r.line.Wait(q.Key, q.Weight, q.Now)
	}
	k.due, k.hold, k.rank = q.Now.Add(q.RetryAfter), min(q.RetryAfter, longestHold), q.Rank
}

// serve ends the claim of a key that has got a slot, and puts it behind the others.
func (c *Claims) serve(r *Route, q *Query) {
	g := c.group(r, q)
	if g == nil {
		return
	}
	k := g.claimant(q.Key)
	if k == nil {
		return
	}
	if k.claims() {
		c.end(k, q.Now)
	}
	k.served = q.Now
}

// claimant returns a key, which is known here from now on, or nil where there is no more room.
func (g *claimGroup) claimant(key string) *claimant {
	if k := g.of(key); k != nil || len(g.keys) >= mostClaims {
		return k
	}
	g.keys = append(g.keys, claimant{key: key})
	return &g.keys[len(g.keys)-1]
}

// of returns a key, or nil when it is not known here.
func (g *claimGroup) of(key string) *claimant {
	for i := range g.keys {
		if g.keys[i].key == key {
			return &g.keys[i]
		}
	}
	return nil
}

// keeps reports whether the free slots of the group's model are kept for claims that go before the
// query of a route.
func (g *claimGroup) keeps(r *Route, q *Query) bool {
	if !g.shares(r, q) {
		return false
	}
	var own *claimant
	if g.route.ID == r.ID {
		own = g.of(q.Key)
	}
	before, held, served := 0, heldBy(g.route, q.Key), g.route.line.ServedOf(q.Key)
	for i := range g.keys {
		c := &g.keys[i]
		wait := c.due.Sub(q.Now)
		if !c.claims() || c.key == q.Key || wait > c.hold || c.rank > q.Rank {
			continue
		}
		theirs := heldBy(g.route, c.key)
		if theirs < held || q.Rank > c.rank || theirs == held && c.hasTurn(own, served, wait) {
			before++
		}
	}
	return before > 0 && g.route.Capacity(g.pool, q.Now).Available <= before
}

// shares reports whether a query of a route may take a slot that the group's claims are for.
func (g *claimGroup) shares(r *Route, q *Query) bool {
	return slices.ContainsFunc(g.route.targets, func(t Target) bool {
		return (g.pool == q.Pool || t.Upstream.Limits().Shared) &&
			(g.route.ID == r.ID || slices.ContainsFunc(r.targets, func(o Target) bool { return o.Upstream == t.Upstream }))
	})
}

// heldBy returns how many slots of the route's upstreams a key holds.
func heldBy(r *Route, key string) (n int) {
	for i := range r.targets {
		u := r.targets[i].Upstream
		if !slices.ContainsFunc(r.targets[:i], func(t Target) bool { return t.Upstream == u }) {
			n += upstreams.HeldBy(u, key)
		}
	}
	return n
}
