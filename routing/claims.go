package routing

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"penstock/routing/turns"
	"penstock/upstreams"
)

// maxClaimHold is the longest time for which a slot may be reserved before the client is due to
// return.
const maxClaimHold = 2 * time.Second

// maxClaimGroupKeys is the maximum number of keys in one claimGroup. Once this number is reached, other
// keys get no claims.
const maxClaimGroupKeys = 1024

// servedTTL is how long a slot that a key has acquired affects the order of claims.
const servedTTL = time.Minute

// SlotClaims reserves slots for refused keys at models without a queue. A key gets a claim if its
// call was refused because no slot was free. Without claims, a key that floods the model would
// acquire every free slot before a client that honours its Retry-After returns.
//
// A key has at most one claim on a model. The claim starts with the refusal, and ends when the
// client is late by more than a quarter of claimHold. Meanwhile, other keys that have more slots at
// the model than the claimant may not acquire the last free slots. If the other key has equally
// many slots, the key that was served less goes first, as in a queue. In this case, the claim
// counts only around the time when its client is due. A key that calls again before its Retry-After
// has passed floods the model. Against such a key, the claim always counts. As a result, no slot
// stays idle for long if each key has one call. A key without competitors is never refused because
// of claims.
//
// If there are no live claims, Acquire needs only one atomic load to detect this.
type SlotClaims struct {
	liveCount    atomic.Int64  // number of claims, including those that expired since the last sweep
	refusedCount atomic.Uint64 // calls that were refused even though a slot was free

	mu     sync.Mutex
	groups []*claimGroup
}

// claimGroup contains the keys that have claims on one model and pool, and the keys that recently
// acquired a slot there.
type claimGroup struct {
	route *Route
	pool  upstreams.SlotPool
	keys  []claimant
}

// claimant is a key that competes for the slots of a claimGroup.
type claimant struct {
	key        string
	lastServed time.Time      // when the key last acquired a slot while claims existed, or zero
	account    *turns.Account // the key's account in the route's scheduler; nil if it has no claim
	claimDue   time.Time      // when the client should return; zero if the key has no claim
	claimHold  time.Duration  // how long before claimDue the claim takes effect
	isFlooding bool           // the key called again before claimDue
	classRank  int            // class rank of the key's last call
}

// gracePeriod returns how long after claimDue the claim still counts.
func (c *claimant) gracePeriod() time.Duration { return c.claimHold / 4 }

func (c *claimant) hasClaim() bool { return !c.claimDue.IsZero() }

// goesBefore reports whether the claimant goes before another key that has equally many slots. o is
// the other key's entry, or nil if the group has no such entry. served is the other key's service.
// wait is the time until the claimant's client is due. A client that returns on time is not refused
// because of late clients.
func (c *claimant) goesBefore(o *claimant, served float64, wait time.Duration) bool {
	soon, own := wait <= c.gracePeriod()/4, c.account.WeightedService()
	switch {
	case o == nil:
		return soon && own <= served
	case o.hasClaim() && !o.isFlooding:
		return false
	case own == served && o.hasClaim():
		return c.claimDue.Before(o.claimDue)
	}
	return (soon || o.isFlooding) && own <= served
}

// RefusedForClaimsCount returns how many calls were refused even though a slot was free.
func (c *SlotClaims) RefusedForClaimsCount() uint64 { return c.refusedCount.Load() }

// hideReservedSlots makes an upstream look full to q if all its free slots are reserved by claims,
// and reports whether it found any such upstream. The caller then acquires a slot and calls
// recordAcquireResult. No lock is held in between, because acquiring a slot may require a request
// to the fleet's store. If SlotClaims called a function that acquires the slot, the query would be
// allocated on the heap.
func (c *SlotClaims) hideReservedSlots(r *Route, q *targetSearch) (kept bool) {
	if c.liveCount.Load() > 0 {
		c.markReservedFull(r, q)
	}
	return len(q.fullUpstreams) > 0
}

// recordAcquireResult adds a claim if the call was refused. If the call acquired a slot, it ends
// the key's claim.
func (c *SlotClaims) recordAcquireResult(r *Route, q *Query, kept bool, err error) {
	switch {
	case isFullError(err):
		c.mu.Lock()
		defer c.mu.Unlock()
		c.addClaim(r, q, err)
		if kept {
			c.refusedCount.Add(1)
		}
	case err == nil && c.liveCount.Load() > 0:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.recordServed(r, q)
	}
}

// markReservedFull marks upstreams as full if claims that go before q reserve their free slots.
func (c *SlotClaims) markReservedFull(r *Route, q *targetSearch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeExpired(q.Now)
	for _, g := range c.groups {
		if !g.reservesAllFree(r, &q.Query) {
			continue
		}
		for i := range g.route.targets {
			if t := &g.route.targets[i]; t.Tier == g.route.targets[0].Tier && t.armNumber == 0 {
				q.fullUpstreams = append(q.fullUpstreams, t.Upstream.ID())
			}
		}
	}
}

