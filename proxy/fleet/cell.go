package fleet

import (
	"math"
	"time"

	"penstock/config"
)

// These are the indexes of an account's cells. Each limit of a key has a cell.
const (
	requestCellIndex = iota
	tokenCellIndex
	slotCellIndex
	cellCount
)

type cellAmounts [cellCount]int64

// limitCell is this edge's view of one limit of a key, in the units of that limit. The store grants
// amounts in advance, and learns from a later message how much of them was used.
type limitCell struct {
	kind  cellKind
	limit int64 // limit for the entire fleet; 0 if there is none

	// Granted amount that no call has reserved; negative if a call used more than its estimate.
	spare          int64
	setAside       int64 // part of spare that is set aside for calls that have waited for the last answer
	reservedAmount int64
	charged        int64 // amount charged since the process started
	acked          int64 // part of charged that was reported in the last answered message
	refunds        int64 // number of refunded requests; the same number of later requests is free

	// The fields below come from the last answer. The edge updates them as debts decrease over
	// time. Before the first answer, fleetDebt and ownDebt are what this edge has charged.
	answeredAt time.Duration
	hasAnswer  bool // whether there has been an answer
	// Amount that is neither reserved nor owed by any edge; negative if the edges exceed the limit.
	fleetFree float64
	fleetDebt float64 // charges of all edges that still count
	ownDebt   float64 // part of fleetDebt caused by this edge

	// The fields below apply while the store is lost. offlineAmount is the amount that this edge
	// may use without the store, computed at the time offlineAt. If graceCall is true, this edge
	// admits one call of any size.
	offlineAmount float64
	offlineAt     time.Duration
	graceCall     bool
	storeDebt     float64 // debt known to the store, which decreases before unreported usage does
	// Unreported usage that expired while the store was lost. The store must not count it.
	expiredUnreported float64

	// After a loss of data, other edges may have reserved or used amounts that the store does not
	// know. Until doubtEnd, this edge therefore takes at most:
	//
	//   - for slots, its share;
	//   - for a budget, doubtShare;
	//   - for a rate, doubtShare plus its share of the amount that becomes free over time.
	doubtStart       time.Duration // start of the period of doubt
	doubtEnd         time.Duration // end of the period of doubt
	doubtShare       float64
	doubtLimitsSlots bool // whether doubtShare also limits slots
}

// cellKind determines what happens to an amount after a call has used it.
type cellKind uint8

const (
	cellKindSlot   cellKind = iota // the amount becomes free when the call ends
	cellKindRate                   // the amount is charged, and the charge decreases by limit per minute
	cellKindBudget                 // the amount stays charged until the period ends
	// Used only in messages: like cellKindSlot, but calls at this edge are waiting and the edges take
	// turns.
	cellKindTurn
)

// cellReport is what a message says about one cell.
type cellReport struct {
	kind        cellKind
	limit       int64
	charged     int64
	knownCharge int64 // part of charged that the store knows or does not have to count
	ownDebt     int64 // this edge's part of the debt; for a budget, the sum reported by all edges
	minHeld     int64 // amount that the edge does not return
	wanted      int64
}

// cellGrant is what an answer says about one cell.
type cellGrant struct {
	held int64
	debt float64
	free float64
}

// An edge prefetches more than it uses, so that most calls need no message. If more than half of
// the limit is free, all edges together prefetch a tenth of the free amount. Otherwise, each edge
// prefetches a hundredth of the limit.
const (
	farPrefetchDivisor  = 10
	nearPrefetchDivisor = 100
)

func (c *limitCell) prefetchTarget(edges int) int64 {
	if c.isFarFromLimit() {
		return int64(c.fleetFree) / int64(farPrefetchDivisor*edges)
	}
	return c.limit / nearPrefetchDivisor
}

func (c *limitCell) isFarFromLimit() bool { return c.hasAnswer && c.fleetFree > float64(c.limit)/2 }

// spareKeepTime returns how long after the last call an edge keeps its spare amount. The time is
// shorter if less than half of the limit is free, because other edges may be waiting for the
// amount.
func (c *limitCell) spareKeepTime() time.Duration {
	if c.isFarFromLimit() {
		return farSpareKeepTime
	}
	return nearSpareKeepTime
}

const (
	farSpareKeepTime  = 20 * time.Second
	nearSpareKeepTime = 4 * time.Second
)

