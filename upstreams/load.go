package upstreams

import (
	"math"
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
)

// Load is the load of one pool of one upstream at one moment, as a pick weighs it.
type Load struct {
	Active  int     // own leases, exactly; with a shared pool those of every pool
	Others  int     // work that other clients of the engine have there, by its last fresh report
	Usual   float64 // Others on average over othersTime, which is what a pick weighs
	Limit   int     // slots, less those that ghosts hold
	Tokens  int64   // estimated tokens of the own leases
	Penalty float64 // recent failures and the slow start after a return, in calls
	Share   float64 // of the weighted limit that one call takes: 1/(Limit × weight)
}

// Load returns the pool's load. It reads atomics only and does not allocate.
func (u *Upstream) Load(p Pool, now time.Time) (l Load) {
	u.ReadLoad(&l, p, At(now))
	return l
}

// ReadLoad is Load into the caller's variable. A pick asks dozens of upstreams, and copying the
// answer would be half the cost of each.
func (u *Upstream) ReadLoad(l *Load, p Pool, now Moment) {
	c, word := u.capacity.Load(), u.slots.Load()
	l.Active, l.Limit, l.Share = c.active(word, p), c.net[p], c.share[p]
	l.Others, l.Usual = 0, 0
	if r := u.report.Load(); r != nil && now <= r.until {
		l.Others, l.Usual = r.others, r.usual
	}
	l.Tokens = u.tokens[p].Load()
	if c.Shared {
		l.Tokens = u.tokens[PoolText].Load() + u.tokens[PoolVision].Load() + u.tokens[PoolAudio].Load()
	}
	l.Penalty = 0
	if d := u.penalty.Load(); d != nil {
		l.Penalty = d.at(now)
	}
	if at := u.returned.Load(); at != 0 {
		l.Penalty += slowStart(int64(now)-at, l.Limit)
	}
}

// Limits are an upstream's slots and where the number comes from.
type Limits struct {
	Shared bool   `json:"shared"` // every pool draws from one; the three numbers are that one
	Text   int    `json:"text"`
	Vision int    `json:"vision"`
	Audio  int    `json:"audio"`
	Source string `json:"source"` // config, engine, profile or default
}

// LimitFromConfig is the source of limits that the file sets. The others are engine.SlotsReported
// and its neighbours.
const LimitFromConfig = "config"

// Limits returns the configured or learned slots, before ghosts are taken off.
func (u *Upstream) Limits() Limits { return u.capacity.Load().Limits }

// Of returns the limit of a pool.
func (l *Limits) Of(p Pool) int { return [...]int{l.Text, l.Vision, l.Audio}[p] }

// active is the count that the pool's limit bounds.
func (l *Limits) active(word uint64, p Pool) int {
	if l.Shared {
		return inAll(word)
	}
	return inPool(word, p)
}

// capacity is the limits as a pick and a lease read them. It is immutable: another one replaces it.
type capacity struct {
	Limits
	net   [poolCount]int     // less what ghosts hold
	share [poolCount]float64 // see Load.Share
}

// newCapacity takes the ghosts off, but leaves at least one slot: an engine with nothing but ghosts
// is still asked. Only a shared pool is derated: with several, the pool that a ghost is in is not
// known.
func newCapacity(l Limits, ghosts int, weight float64) *capacity {
	c := &capacity{Limits: l}
	for p := range poolCount {
		n := l.Of(p)
		if ghosts > 0 && l.Shared && n > 0 {
			n = max(1, n-ghosts)
		}
		c.net[p], c.share[p] = n, 1/(float64(max(1, n))*weight)
	}
	return c
}

// limitsOf decides the slots by the first that has a number: the file, the engine, the profile, the
// default. A map in the file makes separate pools, and a pool that it leaves out has no slots.
func limitsOf(c config.Concurrency, reported int, p *engine.Profile) Limits {
	switch {
	case c.Shared > 0:
		return sharedLimits(c.Shared, LimitFromConfig)
	case c.Set():
		return Limits{Text: min(c.Text, slotMax), Vision: min(c.Vision, slotMax), Audio: min(c.Audio, slotMax), Source: LimitFromConfig}
	}
	return sharedLimits(p.Slots(reported))
}

func sharedLimits(n int, source string) Limits {
	n = min(n, slotMax)
	return Limits{Shared: true, Text: n, Vision: n, Audio: n, Source: source}
}

// renewCapacity recomputes the slots after a change of what they depend on. The caller holds mu.
func (u *Upstream) renewCapacity() {
	st := u.settings.Load()
	c := newCapacity(limitsOf(st.spec.Concurrency, u.reportedSlots, u.engine.Load()), int(u.ghostSlots.Load()), st.weight)
	if old := u.capacity.Swap(c); old != nil && c.roomier(old) {
		u.set.o.OnRoom(u)
	}
}

