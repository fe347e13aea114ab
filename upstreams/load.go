package upstreams

import (
	"math"
	"sync/atomic"
	"time"
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

// ReadLoad sets l to a pool's load. It reads atomics only and does not allocate. It writes into the
// caller's variable, because a pick asks dozens of upstreams and copying the answer would be half
// the cost of each.
func (u *Upstream) ReadLoad(l *Load, p Pool, now Moment) {
	c, word := u.slots.limits.Load(), u.slots.inUse.Load()
	l.Active, l.Limit, l.Share = c.active(word, p), c.net[p], c.share[p]
	l.Tokens = u.slots.tokens[p].Load()
	if c.Shared {
		l.Tokens = u.slots.tokens[PoolText].Load() + u.slots.tokens[PoolVision].Load() + u.slots.tokens[PoolAudio].Load()
	}
	l.Others, l.Usual = u.reports.others(now)
	l.Penalty = u.penalty.at(now)
	if at := u.Health.returned.Load(); at != 0 {
		l.Penalty += slowStart(int64(now)-at, l.Limit)
	}
}

// penalty counts failures and refusals as load, so that an upstream which fails fast does not look
// idle. The zero value is none.
type penalty struct{ newest atomic.Pointer[decaying] }

// decaying is a quantity that halves every halfLife.
type decaying struct {
	value float64
	since Moment
}

// halfLife makes a failure weigh like a call that runs for some seconds.
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

func (p *penalty) at(now Moment) float64 {
	if d := p.newest.Load(); d != nil {
		return d.at(now)
	}
	return 0
}

// charge counts one failure or refusal.
func (p *penalty) charge(now Moment) {
	for {
		old := p.newest.Load()
		if p.newest.CompareAndSwap(old, &decaying{min(penaltyMax, old.at(now)+1), now}) {
			return
		}
	}
}

func (p *penalty) clear() { p.newest.Store(nil) }

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