// removeExpired removes claims whose clients have not returned, and entries that are no longer
// needed.
func (c *SlotClaims) removeExpired(now time.Time) {
	for _, g := range c.groups {
		for i := range g.keys {
			if k := &g.keys[i]; k.hasClaim() && now.Sub(k.claimDue) > k.gracePeriod() {
				c.endClaim(k, now)
			}
		}
		g.keys = slices.DeleteFunc(g.keys, func(k claimant) bool {
			return !k.hasClaim() && now.Sub(k.lastServed) > servedTTL
		})
	}
	c.groups = slices.DeleteFunc(c.groups, func(g *claimGroup) bool { return len(g.keys) == 0 })
}

func (c *SlotClaims) endClaim(k *claimant, now time.Time) {
	k.account.EndWait(now)
	k.claimDue, k.isFlooding, k.account = time.Time{}, false, nil
	c.liveCount.Add(-1)
}

// findGroup returns the group of a query's model and pool, or nil.
func (c *SlotClaims) findGroup(r *Route, q *Query) *claimGroup {
	for _, g := range c.groups {
		if g.route.ID == r.ID && g.pool == q.Pool {
			return g
		}
	}
	return nil
}

// addClaim adds a claim for the key. If the key already has a claim, because its client returned
// and found the pool full again, addClaim renews that claim.
func (c *SlotClaims) addClaim(r *Route, q *Query, refusal error) {
	after := q.RetryAfter
	if full := (*FullError)(nil); q.RetryAfterIsMinimum && errors.As(refusal, &full) {
		after = full.RetryAfter(after, 0)
	}
	g := c.findGroup(r, q)
	if g == nil {
		g = &claimGroup{pool: q.Pool}
		c.groups = append(c.groups, g)
	}
	g.route = r // the route of the newest configuration
	k := g.getOrAddKey(q.Key)
	switch {
	case k == nil:
		return
	case k.hasClaim() && q.Now.Before(k.claimDue):
		k.isFlooding = true
		return
	}
	if !k.hasClaim() {
		c.liveCount.Add(1)
		k.account = r.scheduler.StartWait(q.Key, q.Weight, q.Now)
	}
	k.claimDue, k.claimHold, k.classRank = q.Now.Add(after), min(after, maxClaimHold), q.Rank
}

// recordServed ends the claim of a key that has acquired a slot, and moves the key behind the
// others.
func (c *SlotClaims) recordServed(r *Route, q *Query) {
	g := c.findGroup(r, q)
	if g == nil {
		return
	}
	k := g.getOrAddKey(q.Key)
	if k == nil {
		return
	}
	if k.hasClaim() {
		c.endClaim(k, q.Now)
	}
	k.lastServed = q.Now
}

// getOrAddKey returns the entry for a key, and adds it if necessary. If the group is full, it
// returns nil.
func (g *claimGroup) getOrAddKey(key string) *claimant {
	if k := g.findKey(key); k != nil || len(g.keys) >= maxClaimGroupKeys {
		return k
	}
	g.keys = append(g.keys, claimant{key: key})
	return &g.keys[len(g.keys)-1]
}

// findKey returns a key's entry, or nil.
func (g *claimGroup) findKey(key string) *claimant {
	for i := range g.keys {
		if g.keys[i].key == key {
			return &g.keys[i]
		}
	}
	return nil
}

// reservesAllFree reports whether the claims that go before the query reserve all free slots of the
// group's model.
func (g *claimGroup) reservesAllFree(r *Route, q *Query) bool {
	if !g.sharesSlotsWith(r, q) {
		return false
	}
	var own *claimant
	if g.route.ID == r.ID {
		own = g.findKey(q.Key)
	}
	before, held, served := 0, countSlotsHeldByKey(g.route, q.Key), g.route.scheduler.KeyWeightedService(q.Key)
	for i := range g.keys {
		c := &g.keys[i]
		wait := c.claimDue.Sub(q.Now)
		if !c.hasClaim() || c.key == q.Key || wait > c.claimHold || c.classRank > q.Rank {
			continue
		}
		theirs := countSlotsHeldByKey(g.route, c.key)
		if theirs < held || q.Rank > c.classRank || theirs == held && c.goesBefore(own, served, wait) {
			before++
		}
	}
	return before > 0 && g.route.PoolCapacity(g.pool, q.Now).Available <= before
}

// sharesSlotsWith reports whether a query of route r competes for the slots that the group's claims
// reserve.
func (g *claimGroup) sharesSlotsWith(r *Route, q *Query) bool {
	return slices.ContainsFunc(g.route.targets, func(t Target) bool {
		return (g.pool == q.Pool || t.Upstream.Limits().Shared) &&
			(g.route.ID == r.ID || slices.ContainsFunc(r.targets, func(o Target) bool { return o.Upstream == t.Upstream }))
	})
}

// countSlotsHeldByKey returns the number of slots that a key occupies at the route's upstreams.
func countSlotsHeldByKey(r *Route, key string) (n int) {
	for i := range r.targets {
		u := r.targets[i].Upstream
		if !slices.ContainsFunc(r.targets[:i], func(t Target) bool { return t.Upstream == u }) {
			n += upstreams.SlotsHeldBy(u, key)
		}
	}
	return n
}
