package routing

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"penstock/routing/turns"
	"penstock/upstreams"
)

// longestHold is the longest time for which a slot is reserved before its client is due.
const longestHold = 2 * time.Second

// mostClaims is the maximum number of claims on one model. Once it is reached, no further key gets
// a claim.
const mostClaims = 1024

// servedFor is the time for which a key's last slot counts in the order of claims.
const servedFor = time.Minute

// Claims reserve the next slot for keys that were refused for lack of one, at models without a
// queue. A flood of calls from another key never waits. Without claims, it would have filled the
// pool by the time that a client that obeys its Retry-After returns.
//
// A key has at most one claim on a model. The claim starts with the refusal and ends a quarter of
// its hold after the client is due. Meanwhile a call from another key may not take the last free
// slots if that key has more slots there than the claim's key. Keys with equally many slots take
// turns, as in a queue: the key that was served less goes first. Between such keys the claim counts
// only around the time at which its client is due. Against a key that floods (calls before its
// Retry-After has passed), the claim counts at all times. So no slot is idle for long among keys
// with one call each, and a lone key is never refused.
//
// While there is no live claim, Acquire costs one more atomic load.
type Claims struct {
	live    atomic.Int64  // claims, including those that expired since the last sweep
	yielded atomic.Uint64 // calls that were refused although a slot was free

	mu     sync.Mutex
	groups []*claimGroup
}

// claimGroup holds the keys that claim slots of one model and pool, and the keys that got a slot
// meanwhile.
type claimGroup struct {
	route *Route
	pool  upstreams.Pool
	keys  []claimant
}

// claimant describes a key that competes for one model's slots.
type claimant struct {
	key    string
	served time.Time      // when it last got a slot; zero: never while there were claims
	waits  *turns.Account // the key's account in the line, while the key has a claim
	due    time.Time      // when its client comes back; zero: it has no claim
	hold   time.Duration  // time before due from which the claim counts
	floods bool           // it called again before it was due
	rank   int            // the class rank that its last call had
}

// grace returns the time for which the claim still counts after its client was due.
func (c *claimant) grace() time.Duration { return c.hold / 4 }

// claims reports whether the key has a claim.
func (c *claimant) claims() bool { return !c.due.IsZero() }

// hasTurn reports whether the claimant goes before another key o that holds as many slots. The
// claimant's client is due after wait, and the other key was served the given amount. o is nil if
// the other key is not known here. A client that returns on time does not wait for clients that are
// late.
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

// Yielded returns the number of calls that were refused although a slot was free.
func (c *Claims) Yielded() uint64 { return c.yielded.Load() }

// before() makes slots that claims reserve look full to a query whose key heeds claims, and reports
// whether there are any such slots. No lock is held between the calls of before and after, because
// taking a slot may ask a fleet's store. Passing the step between these calls as a function would
// put the query on the heap.
func (c *Claims) before(r *Route, q *search) (kept bool) {
	if c.live.Load() > 0 {
		c.keep(r, q)
	}
	return len(q.full) > 0
}

// after() makes a claim for the call's key if the call was refused, and ends the key's claim if the
// call was served.
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

// keep marks upstreams as full if claims that go before q reserve their free slots.
func (c *Claims) keep(r *Route, q *search) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(q.Now)
	for _, g := range c.groups {
		if !g.keeps(r, &q.Query) {
			continue
		}
		for i := range g.route.targets {
			if t := &g.route.targets[i]; t.Tier == g.route.targets[0].Tier && t.arm == 0 {
				q.full = append(q.full, t.Upstream.ID())
			}
		}
	}
}

// sweep removes the claims whose clients have not come back, and entries that no decision needs.
func (c *Claims) sweep(now time.Time) {
	for _, g := range c.groups {
		for i := range g.keys {
			if k := &g.keys[i]; k.claims() && now.Sub(k.due) > k.grace() {
				c.endClaim(k, now)
			}
		}
		g.keys = slices.DeleteFunc(g.keys, func(k claimant) bool {
			return !k.claims() && now.Sub(k.served) > servedFor
		})
	}
	c.groups = slices.DeleteFunc(c.groups, func(g *claimGroup) bool { return len(g.keys) == 0 })
}

// endClaim ends a key's claim.
func (c *Claims) endClaim(k *claimant, now time.Time) {
	k.waits.Leave(now)
	k.due, k.floods, k.waits = time.Time{}, false, nil
	c.live.Add(-1)
}

// group returns the claims for a query's model and pool, or nil.
func (c *Claims) group(r *Route, q *Query) *claimGroup {
	for _, g := range c.groups {
		if g.route.ID == r.ID && g.pool == q.Pool {
			return g
		}
	}
	return nil
}

// claim gives the key a claim, or renews the claim of a client that was due and found the pool full
// again.
func (c *Claims) claim(r *Route, q *Query) {
	g := c.group(r, q)
	if g == nil {
		g = &claimGroup{pool: q.Pool}
		c.groups = append(c.groups, g)
	}
	g.route = r // the route from the newest configuration
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

// serve ends the claim of a key that got a slot, and moves the key behind the other keys.
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
		c.endClaim(k, q.Now)
	}
	k.served = q.Now
}

// claimant returns a key's entry. If there is none, it adds the entry, or returns nil if there is
// no room for it.
func (g *claimGroup) claimant(key string) *claimant {
	if k := g.of(key); k != nil || len(g.keys) >= mostClaims {
		return k
	}
	g.keys = append(g.keys, claimant{key: key})
	return &g.keys[len(g.keys)-1]
}

// of returns a key's entry, or nil.
func (g *claimGroup) of(key string) *claimant {
	for i := range g.keys {
		if g.keys[i].key == key {
			return &g.keys[i]
		}
	}
	return nil
}

// keeps reports whether the free slots of the group's model are reserved for claims that go before
// the query.
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

// shares reports whether a route's query may take a slot that the group's claims reserve.
func (g *claimGroup) shares(r *Route, q *Query) bool {
	return slices.ContainsFunc(g.route.targets, func(t Target) bool {
		return (g.pool == q.Pool || t.Upstream.Limits().Shared) &&
			(g.route.ID == r.ID || slices.ContainsFunc(r.targets, func(o Target) bool { return o.Upstream == t.Upstream }))
	})
}

// heldBy returns the number of slots of the route's upstreams that a key holds.
func heldBy(r *Route, key string) (n int) {
	for i := range r.targets {
		u := r.targets[i].Upstream
		if !slices.ContainsFunc(r.targets[:i], func(t Target) bool { return t.Upstream == u }) {
			n += upstreams.HeldBy(u, key)
		}
	}
	return n
}
