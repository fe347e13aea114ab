package fleet

import (
	"time"

	"penstock/config"
	"penstock/proxy/access/limit"
)

// usage is this edge's view of all limits of a key. The account's mutex guards it.
type usage struct {
	cells  [cells]cell
	names  [cells]string
	limits needs
	lost   bool // whether this edge is working without the store
}

var names = [cells]string{limit.RequestsPerMinute, limit.TokensPerMinute, limit.Concurrency}

var allowed = limit.Decision{OK: true}

// follow applies limits changed by a reload. It returns amounts that were granted under the old
// limits.
func (u *usage) follow(l needs) {
	if l == u.limits {
		return
	}
	u.limits = l
	for i, n := range l {
		if c := &u.cells[i]; c.limit != n {
			c.limit, c.spare, c.seen, c.alone, c.refunds = n, 0, false, 0, 0
		}
	}
}

func limitsOf(l config.KeyLimits) needs {
	return needs{int64(l.RequestsPerMinute), int64(l.TokensPerMinute), int64(l.Concurrency)}
}

// fenceAfter gives up this edge's unused amounts shortly before its lease expires, because the
// store will then grant them to other edges. silence is the time since the last answer. The caller
// must hold mu.
func (u *usage) fenceAfter(silence time.Duration) {
	if silence <= lease-fenceBefore {
		return
	}
	for i := range u.cells {
		u.cells[i].spare = min(u.cells[i].spare, 0)
	}
}

// lacking returns the first cell that has too little for a call at this edge, or -1. The call may
// use amounts set aside for waiting calls only if drawn is true. The caller must hold mu.
func (u *usage) lacking(n needs, drawn bool, now time.Duration, edges int) int {
	for i := range u.cells {
		c := &u.cells[i]
		if c.limit == 0 || n[i] == 0 {
			continue
		}
		held := c.unclaimed()
		if drawn {
			held = c.spare
		}
		if need := c.need(n[i]); held < need || c.withheld(need, now, edges) {
			return i
		}
	}
	return -1
}

// needsOf returns the amounts that a call takes from each cell. A call that needs more than a limit
// takes the entire limit.
func (u *usage) needsOf(n needs) needs {
	for i := range n {
		n[i] = u.cells[i].need(n[i])
	}
	return n
}

func (u *usage) await(n needs) {
	for i := range u.cells {
		u.cells[i].awaited += n[i]
	}
}

// unawait reverts await for one call that takes its share or gives it up.
func (u *usage) unawait(n needs) {
	for i := range u.cells {
		u.cells[i].awaited -= n[i]
	}
}

// hold reserves n for a call. Every cell must have enough.
func (u *usage) hold(n needs) {
	for i := range u.cells {
		c := &u.cells[i]
		taken := n[i]
		if c.limit > 0 {
			taken = c.need(taken)
		}
		c.take(taken, u.lost)
	}
	// A request counts as used once it is taken.
	u.cells[requests].settle(n[requests], n[requests], u.lost)
}

func (u *usage) catchUp(now time.Duration) {
	for i := range u.cells {
		u.cells[i].catchUp(now)
	}
}

func (u *usage) giveBack() {
	switch c := &u.cells[requests]; {
	case c.limit == 0:
	case !u.lost:
		c.refunds++
	case c.unacked() > 0: // no message has reported the request yet
		c.settle(0, -1, true)
	}
}

// refund uses up one of the requests that were given back. It first caps their number at the debt,
// because a request that no longer counts must not be refunded.
func (u *usage) refund(now time.Duration) bool {
	c := &u.cells[requests]
	c.catchUp(now)
	if c.refunds = min(c.refunds, int64(c.debt)); c.refunds == 0 || u.lost {
		c.refunds = 0
		return false
	}
	c.refunds--
	return true
}

// missing returns the difference between what a call needs from a cell and what the fleet has free.
func (u *usage) missing(i int, n needs, now time.Duration) float64 {
	c := &u.cells[i]
	c.catchUp(now)
	return float64(c.need(n[i])) - float64(c.unclaimed()) - c.free
}

func (u *usage) refuse(i int, n needs, now time.Duration) limit.Decision {
	c := &u.cells[i]
	d := limit.Decision{LimitName: u.names[i], Limit: c.limit, RetryAfter: time.Second}
	if c.kind == paid {
		wait := max(u.missing(i, n, now), 0) / float64(c.limit) * float64(time.Minute)
		d.RetryAfter = max(time.Duration(wait), time.Millisecond)
	}
	return d
}

// over returns a refusal if the charges of all edges exceed a per-minute limit.
func (u *usage) over(i int) limit.Decision {
	c := &u.cells[i]
	beyond := c.debt - float64(c.limit)
	if c.limit == 0 || beyond <= 0 {
		return allowed
	}
	wait := time.Duration(beyond / float64(c.limit) * float64(time.Minute))
	return limit.Decision{LimitName: u.names[i], Limit: c.limit, RetryAfter: max(wait, time.Millisecond)}
}

// settle releases what a call has reserved, and charges what it has used.
func (u *usage) settle(held, used needs) {
	for i := range u.cells {
		u.cells[i].settle(held[i], used[i], u.lost)
	}
}

// leave makes this edge work without the store. silence is the time since the store's last answer.
func (u *usage) leave(now time.Duration, fresh bool, silence time.Duration, edges int) {
	u.lost = true
	for i := range u.cells {
		u.cells[i].leave(now, fresh, silence, edges)
	}
}

func (u *usage) refuseAlone(n needs, edges int) limit.Decision {
	for i := range u.cells {
		c := &u.cells[i]
		if c.has(c.need(n[i]), edges) {
			continue
		}
		d := limit.Decision{LimitName: u.names[i], Limit: c.limit, RetryAfter: time.Second}
		if c.kind == paid {
			wait := (float64(c.need(n[i])) - c.alone) * float64(edges) / float64(c.limit) * float64(time.Minute)
			d.RetryAfter = max(time.Duration(wait), time.Millisecond)
		}
		return d
	}
	return allowed
}

// earn adds the amount that becomes free over time to every cell while the store is lost. With
// LostClosed, this edge gets no share, because it admits no calls and other edges may have used
// everything.
func (u *usage) earn(now time.Duration, t *terms) {
	if !u.lost || t.whenLost == config.LostClosed {
		return
	}
	for i := range u.cells {
		u.cells[i].earn(now, t.edges())
	}
}

func (u *usage) level(i int, now time.Duration) limit.Level {
	c := &u.cells[i]
	c.catchUp(now)
	left := float64(c.spare) + c.free
	if u.lost {
		left = c.alone
	}
	left = min(max(left, 0), float64(c.limit))
	used := time.Duration((float64(c.limit) - left) / max(float64(c.limit), 1) * float64(time.Minute))
	return limit.Level{Limit: c.limit, Remaining: int64(left), Reset: used}
}
