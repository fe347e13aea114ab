package fleet

import (
	"time"

	"penstock/config"
	"penstock/proxy/access/limit"
)

// keyCells is this edge's view of all limits of a key. The account's mutex guards it.
type keyCells struct {
	cells     [cellCount]limitCell
	names     [cellCount]string
	limits    cellAmounts
	isOffline bool // whether this edge is working without the store
}

var cellLimitNames = [cellCount]string{limit.RequestsPerMinute, limit.TokensPerMinute, limit.Concurrency}

var allowedDecision = limit.Decision{OK: true}

// applyLimits applies limits changed by a reload. It returns amounts that were granted under the
// old limits.
func (u *keyCells) applyLimits(l cellAmounts) {
	if l == u.limits {
		return
	}
	u.limits = l
	for i, n := range l {
		if c := &u.cells[i]; c.limit != n {
			c.limit, c.spare, c.hasAnswer, c.offlineAmount, c.refunds = n, 0, false, 0, 0
		}
	}
}

func limitAmounts(l config.KeyLimits) cellAmounts {
	return cellAmounts{int64(l.RequestsPerMinute), int64(l.TokensPerMinute), int64(l.Concurrency)}
}

// fenceUnused gives up this edge's unused amounts shortly before its lease expires, because the
// store will then grant them to other edges. silence is the time since the last answer. The caller
// must hold mu.
func (u *keyCells) fenceUnused(silence time.Duration) {
	if silence <= leaseTime-fenceMargin {
		return
	}
	for i := range u.cells {
		u.cells[i].spare = min(u.cells[i].spare, 0)
	}
}

// firstLackingCell returns the first cell that has too little for a call at this edge, or -1. The call
// may use amounts set aside for waiting calls only if drawn is true. The caller must hold mu.
func (u *keyCells) firstLackingCell(n cellAmounts, drawn bool, now time.Duration, edges int) int {
	for i := range u.cells {
		c := &u.cells[i]
		if c.limit == 0 || n[i] == 0 {
			continue
		}
		held := c.spareNotSetAside()
		if drawn {
			held = c.spare
		}
		if need := c.cappedNeed(n[i]); held < need || c.isWithheld(need, now, edges) {
			return i
		}
	}
	return -1
}

// cappedNeeds returns the amounts that a call takes from each cell. A call that needs more than a
// limit takes the entire limit.
func (u *keyCells) cappedNeeds(n cellAmounts) cellAmounts {
	for i := range n {
		n[i] = u.cells[i].cappedNeed(n[i])
	}
	return n
}

func (u *keyCells) setAside(n cellAmounts) {
	for i := range u.cells {
		u.cells[i].setAside += n[i]
	}
}

// releaseSetAside reverts setAside for one call, which takes its share or gives it up.
func (u *keyCells) releaseSetAside(n cellAmounts) {
	for i := range u.cells {
		u.cells[i].setAside -= n[i]
	}
}

// reserve reserves n for a call. Every cell must have enough.
func (u *keyCells) reserve(n cellAmounts) {
	for i := range u.cells {
		c := &u.cells[i]
		taken := n[i]
		if c.limit > 0 {
			taken = c.cappedNeed(taken)
		}
		c.reserve(taken, u.isOffline)
	}
	// A request counts as used as soon as it is taken.
	u.cells[requestCellIndex].settle(n[requestCellIndex], n[requestCellIndex], u.isOffline)
}

func (u *keyCells) decayDebts(now time.Duration) {
	for i := range u.cells {
		u.cells[i].decayDebt(now)
	}
}

func (u *keyCells) refundRequest() {
	switch c := &u.cells[requestCellIndex]; {
	case c.limit == 0:
	case !u.isOffline:
		c.refunds++
	case c.unreportedCharge() > 0: // no message has reported the request yet
		c.settle(0, -1, true)
	}
}

