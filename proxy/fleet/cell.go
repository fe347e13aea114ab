package fleet

import (
	"math"
	"time"

	"penstock/config"
)

// These are the indexes of an account's cells. Each limit of a key has a cell.
const (
	requests = iota
	tokens
	slots
	cells
)

type needs [cells]int64

// cell is this edge's view of one limit of a key, in the units of that limit. The store grants
// amounts in advance, and learns from a later message how much of them was used.
type cell struct {
	kind  kind
	limit int64 // limit for the entire fleet; 0 if there is none

	// Granted amount that no call has reserved; negative if a call used more than its estimate.
	spare   int64
	awaited int64 // part of spare that is set aside for calls that have waited for the last answer
	running int64
	charged int64 // amount charged since the process started
	acked   int64 // part of charged that was reported in the last answered message
	refunds int64 // number of requests given back; as many later requests are free

	// The fields below come from the last answer. The edge updates them as debts decrease over
	// time. Before the first answer, debt and own are what this edge has charged.
	at   time.Duration
	seen bool // whether there has been an answer
	// Amount that is neither reserved nor owed by any edge; negative if the edges exceed the limit.
	free float64
	debt float64 // charges of all edges that still count
	own  float64 // part of debt caused by this edge

	// The fields below apply while the store is lost. alone is the amount that this edge may use
	// without the store, as computed at the time aloneAt. If grace is true, this edge admits one
	// call of any size.
	alone   float64
	aloneAt time.Duration
	grace   bool
	owed    float64 // debt known to the store, which decreases first
	// Unreported usage that has expired while the store was lost, so the store does not have to
	// count it.
	forgone float64

	// After a loss of data, other edges may have reserved or used amounts that the store does not
	// know. Until the time doubtful, this edge therefore takes at most:
	//
	//   - for slots, its share;
	//   - for a budget, the amount in part;
	//   - for a rate, the amount in part and its share of the amount that becomes free over time.
	doubted  time.Duration // start of this period
	doubtful time.Duration // end of this period
	part     float64
	parted   bool // whether part also limits slots
}

// kind determines what happens to an amount after a call has used it.
type kind uint8

const (
	slot   kind = iota // the amount becomes free when the call ends
	paid               // the amount is charged, and the charge decreases by limit per minute
	budget             // the amount stays charged until the period ends
	// Used only in messages, if calls at this edge wait for a slot and edges take turns.
	turn
)

// part is what a message says about one cell.
type part struct {
	kind    kind
	limit   int64
	charged int64
	base    int64 // part of charged that the store knows or does not have to count
	own     int64 // this edge's part of the debt; for a budget, the sum reported by all edges
	least   int64 // amount that the edge does not return
	want    int64
}

// grant is what an answer says about one cell.
type grant struct {
	held int64
	debt float64
	free float64
}

// An edge prefetches more than it uses, so that most calls need no message. If more than half of
// the limit is free, all edges together prefetch a tenth of the free amount. Otherwise, each edge
// prefetches a hundredth of the limit.
const (
	farPart  = 10
	nearPart = 100
)

func (c *cell) target(edges int) int64 {
	if c.far() {
		return int64(c.free) / int64(farPart*edges)
	}
	return c.limit / nearPart
}

func (c *cell) far() bool { return c.seen && c.free > float64(c.limit)/2 }

// keep returns how long after the last call an edge keeps its spare amount. The time is shorter if
// less than half of the limit is free, because other edges may be waiting for the amount.
func (c *cell) keep() time.Duration {
	if c.far() {
		return keepFar
	}
	return keepNear
}

const (
	keepFar  = 20 * time.Second
	keepNear = 4 * time.Second
)

// catchUp reduces the debt by what has become free since the last call. Before the first answer,
// free is unknown.
func (c *cell) catchUp(now time.Duration) {
	passed := (now - c.at).Seconds()
	if c.at = now; c.kind != paid || passed <= 0 {
		return
	}
	if paid := min(c.debt, passed*float64(c.limit)/60); paid > 0 {
		c.own -= c.own * paid / c.debt
		c.debt -= paid
		if c.seen {
			c.free += paid
		}
	}
}

// need returns the amount that a call takes. A call that needs more than the limit takes the entire
// limit.
func (c *cell) need(n int64) int64 { return min(n, c.limit) }

// take reserves n for a call. The amount comes from c.alone while the store is lost, and from
// c.spare otherwise.
func (c *cell) take(n int64, lost bool) {
	c.running += n
	c.grace = c.grace && n == 0
	c.back(-n, lost)
}

func (c *cell) settle(held, used int64, lost bool) {
	c.running -= held
	if c.kind == slot || c.limit == 0 && c.kind == paid {
		used = 0
	}
	c.charged += used
	c.own += float64(used)
	c.debt += float64(used)
	c.back(held-used, lost)
}

// back makes n available again. If free is negative, the edges exceed the limit, and n first
// reduces the excess.
func (c *cell) back(n int64, lost bool) {
	c.part += float64(n)
	switch {
	case c.limit == 0:
	case lost:
		c.alone += float64(n)
	default:
		if over := min(n, int64(math.Ceil(-c.free))); over > 0 {
			n, c.free = n-over, c.free+float64(over)
		}
		c.spare += n
	}
}

// unacked returns how much of the charged amount the store must still count.
func (c *cell) unacked() int64 { return c.charged - c.base() }

