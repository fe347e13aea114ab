package fleet

import (
	"math"
	"time"

	"penstock/config"
)

// The cells of an account, one for each limit of a key.
const (
	requests = iota
	tokens
	slots
	cells
)

// needs is how much a call takes from each cell.
type needs [cells]int64

// cell is this edge's view of one limit of a key, in units of the limit. The store grants amounts
// in advance. It learns about their use later, from the message that asks for more.
type cell struct {
	kind  kind
	limit int64 // the limit of the whole fleet; 0: no limit

	spare   int64 // granted and unused amount; negative after a call used more than its estimate
	awaited int64 // share of spare that is reserved for calls that have not yet taken or left it
	running int64 // amount that running calls hold
	charged int64 // amount used permanently since the edge started
	acked   int64 // share of charged that was reported in the last answered message
	refunds int64 // share of charged that was given back, so that as many calls charge nothing

	// The fields below have the values of the last answer, minus the amount paid off over time
	// since then.
	at   time.Duration
	seen bool    // an answer has been received
	free float64 // amount that no edge holds or owes
	debt float64 // debt of all edges
	own  float64 // share of debt that this edge has charged

	// The fields below apply while the store is lost. alone is the amount that this edge may use by
	// itself, computed at aloneAt. grace is true if the edge admits one call regardless of the
	// call's need.
	alone   float64
	aloneAt time.Duration
	grace   bool
	owed    float64 // the debt that the store knows, which is paid off first
	forgone float64 // unreported use that has been paid off, so that the store need not count it

	// Other edges may hold or have used amounts that the store does not know. Until this doubt
	// ends, this edge takes at most its share of the slots. Of a budget it takes at most part. Of a
	// rate it takes at most part plus its own share of the amount that is paid off over time.
	doubted  time.Duration // when the doubt started
	doubtful time.Duration // when the doubt ends
	part     float64
	parted   bool // part also limits the slots
}

// kind determines what happens to the used amount of a cell.
type kind uint8

const (
	slot   kind = iota // the amount is free again when the call ends
	paid               // the amount is charged, and paid off over time at a rate of limit a minute
	budget             // the amount is charged until the period ends
	turn               // in a message: a slot that calls of this edge wait for; edges take turns
)

// part is what a message reports about one cell.
type part struct {
	kind    kind
	limit   int64 // 0: no limit
	charged int64 // since the edge started
	base    int64 // part of charged that the store certainly knows or need not count
	own     int64 // this edge's unpaid charges in the debt; for a budget: what all edges have reported
	least   int64 // the amount that cannot be taken away
	want    int64
}

// grant is what an answer reports about one cell.
type grant struct {
	held int64
	debt float64
	free float64 // amount that no edge holds or owes
}

// An edge prefetches: it holds a little more than it uses, so that most calls need no message. Far
// from the limit, all edges together prefetch a tenth of the free amount. Near the limit, each edge
// prefetches a hundredth of the limit.
const (
	farPart  = 10
	nearPart = 100
)

// target returns the spare amount that an active edge aims to hold.
func (c *cell) target(edges int) int64 {
	if c.far() {
		return int64(c.free) / int64(farPart*edges)
	}
	return c.limit / nearPart
}

// far reports whether more than half of the limit is free.
func (c *cell) far() bool { return c.seen && c.free > float64(c.limit)/2 }

// keep returns how long after the last call an edge keeps its unused amount. Near the limit, other
// edges may be waiting for that amount.
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

// catchUp subtracts the amount that has been paid off since the cell's last update.
func (c *cell) catchUp(now time.Duration) {
	passed := (now - c.at).Seconds()
	if c.at = now; c.kind != paid || passed <= 0 || !c.seen {
		return
	}
	if paid := min(c.debt, passed*float64(c.limit)/60); paid > 0 {
		c.own -= c.own * paid / c.debt
		c.debt, c.free = c.debt-paid, c.free+paid
	}
}

// need returns the amount that a call takes. A call that needs more than the limit takes all of the
// limit.
func (c *cell) need(n int64) int64 { return min(n, c.limit) }

// take makes a call hold n. The amount is taken from spare or, without the store, from alone.
func (c *cell) take(n int64, lost bool) {
	c.running += n
	c.grace = c.grace && n == 0
	c.back(-n, lost)
}

// settle ends a call's hold and charges its use.
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

// back makes n usable again, except for the amount that all edges together hold beyond the limit.
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

// base returns how much of the charged amount the store need not count.
func (c *cell) base() int64 { return c.acked + int64(c.forgone) }

// unclaimed returns the spare amount that is not reserved for waiting calls.
func (c *cell) unclaimed() int64 { return c.spare - c.awaited }

// report returns the cell's part of a message, and gives back the unclaimed amount above target.
// Until the answer is received, only the remaining amount can be used, because the message may
// reach the store even if its answer is lost.
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

// granted applies the answer to a message.
func (c *cell) granted(said part, g grant, now time.Duration) {
	if c.limit == said.limit && c.limit > 0 {
		c.spare += g.held - said.least
	}
	c.forgone = max(0, c.forgone-float64(said.charged-c.acked))
	c.acked, c.at, c.seen = said.charged, now, true
	c.free, c.debt = g.free, g.debt+float64(c.charged-said.charged)
	c.own = min(c.own, c.debt)
}

// doubt starts the period after a loss of data in which the store may not know the amounts that
// other edges hold. This edge keeps the amount that it held and its share of the amount that was
// free at the last answer. If the edge has continued alone since then, it keeps the remaining
// amount of that share.
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

// doubtReturn starts a period in which other edges still have to report their use without the
// store. If alone is true, this edge has also used its own share without the store, and continues
// with the remaining amount of that share. Otherwise it gets its share of the amount that is free
// according to the answer.
func (c *cell) doubtReturn(alone bool, now time.Duration, edges int) {
	part := max(c.free+float64(c.spare), 0) / float64(edges)
	if alone {
		part = max(c.alone, 0)
	}
	c.part, c.doubted, c.doubtful, c.parted = part, now, now+untilAllTold, false
}

// untilAllTold is how long, after its own heartbeat, an edge waits for the other edges to reach the
// store again.
const untilAllTold = 2 * heartbeat

// withheld reports whether other edges may hold n although the store grants it.
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

// known returns the debt that the store knew at the last answer, minus the amount paid off since.
func (c *cell) known() float64 { return max(0, c.debt-float64(c.charged-c.acked)) }

// leave starts a period without the store. The edge continues with the amount that it holds and its
// share of the free amount. If the last answer is not fresh, the edge admits one call. It starts
// with its share of the amount that has been paid off since the store stopped answering, which is
// its complete share after a minute.
func (c *cell) leave(now time.Duration, fresh bool, silence time.Duration, edges int) {
	c.alone, c.aloneAt, c.grace, c.owed = float64(c.spare), now, !fresh, c.known()
	switch {
	case c.seen && (fresh || c.kind == budget):
		c.alone += max(c.free, 0) / float64(edges)
	case c.kind == budget: // this edge knows only its own use
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

// earn adds the amount that is paid off while the store is lost: each edge gets its share of the
// rate, up to its share of the limit. The store must not count use that has been paid off here,
// because otherwise the time without the store would pay it off twice.
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

// has reports whether n can be taken while the store is lost.
func (c *cell) has(n int64, edges int) bool {
	switch {
	case c.limit == 0 || n == 0 || c.grace:
		return true
	case c.kind == slot:
		return c.running+n <= int64(config.ShareOf(int(c.limit), edges))
	}
	return c.alone >= min(float64(n), max(float64(c.limit)/float64(edges), 1))
}