// useRefund uses up one refunded request. It first caps the number of refunds at the debt, because
// a request that no longer counts must not be refunded.
func (u *keyCells) useRefund(now time.Duration) bool {
	c := &u.cells[requestCellIndex]
	c.decayDebt(now)
	if c.refunds = min(c.refunds, int64(c.fleetDebt)); c.refunds == 0 || u.isOffline {
		c.refunds = 0
		return false
	}
	c.refunds--
	return true
}

// missingAmount returns how much a call needs from a cell beyond what is free.
func (u *keyCells) missingAmount(i int, n cellAmounts, now time.Duration) float64 {
	c := &u.cells[i]
	c.decayDebt(now)
	return float64(c.cappedNeed(n[i])) - float64(c.spareNotSetAside()) - c.fleetFree
}

func (u *keyCells) refusal(i int, n cellAmounts, now time.Duration) limit.Decision {
	c := &u.cells[i]
	d := limit.Decision{LimitName: u.names[i], Limit: c.limit, RetryAfter: time.Second}
	if c.kind == cellKindRate {
		wait := max(u.missingAmount(i, n, now), 0) / float64(c.limit) * float64(time.Minute)
		d.RetryAfter = max(time.Duration(wait), time.Millisecond)
	}
	return d
}

// overLimitRefusal returns a refusal if the charges of all edges exceed a per-minute limit.
func (u *keyCells) overLimitRefusal(i int) limit.Decision {
	c := &u.cells[i]
	beyond := c.fleetDebt - float64(c.limit)
	if c.limit == 0 || beyond <= 0 {
		return allowedDecision
	}
	wait := time.Duration(beyond / float64(c.limit) * float64(time.Minute))
	return limit.Decision{LimitName: u.names[i], Limit: c.limit, RetryAfter: max(wait, time.Millisecond)}
}

// settle releases what a call has reserved, and charges what it has used.
func (u *keyCells) settle(held, used cellAmounts) {
	for i := range u.cells {
		u.cells[i].settle(held[i], used[i], u.isOffline)
	}
}

// goOffline makes this edge work without the store. silence is the time since the store's last
// answer.
func (u *keyCells) goOffline(now time.Duration, fresh bool, silence time.Duration, edges int) {
	u.isOffline = true
	for i := range u.cells {
		u.cells[i].goOffline(now, fresh, silence, edges)
	}
}

func (u *keyCells) offlineRefusal(n cellAmounts, edges int) limit.Decision {
	for i := range u.cells {
		c := &u.cells[i]
		if c.canAdmitOffline(c.cappedNeed(n[i]), edges) {
			continue
		}
		d := limit.Decision{LimitName: u.names[i], Limit: c.limit, RetryAfter: time.Second}
		if c.kind == cellKindRate {
			wait := (float64(c.cappedNeed(n[i])) - c.offlineAmount) * float64(edges) / float64(c.limit) * float64(time.Minute)
			d.RetryAfter = max(time.Duration(wait), time.Millisecond)
		}
		return d
	}
	return allowedDecision
}

// accrueOffline adds the amount that becomes free over time to every cell while the store is lost.
// With StoreLostClosed, this edge gets no share, because it admits no calls and other edges may have
// used everything.
func (u *keyCells) accrueOffline(now time.Duration, t *edgeState) {
	if !u.isOffline || t.lostPolicy == config.StoreLostClosed {
		return
	}
	for i := range u.cells {
		u.cells[i].accrueOffline(now, t.edgeCount())
	}
}

func (u *keyCells) limitLevel(i int, now time.Duration) limit.LimitLevel {
	c := &u.cells[i]
	c.decayDebt(now)
	left := float64(c.spare) + c.fleetFree
	if u.isOffline {
		left = c.offlineAmount
	}
	left = min(max(left, 0), float64(c.limit))
	used := time.Duration((float64(c.limit) - left) / max(float64(c.limit), 1) * float64(time.Minute))
	return limit.LimitLevel{Limit: c.limit, Remaining: int64(left), Reset: used}
}
