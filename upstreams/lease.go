package upstreams

import (
	"sync/atomic"
	"time"

	"penstock/upstreams/http1"
)

// slotUnit is one in-flight call of a pool inside Upstream.slots: three counters of 21 bits in one
// word, so that one compare-and-swap decides over a shared limit as well as over a separate one,
// and a reload may turn one into the other while calls run.
func slotUnit(p Pool) uint64 { return 1 << (slotBits * uint(p)) }

const (
	slotBits = 21
	slotMax  = 1<<slotBits - 1
)

func inPool(word uint64, p Pool) int { return int(word >> (slotBits * uint(p)) & slotMax) }

func inAll(word uint64) int {
	return inPool(word, PoolText) + inPool(word, PoolVision) + inPool(word, PoolAudio)
}

// Lease is one held slot of one upstream, and the only way to reach it. Its holder sends with
// Exchange and gives it back with Release exactly once. Leases are not pooled: a recycled one would
// turn a second Release, which is harmless and counted, into the theft of another call's slot.
type Lease struct {
	_         noCopy
	held      atomic.Bool
	trial     atomic.Bool    // decides a half-open breaker; false again once it has
	failedFor *FailureSource // of a call that failed
	pool      Pool
	up        *Upstream
	slots     *atomic.Uint64 // pointers to the counters: a retired upstream's are decremented too
	tokens    *atomic.Int64
	weight    int64
	exchange  http1.Exchange // here and not behind a pointer, so that a call allocates once
}

// noCopy makes go vet refuse copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// TryLease takes a slot of the pool if there is one and the upstream may be used now. tokens, the
// call's estimate, is added to the upstream's load while the lease is held. There is no check
// before the act: the limit and the single half-open trial are decided by compare-and-swap, so the
// in-flight count never exceeds the limit. It is TryLeaseFor without a key.
func (u *Upstream) TryLease(p Pool, tokens int, now time.Time) (*Lease, bool) {
	return u.TryLeaseFor("", p, tokens, now)
}

// TryLeaseFor is TryLease for a call of the key with that id. The calls of a key whose failures
// opened the breaker are not taken as its trial.
func (u *Upstream) TryLeaseFor(key string, p Pool, tokens int, now time.Time) (*Lease, bool) {
	if s := u.State(); s != StateUp && s != StatePending {
		return nil, false
	}
	if u.Mode() != ModeReady {
		return nil, false
	}
	trial := false
	if until := u.openUntil.Load(); until != breakerClosed {
		if ticks(now) < until || u.Bars(key) || !u.trial.CompareAndSwap(false, true) {
			return nil, false
		}
		trial = true
	}
	if !u.takeSlot(p) {
		if trial {
			u.trial.Store(false)
			u.set.o.OnRoom(u) // who looked meanwhile, for a pool that is not full, was kept out
		}
		return nil, false
	}
	if u.retiring.Load() { // retired in between: Retire may have seen the slot, so give it back as a release would
		u.giveBack(p, trial)
		return nil, false
	}
	l := &Lease{up: u, pool: p, slots: &u.slots, tokens: &u.tokens[p], weight: int64(max(0, tokens))}
	l.held.Store(true)
	l.trial.Store(trial)
	l.tokens.Add(l.weight)
	return l, true
}

func (u *Upstream) takeSlot(p Pool) bool {
	c := u.capacity.Load()
	unit := slotUnit(p)
	for {
		word := u.slots.Load()
		if c.active(word, p) >= c.net[p] || inPool(word, p) == slotMax {
			return false
		}
		if u.slots.CompareAndSwap(word, word+unit) {
			return true
		}
	}
}

func (u *Upstream) giveBack(p Pool, trial bool) {
	if trial {
		u.trial.Store(false)
	}
	u.slots.Add(-slotUnit(p))
	u.leaveIfIdle()
}

// Upstream returns where the lease is held.
func (l *Lease) Upstream() *Upstream { return l.up }

// Exchange returns the lease's one exchange with the upstream. Nothing has been sent; it can be
// aborted from any goroutine, and its Close belongs to the caller. The connection is made with the
// settings of this moment. It may be called once.
func (l *Lease) Exchange() *http1.Exchange {
	if !l.held.Load() {
		bug("exchange of a lease that was released")
	}
	l.exchange.Begin(l.up.transport.Load(), &l.up.answers)
	return &l.exchange
}

// Again returns another exchange, for a holder that has closed the last one and asks the same
// upstream once more without giving up its place.
func (l *Lease) Again() *http1.Exchange {
	if !l.held.Load() {
		bug("exchange of a lease that was released")
	}
	x := &http1.Exchange{}
	x.Begin(l.up.transport.Load(), &l.up.answers)
	return x
}

// longTrial is how long after its first token a trial passes although it has not ended.
const longTrial = 3 * time.Second

// FirstToken books the time from sending to the first content. A trial is to end well, but one that
// runs longer than longTrial from here on passes, so that a long stream does not keep everyone else
// out.
func (l *Lease) FirstToken(d time.Duration) {
	l.up.ttft.learn(d.Seconds(), 0, 0.1)
	if l.trial.Load() {
		time.AfterFunc(longTrial, l.passLongTrial)
	}
}

// passLongTrial closes the breaker in the middle of a call that is its trial still.
func (l *Lease) passLongTrial() {
	defer l.up.set.o.Guard.Catch(guardRoom, nil)
	if l.trial.CompareAndSwap(true, false) {
		l.up.passTrial(time.Now())
	}
}

// FailedFor says whose call is about to be released with a failure. Without it the failure counts
// as one of a call without a key.
func (l *Lease) FailedFor(f FailureSource) { l.failedFor = &f }

// Release gives the slot back, counts the outcome and wakes calls that wait for room. It must be
// called exactly once, from any goroutine, when the upstream's reply has ended. A second call
// changes nothing but a counter, and panics under `-tags testing`.
func (l *Lease) Release(o Outcome) { l.ReleaseAt(o, time.Now()) }

// ReleaseAt is Release for a caller that has read the clock already.
func (l *Lease) ReleaseAt(o Outcome, now time.Time) {
	if !l.held.CompareAndSwap(true, false) {
		l.up.set.doubleReleases.Inc()
		bug("lease released twice")
		return
	}
	l.tokens.Add(-l.weight)
	var by FailureSource
	if l.failedFor != nil {
		by = *l.failedFor
	}
	passedOn := false
	defer func() { // whatever the booking comes to
		if !passedOn {
			l.freeSlot()
		}
	}()
	passedOn = l.up.observe(o, by, l.trial.Swap(false), now) && l.up.probeGeneration(l.pool, false)
}

func (l *Lease) freeSlot() {
	l.slots.Add(-slotUnit(l.pool))
	defer l.up.leaveIfIdle()
	l.up.set.o.OnFree(l.up)
}

// passTrial closes the breaker for a trial that goes on.
func (u *Upstream) passTrial(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	defer u.trial.Store(false)
	u.health.close(now)
	u.publish(u.health.state, "a trial goes on well", now)
}