// decayDebt reduces the debt by the amount that has become free since its last call. Before the
// first answer, fleetFree is unknown.
func (c *limitCell) decayDebt(now time.Duration) {
	passed := (now - c.answeredAt).Seconds()
	if c.answeredAt = now; c.kind != cellKindRate || passed <= 0 {
		return
	}
	if paid := min(c.fleetDebt, passed*float64(c.limit)/60); paid > 0 {
		c.ownDebt -= c.ownDebt * paid / c.fleetDebt
		c.fleetDebt -= paid
		if c.hasAnswer {
			c.fleetFree += paid
		}
	}
}

// cappedNeed returns the amount that a call takes. A call that needs more than the limit takes the
// entire limit.
func (c *limitCell) cappedNeed(n int64) int64 { return min(n, c.limit) }

// reserve reserves n for a call. The amount comes from c.offlineAmount while the store is lost, and
// from c.spare otherwise.
func (c *limitCell) reserve(n int64, lost bool) {
	c.reservedAmount += n
	c.graceCall = c.graceCall && n == 0
	c.returnAmount(-n, lost)
}

func (c *limitCell) settle(held, used int64, lost bool) {
	c.reservedAmount -= held
	if c.kind == cellKindSlot || c.limit == 0 && c.kind == cellKindRate {
		used = 0
	}
	c.charged += used
	c.ownDebt += float64(used)
	c.fleetDebt += float64(used)
	c.returnAmount(held-used, lost)
}

// returnAmount makes n available again. If c.fleetFree is negative, the edges exceed the limit, and
// n first reduces the excess.
func (c *limitCell) returnAmount(n int64, lost bool) {
	c.doubtShare += float64(n)
	switch {
	case c.limit == 0:
	case lost:
		c.offlineAmount += float64(n)
	default:
		if over := min(n, int64(math.Ceil(-c.fleetFree))); over > 0 {
			n, c.fleetFree = n-over, c.fleetFree+float64(over)
		}
		c.spare += n
	}
}

// unreportedCharge returns how much of the charged amount the store must still count.
func (c *limitCell) unreportedCharge() int64 { return c.charged - c.knownCharge() }

// knownCharge returns the part of charged that the store does not have to count.
func (c *limitCell) knownCharge() int64 { return c.acked + int64(c.expiredUnreported) }

// spareNotSetAside returns the spare amount that is not reserved for waiting calls.
func (c *limitCell) spareNotSetAside() int64 { return c.spare - c.setAside }

// buildReport returns what a message says about the cell. If spare exceeds target, the message
// returns the excess to the store. Until the answer arrives, the edge uses only minHeld, because
// the store may receive the message even if the answer is lost.
func (c *limitCell) buildReport(target, wanted int64) cellReport {
	c.spare = min(c.spare, c.setAside+max(target, 0))
	least, own := c.reservedAmount+max(c.spare, 0), c.ownDebt
	if c.kind == cellKindBudget {
		own = c.debtKnownToStore()
	}
	return cellReport{
		kind: c.kind, limit: c.limit, charged: c.charged, knownCharge: c.knownCharge(), ownDebt: int64(own),
		minHeld: least, wanted: c.reservedAmount + max(c.spare+wanted, c.setAside+target, 0),
	}
}

func (c *limitCell) applyGrant(said cellReport, g cellGrant, now time.Duration) {
	if c.limit == said.limit && c.limit > 0 {
		c.spare += g.held - said.minHeld
	}
	c.expiredUnreported = max(0, c.expiredUnreported-float64(said.charged-c.acked))
	c.acked, c.answeredAt, c.hasAnswer = said.charged, now, true
	c.fleetFree, c.fleetDebt = g.free, g.debt+float64(c.charged-said.charged)
	c.ownDebt = min(c.ownDebt, c.fleetDebt)
}

// beginLossDoubt starts the period after a loss of data in which the store may not know what other
// edges have reserved. During this period, this edge may use its spare amount, and its share of the
// amount that was free at the last answer. If alone is true, this edge was working without the
// store, and may instead use the remainder of c.offlineAmount.
func (c *limitCell) beginLossDoubt(alone bool, now time.Duration, edges int) {
	part := float64(max(c.spare, 0)) + max(c.fleetFree, 0)/float64(edges)
	if alone {
		part = max(c.offlineAmount, 0)
	}
	if now < c.doubtEnd {
		part = min(part, c.doubtShare)
	}
	c.doubtShare, c.doubtStart, c.doubtEnd = part, now, now+leaseTime
}

