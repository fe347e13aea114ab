package routing

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"penstock/routing/turns"
	"penstock/upstreams"
)

// longestHold limits how long before the return of its client a slot may be reserved.
const longestHold = 2 * time.Second

// mostClaims is the maximum number of claims on one model. When it is reached, other keys get no
// claim.
const mostClaims = 1024

// servedFor is how long the last slot of a key counts in the order of claims.
const servedFor = time.Minute

// Claims reserves slots for keys that were refused because no slot was free, at models without a
// queue. Otherwise a key that floods the model would fill the pool before a client that obeys its
// Retry-After returns.
//
// A key has at most one claim on a model. The claim starts with the refusal. It ends when the
// client is late by more than a quarter of the claim's hold. While the claim exists, a call of
// another key may not take the last free slots if that key has more slots at the model than the
// claimant. If both keys have equally many slots, they alternate as in a queue: the key that was
// served less goes first. Between two such keys, the claim counts only around the time when its
// client is due. Against a key that floods, that is, calls before its Retry-After has passed, the
// claim always counts. As a result, no slot stays idle for a long time among keys with one call
// each, and a key without competitors is never refused.
//
// If there are no live claims, Acquire needs one atomic load for them.
type Claims struct {
	live    atomic.Int64  // live claims, and those that expired since the last sweep
	yielded atomic.Uint64 // calls refused although a slot was free

	mu     sync.Mutex
	groups []*claimGroup
}

// claimGroup holds the keys that have claims on one model and pool, and the keys that recently got
// a slot there.
type claimGroup struct {
	route *Route
	pool  upstreams.Pool
	keys  []claimant
}

// claimant is a key that competes for the slots of a claimGroup.
type claimant struct {
	key    string
	served time.Time      // when it last got a slot while claims existed; zero: never
	waits  *turns.Account // the key's account in the line; nil: no claim
	due    time.Time      // when its client returns; zero: no claim
	hold   time.Duration  // how long before due the claim starts to count
	floods bool           // it called again before due
	rank   int            // class rank of its last call
}

// grace returns how long the claim still counts after its client was due.
func (c *claimant) grace() time.Duration { return c.hold / 4 }

func (c *claimant) claims() bool { return !c.due.IsZero() }

// hasTurn reports whether the claimant goes before key o, which has equally many slots. The
// claimant's client is due after wait, and served is the service of o. o is nil if the group does
// not contain that key. A client that returns on time does not wait for late clients.
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

// after adds a claim if the call was refused. If the call was served, after ends the key's claim.
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

// sweep removes claims whose clients have not returned, and entries that are no longer needed.
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

func (c *Claims) endClaim(k *claimant, now time.Time) {
	k.waits.Leave(now)
	k.due, k.floods, k.waits = time.Time{}, false, nil
	c.live.Add(-1)
}

// group returns the group of a query's model and pool, or nil.
func (c *Claims) group(r *Route, q *Query) *claimGroup {
	for _, g := range c.groups {
		if g.route.ID == r.ID && g.pool == q.Pool {
			return g
		}
	}
	return nil
}

// claim adds a claim for the key. If a client has returned and found the pool full again, claim
// renews the client's claim.
func (c *Claims) claim(r *Route, q *Query) {
	g := c.group(r, q)
	if g == nil {
		g = &claimGroup{pool: q.Pool}
		c.groups = append(c.groups, g)
	}
	g.route = r // use the newest configuration
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

// serve ends the claim of a key that got a slot, and moves the key behind the others.
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

// claimant returns the entry of a key, and adds it if necessary. It returns nil if the group is
// full.
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

// keeps reports whether claims that go before the query reserve all free slots of the group's
// model.
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

// shares reports whether a query of route r may use slots that the group's claims reserve.
func (g *claimGroup) shares(r *Route, q *Query) bool {
	return slices.ContainsFunc(g.route.targets, func(t Target) bool {
		return (g.pool == q.Pool || t.Upstream.Limits().Shared) &&
			(g.route.ID == r.ID || slices.ContainsFunc(r.targets, func(o Target) bool { return o.Upstream == t.Upstream }))
	})
}

// heldBy returns the number of slots that a key occupies at the route's upstreams.
func heldBy(r *Route, key string) (n int) {
	for i := range r.targets {
		u := r.targets[i].Upstream
		if !slices.ContainsFunc(r.targets[:i], func(t Target) bool { return t.Upstream == u }) {
			n += upstreams.HeldBy(u, key)
		}
	}
	return n
}