// base returns the part of charged that the store does not have to count.
func (c *cell) base() int64 { return c.acked + int64(c.forgone) }

// unclaimed returns the spare amount that is not reserved for waiting calls.
func (c *cell) unclaimed() int64 { return c.spare - c.awaited }

// report returns what a message says about the cell. If spare exceeds target, it returns the
// excess. Until the answer arrives, the edge uses only the amount in least, because the store may
// receive the message even if the answer is lost.
func (c *cell) report(target, wanted int64) part {
	c.spare = min(c.spare, c.awaited+max(target, 0))
	least, own := c.running+max(c.spare, 0), c.own
	if c.kind == budget {
		own = c.known()
	}
	return part{
		kind: c.kind, limit: c.limit, charged: c.charged, base: c.base(), own: int64(own),
		least: least, want: c.running + max(c.spare+wanted, c.awaited+target, 0),
	}
}

func (c *cell) granted(said part, g grant, now time.Duration) {
	if c.limit == said.limit && c.limit > 0 {
		c.spare += g.held - said.least
	}
	c.forgone = max(0, c.forgone-float64(said.charged-c.acked))
	c.acked, c.at, c.seen = said.charged, now, true
	c.free, c.debt = g.free, g.debt+float64(c.charged-said.charged)
	c.own = min(c.own, c.debt)
}

// doubt starts the period after a loss of data in which the store may not know what other edges
// have reserved. During this period, this edge may use its spare amount, and its share of the
// amount that was free at the last answer. If it was working without the store, it may instead use
// what remains of c.alone.
func (c *cell) doubt(alone bool, now time.Duration, edges int) {
	part := float64(max(c.spare, 0)) + max(c.free, 0)/float64(edges)
	if alone {
		part = max(c.alone, 0)
	}
	if now < c.doubtful {
		part = min(part, c.part)
	}
	c.part, c.doubted, c.doubtful = part, now, now+lease
}

// doubtReturn starts the period after the store's return in which other edges may still have to
// report their usage. If alone is true, this edge was working without the store, and continues with
// the remainder of its share. Otherwise, it gets its share of the amount that is free according to
// the answer.
func (c *cell) doubtReturn(alone bool, now time.Duration, edges int) {
	part := max(c.free+float64(c.spare), 0) / float64(edges)
	if alone {
		part = max(c.alone, 0)
	}
	c.part, c.doubted, c.doubtful, c.parted = part, now, now+untilAllTold, false
}

// untilAllTold is how long an edge waits for the other edges to reach the store again, after its
// first answered heartbeat.
const untilAllTold = 2 * heartbeat

// withheld reports whether this edge must not take n even though the store would grant it, because
// other edges may have reserved or used it.
func (c *cell) withheld(n int64, now time.Duration, edges int) bool {
	switch {
	case now >= c.doubtful:
		return false
	case c.kind == slot && !(c.parted && c.seen):
		return c.running+n > int64(config.ShareOf(int(c.limit), edges))
	case c.kind == paid:
		paid := (now - c.doubted).Seconds() * float64(c.limit) / 60
		return c.part+paid/float64(edges) < float64(n)
	}
	return c.part < float64(n)
}

// known returns the debt known to the store at the last answer, minus the decrease since then.
func (c *cell) known() float64 { return max(0, c.debt-float64(c.charged-c.acked)) }

// leave starts a period without the store. The edge continues with its spare amount and with its
// share of the free amount. If the last answer is not fresh, the edge may admit one call of any
// size. It also gets its share of the rate for the time since the last answer, up to a minute.
func (c *cell) leave(now time.Duration, fresh bool, silence time.Duration, edges int) {
	c.alone, c.aloneAt, c.grace, c.owed = float64(c.spare), now, !fresh, c.known()
	switch {
	case c.seen && (fresh || c.kind == budget):
		c.alone += max(c.free, 0) / float64(edges)
	case c.kind == budget: // this edge knows only its own usage
		c.alone = max(0, float64(c.limit)/float64(edges)-float64(c.charged+c.running))
	}
	if c.kind == budget && now < c.doubtful {
		c.alone = min(c.alone, c.part)
	}
	if c.grace = c.grace && c.kind == paid; c.grace {
		c.alone += min(silence.Minutes(), 1) * float64(c.limit) / float64(edges)
	}
	c.spare = 0
}

// earn adds the amount that becomes free over time while the store is lost. Each edge gets its
// share of the rate, up to its share of the limit. In its next reports, the edge subtracts this
// amount from its usage (forgone), because otherwise the same amount would expire a second time in
// the store.
func (c *cell) earn(now time.Duration, edges int) {
	passed := (now - c.aloneAt).Seconds()
	c.aloneAt = now
	if c.kind != paid || passed <= 0 {
		return
	}
	part := float64(c.limit) / float64(edges)
	c.alone = max(c.alone, min(c.alone+passed*part/60, max(part, 1)))
	paid := passed * float64(c.limit) / 60
	first := min(c.owed, paid)
	c.owed -= first
	c.forgone = min(c.forgone+(paid-first)/float64(edges), float64(c.charged-c.acked))
}

func (c *cell) has(n int64, edges int) bool {
	switch {
	case c.limit == 0 || n == 0 || c.grace:
		return true
	case c.kind == slot:
		return c.running+n <= int64(config.ShareOf(int(c.limit), edges))
	}
	return c.alone >= min(float64(n), max(float64(c.limit)/float64(edges), 1))
}
