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

// cell is this edge's view of one limit of a key, in units of the limit. The store grants what may
// be used, and learns the use later, from the message that asks for more.
type cell struct {
	kind  kind
	limit int64 // of the whole fleet; 0: no limit

	spare   int64 // granted and unused; negative after a call used more than its estimate
	awaited int64 // part of spare: reserved for calls that have not yet taken or left it
	running int64 // held by running calls
	charged int64 // used for good since the edge began
	acked   int64 // part of charged: reported in the last answered message
	refunds int64 // part of charged: given back, so that as many calls charge nothing

	// The following are as of the last answer, minus what time has paid since.
	at   time.Duration
	seen bool    // an answer has arrived
	free float64 // neither held nor owed by any edge
	debt float64 // of all edges
	own  float64 // part of debt: charged by this edge

	// The following apply while the store is lost: what this edge may use on its own, as of aloneAt,
	// and whether it admits one call regardless of the call's need.
	alone   float64
	aloneAt time.Duration
	grace   bool
	owed    float64 // the debt that the store knows, which time pays first
	forgone float64 // unreported use that time has paid, so that the store need not count it

	// Other edges may hold or have used something that the store does not know. Until the doubt ends,
	// this edge takes at most its part of the slots. It takes at most the amount in part of a budget,
	// and at most that amount plus its own part of what time pays of a rate.
	doubted  time.Duration // when the doubt began
	doubtful time.Duration // when the doubt ends
	part     float64
	parted   bool // part also bounds the slots
}

// kind says what happens to the used amount of a cell.
type kind uint8

const (
	slot   kind = iota // the amount is free again when the call ends
	paid               // the amount is charged, and time pays it at a rate of limit a minute
	budget             // the amount is charged until the period ends
	turn               // in a message: a slot for which calls of this edge wait, and edges take turns
)

// part is what a message says about one cell.
type part struct {
	kind    kind
	limit   int64 // 0: no limit
	charged int64 // since the edge started
	base    int64 // part of charged that the store certainly knows or need not count
	own     int64 // this edge's unpaid charges in the debt; for a budget: what all edges have reported
	least   int64 // the amount that cannot be taken away
	want    int64
}

// grant is what an answer says about one cell.
type grant struct {
	held int64
	debt float64
	free float64 // neither held nor owed by any edge
}

// An edge prefetches: it holds a little more than it uses, so that most calls need no message. Far
// from the limit, all edges together hold a tenth of what is free. Near the limit, each edge holds
// a hundredth of the limit.
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

// far reports whether much of the limit is free.
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

// catchUp applies what time has paid since the cell's last update.
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

// need returns what a call takes. A call that needs more than the limit takes all of the limit.
func (c *cell) need(n int64) int64 { return min(n, c.limit) }

// take makes a call hold n. The amount comes from the field spare or, without the store, from the
// field alone.
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

// back makes n usable again, except for what all edges together hold beyond the limit.
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

// report returns what a message says about the cell, and gives back the unclaimed amount above
// target. Until the answer arrives, only the remaining amount can be used, because the message may
// have reached the store even if no answer comes.
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

// doubt begins the period after a loss of data in which the store may not know what other edges
// hold. This edge keeps what it held and its part of what was free at the last answer. If the edge
// has continued alone since then, it keeps what remains of that part.
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

// doubtReturn begins a period in which other edges have yet to report what they used without the
// store. If alone is true, this edge has also used its own part, and continues with the rest of
// that part. Otherwise the edge gets its part of what is free according to the answer.
func (c *cell) doubtReturn(alone bool, now time.Duration, edges int) {
	part := max(c.free+float64(c.spare), 0) / float64(edges)
	if alone {
		part = max(c.alone, 0)
	}
	c.part, c.doubted, c.doubtful, c.parted = part, now, now+untilAllTold, false
}

// untilAllTold is how long, after its own heartbeat, an edge waits for the other edges to find the
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

// known returns the debt that the store knew at the last answer, minus what time has paid.
func (c *cell) known() float64 { return max(0, c.debt-float64(c.charged-c.acked)) }

// leave begins a period without the store. The edge continues with what it holds and its part of
// what was free. If the last answer is not fresh, the edge admits one call, and begins with its
// part of what time has paid since the store fell silent (its complete part after a minute).
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

// earn applies what time pays while the store is lost: each edge gets its part of the rate, up to
// its part of the limit. The store must not count use that time has paid here, because otherwise
// the time without the store would pay twice.
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