// roomier reports whether c may have a free slot that before had not. Each pool may, where pools
// have ceased to share.
func (c *capacity) roomier(before *capacity) bool {
	return before.Shared && !c.Shared || c.net[PoolText] > before.net[PoolText] || c.net[PoolVision] > before.net[PoolVision] || c.net[PoolAudio] > before.net[PoolAudio]
}

// setReportedSlots stores how many requests the engine reports to run at once; 0: it does not
// report.
func (u *Upstream) setReportedSlots(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n != u.reportedSlots {
		u.reportedSlots = n
		u.renewCapacity()
	}
}

// Report is what an engine said about its work.
type Report struct {
	engine.Load
	OwnAtScrape int       `json:"own_at_scrape"`
	At          time.Time `json:"at"`
	Source      string    `json:"source"` // the page's path

	until  Moment  // when it ages out
	others int     // the unexplained work less that of ghosts
	usual  float64 // others on average
}

// othersTime is the time constant of the average of others' work. Reports are seconds old, and
// other edges read the same ones: if each edge used the newest alone, all would fill the engine
// that looked empty until the next report. An average moves slower, and still shows work that
// stays.
const othersTime = 15 * time.Second

// average sets usual, going on from the report before, which may be nil.
func (r *Report) average(before *Report) {
	r.usual = float64(r.others)
	if before == nil || !before.fresh(r.At) {
		return
	}
	if d := r.At.Sub(before.At); d >= 0 {
		r.usual += (before.usual - r.usual) * math.Exp(-float64(d)/float64(othersTime))
	}
}

// freshIntervals is how many probe intervals a report counts for.
const freshIntervals = 3

// Report returns the newest report, and false when there is none or it has aged out.
func (u *Upstream) Report(now time.Time) (Report, bool) {
	r := u.report.Load()
	if r == nil || !r.fresh(now) {
		return Report{}, false
	}
	return *r, true
}

func (r *Report) fresh(now time.Time) bool { return At(now) <= r.until }

// unexplained is the engine's work that own leases do not explain.
func (r *Report) unexplained() int { return max(0, r.Running+r.Waiting-r.OwnAtScrape) }

func (u *Upstream) others(now time.Time) int {
	r := u.report.Load()
	if r == nil || !r.fresh(now) {
		return 0
	}
	return r.others
}

// decaying is a quantity that halves every halfLife.
type decaying struct {
	value float64
	since Moment
}

// halfLife is the penalty's: a failure weighs like a call that runs for some seconds, so that an
// upstream that fails fast does not look idle.
const halfLife = 5 * time.Second

// penaltyMax bounds the penalty in calls, so that after an outage under load a good upstream is not
// shunned for a minute.
const penaltyMax = 64

// After decayed any penalty is below 0.002 calls and counts as none.
const decayed = Moment(15 * halfLife)

func (d *decaying) at(now Moment) float64 {
	if d == nil || now-d.since > decayed {
		return 0
	}
	return d.value * math.Exp2(-float64(max(0, now-d.since))/float64(halfLife))
}

// charge counts one failure or refusal as load.
func (u *Upstream) charge(now Moment) {
	for {
		old := u.penalty.Load()
		if u.penalty.CompareAndSwap(old, &decaying{min(penaltyMax, old.at(now)+1), now}) {
			return
		}
	}
}

// After its return from down an upstream looks a quarter full, and less so over slowStartTime: its
// share of calls grows instead of arriving at once. That is a score and no limit: the only upstream
// of a route is used in full.
const (
	slowStartTime  = 3 * time.Second
	slowStartShare = 0.25
)

func slowStart(since int64, limit int) float64 {
	left := 1 - float64(since)/float64(slowStartTime)
	return min(1, max(0, left)) * slowStartShare * float64(limit)
}

// setReport stores a report and renews what depends on it. r is nil when the engine reported
// nothing.
func (u *Upstream) setReport(r *Report, batch int, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r == nil {
		u.ghosts.abandonedNow += batch
		if old := u.report.Load(); old == nil || !old.fresh(now) {
			u.abandoned[fateUnknown].Add(u.ghosts.abandonedNow + u.ghosts.unconfirmed)
			u.ghosts = ghostTracker{}
			u.setGhosts(0)
		}
		return
	}
	freed, held := u.ghosts.judgeReport(batch, r.unexplained(), now)
	u.abandoned[fateFreed].Add(freed)
	u.abandoned[fateHeld].Add(held)
	r.until = At(r.At.Add(freshIntervals * u.settings.Load().probe.interval))
	r.others = max(0, r.unexplained()-u.ghosts.confirmed)
	r.average(u.report.Load())
	u.report.Store(r)
	u.setGhosts(u.ghosts.confirmed)
}

func (u *Upstream) inFlight() int { return inAll(u.slots.Load()) }
