package fleet

import (
	"time"

	"penstock/config"
	"penstock/proxy/access/limit"
)

// usage does the arithmetic for all limits of a key at this edge. The account's mutex guards it.
type usage struct {
	cells  [cells]cell
	names  [cells]string
	limits needs
	lost   bool // the edge continues without the store
}

// The names of a key's limits, by cell.
var names = [cells]string{limit.RequestsPerMinute, limit.TokensPerMinute, limit.Concurrency}

var allowed = limit.Decision{OK: true}

// follow applies limits that a reload has changed. It gives back grants under the old limits.
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

// limitsOf returns the limits of a key by cell.
func limitsOf(l config.KeyLimits) needs {
	return needs{int64(l.RequestsPerMinute), int64(l.TokensPerMinute), int64(l.Concurrency)}
}

// fenceAfter gives up the amounts that this edge holds before the store grants them to other edges.
// The store does that after a lease without a message. silence is the time since the last answer.
// The caller must hold mu.
func (u *usage) fenceAfter(silence time.Duration) {
	if silence <= lease-fenceBefore {
		return
	}
	for i := range u.cells {
		u.cells[i].spare = min(u.cells[i].spare, 0)
	}
}

// lacking returns the first cell in which this edge does not hold enough for a call, or -1. A call
// may use amounts that are reserved for waiting calls only if drawn is true. The caller must hold
// mu.
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
// takes all of the limit.
func (u *usage) needsOf(n needs) needs {
	for i := range n {
		n[i] = u.cells[i].need(n[i])
	}
	return n
}

// await reserves granted amounts for waiting calls.
func (u *usage) await(n needs) {
	for i := range u.cells {
		u.cells[i].awaited += n[i]
	}
}

// unawait reverts await for a call that takes or leaves its share.
func (u *usage) unawait(n needs) {
	for i := range u.cells {
		u.cells[i].awaited -= n[i]
	}
}

// hold takes the amounts that a call needs from every cell. Every cell must hold enough.
func (u *usage) hold(n needs) {
	for i := range u.cells {
		c := &u.cells[i]
		taken := n[i]
		if c.limit > 0 {
			taken = c.need(taken)
		}
		c.take(taken, u.lost)
	}
	u.cells[requests].settle(n[requests], n[requests], u.lost) // a request is used as soon as it is taken
}

// giveBack gives back a request that was already charged.
func (u *usage) giveBack() {
	switch c := &u.cells[requests]; {
	case c.limit == 0:
	case !u.lost:
		c.refunds++
	case c.unacked() > 0: // no message has reported the request yet
		c.settle(0, -1, true)
	}
}

// refund takes one of the requests that were given back. Their number is at most the debt, because
// a request that has been paid off is not owed again.
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

// missing returns how much of a cell the whole fleet lacks for a call.
func (u *usage) missing(i int, n needs, now time.Duration) float64 {
	c := &u.cells[i]
	c.catchUp(now)
	return float64(c.need(n[i])) - float64(c.unclaimed()) - c.free
}

// refuse returns the decision that refuses a call because of a cell.
func (u *usage) refuse(i int, n needs, now time.Duration) limit.Decision {
	c := &u.cells[i]
	d := limit.Decision{LimitName: u.names[i], Limit: c.limit, RetryAfter: time.Second}
	if c.kind == paid {
		wait := max(u.missing(i, n, now), 0) / float64(c.limit) * float64(time.Minute)
		d.RetryAfter = max(time.Duration(wait), time.Millisecond)
	}
	return d
}

// over returns a refusal if the unpaid charges of all edges exceed a limit per minute.
func (u *usage) over(i int, now time.Duration) limit.Decision {
	c := &u.cells[i]
	c.catchUp(now)
	beyond := c.debt - float64(c.limit)
	if c.limit == 0 || beyond <= 0 {
		return allowed
	}
	wait := time.Duration(beyond / float64(c.limit) * float64(time.Minute))
	return limit.Decision{LimitName: u.names[i], Limit: c.limit, RetryAfter: max(wait, time.Millisecond)}
}

// settle ends the holds of a call and charges its use.
func (u *usage) settle(held, used needs) {
	for i := range u.cells {
		u.cells[i].settle(held[i], used[i], u.lost)
	}
}

// leave switches to working without the store. silence is how long the store has not answered.
func (u *usage) leave(now time.Duration, fresh bool, silence time.Duration, edges int) {
	u.lost = true
	for i := range u.cells {
		u.cells[i].leave(now, fresh, silence, edges)
	}
}

// refuseAlone decides by the edge's own share.
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

// earn adds to every cell the amount that is paid off while the store is lost. An edge that admits
// nothing in that time gets no share, because other edges may have used everything.
func (u *usage) earn(now time.Duration, t *terms) {
	if !u.lost || t.whenLost == config.LostClosed {
		return
	}
	for i := range u.cells {
		u.cells[i].earn(now, t.edges())
	}
}

// level returns the remaining amount of a limit, as far as this edge knows.
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