// beginReturnDoubt starts the period after the store's return in which other edges may still have
// to report their usage. If alone is true, this edge was working without the store, and continues
// with the remainder of c.offlineAmount. Otherwise, it gets its share of the amount that is free
// according to the answer.
func (c *limitCell) beginReturnDoubt(alone bool, now time.Duration, edges int) {
	part := max(c.fleetFree+float64(c.spare), 0) / float64(edges)
	if alone {
		part = max(c.offlineAmount, 0)
	}
	c.doubtShare, c.doubtStart, c.doubtEnd, c.doubtLimitsSlots = part, now, now+storeReturnDoubtTime, false
}

// storeReturnDoubtTime is how long an edge waits, after its first answered heartbeat, for the other
// edges to reach the store again.
const storeReturnDoubtTime = 2 * heartbeatInterval

// isWithheld reports whether this edge must not take n even though the store would grant it. Other
// edges may have reserved or used that amount.
func (c *limitCell) isWithheld(n int64, now time.Duration, edges int) bool {
	switch {
	case now >= c.doubtEnd:
		return false
	case c.kind == cellKindSlot && !(c.doubtLimitsSlots && c.hasAnswer):
		return c.reservedAmount+n > int64(config.EdgeShare(int(c.limit), edges))
	case c.kind == cellKindRate:
		paid := (now - c.doubtStart).Seconds() * float64(c.limit) / 60
		return c.doubtShare+paid/float64(edges) < float64(n)
	}
	return c.doubtShare < float64(n)
}

// debtKnownToStore returns the debt known to the store at the last answer, minus the decrease since
// then.
func (c *limitCell) debtKnownToStore() float64 { return max(0, c.fleetDebt-float64(c.charged-c.acked)) }

// goOffline starts a period without the store. The edge continues with its spare amount and with
// its share of the free amount. If the last answer is not fresh, the edge may admit one call of any
// size. It also gets its share of the rate for the time since the last answer, up to a minute.
func (c *limitCell) goOffline(now time.Duration, fresh bool, silence time.Duration, edges int) {
	c.offlineAmount, c.offlineAt, c.graceCall, c.storeDebt = float64(c.spare), now, !fresh, c.debtKnownToStore()
	switch {
	case c.hasAnswer && (fresh || c.kind == cellKindBudget):
		c.offlineAmount += max(c.fleetFree, 0) / float64(edges)
	case c.kind == cellKindBudget: // this edge knows only its own usage
		c.offlineAmount = max(0, float64(c.limit)/float64(edges)-float64(c.charged+c.reservedAmount))
	}
	if c.kind == cellKindBudget && now < c.doubtEnd {
		c.offlineAmount = min(c.offlineAmount, c.doubtShare)
	}
	if c.graceCall = c.graceCall && c.kind == cellKindRate; c.graceCall {
		c.offlineAmount += min(silence.Minutes(), 1) * float64(c.limit) / float64(edges)
	}
	c.spare = 0
}

// accrueOffline adds the amount that becomes free over time while the store is lost. Each edge gets
// its share of the rate, up to its share of the limit. Usage that expires in this way must not
// expire a second time in the store, so the edge subtracts it from its next reports
// (expiredUnreported).
func (c *limitCell) accrueOffline(now time.Duration, edges int) {
	passed := (now - c.offlineAt).Seconds()
	c.offlineAt = now
	if c.kind != cellKindRate || passed <= 0 {
		return
	}
	part := float64(c.limit) / float64(edges)
	c.offlineAmount = max(c.offlineAmount, min(c.offlineAmount+passed*part/60, max(part, 1)))
	paid := passed * float64(c.limit) / 60
	first := min(c.storeDebt, paid)
	c.storeDebt -= first
	c.expiredUnreported = min(c.expiredUnreported+(paid-first)/float64(edges), float64(c.charged-c.acked))
}

func (c *limitCell) canAdmitOffline(n int64, edges int) bool {
	switch {
	case c.limit == 0 || n == 0 || c.graceCall:
		return true
	case c.kind == cellKindSlot:
		return c.reservedAmount+n <= int64(config.EdgeShare(int(c.limit), edges))
	}
	return c.offlineAmount >= min(float64(n), max(float64(c.limit)/float64(edges), 1))
}
