package fleet

import (
	"sync"
	"time"

	"penstock/config"
	"penstock/proxy/access/limit"
)

// account implements limit.Account for one key in the fleet. Its methods may be called by multiple
// goroutines.
type account struct {
	terms *terms
	id    string
	edge  string

	mu     sync.Mutex
	usage  usage
	active time.Duration // when a call last acquired requests, tokens or a slot
	queued bool

	turns *turns // if nil, a call is rejected immediately when no slot is free

	number       uint64
	born         string  // birth id of the account in the store, from the last answer
	flying, next *flight // the message in flight, and the message that will follow it
	sent         time.Duration
	unheard      bool // whether the store may have lost the reservations of running calls
	answered     time.Duration
	unanswered   int // number of failed requests since the last answer
}

func newAccount(t *terms, id string) *account {
	a := &account{terms: t, id: id, edge: t.edge, active: -time.Hour}
	a.usage.names = names
	a.usage.cells[requests].kind, a.usage.cells[tokens].kind = paid, paid
	return a
}

func (a *account) Take(l config.KeyLimits, now time.Time) limit.Decision {
	if a.refund(limitsOf(l), now) {
		return allowed
	}
	return a.take(limitsOf(l), needs{requests: 1}, now)
}

// GiveBack reverts the last successful Take. The store may have counted that request already, so
// GiveBack makes the key's next request free instead.
func (a *account) GiveBack() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.usage.giveBack()
}

// refund reports whether a request is free because an earlier one was given back.
func (a *account) refund(l needs, at time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.usage.cells[requests].refunds == 0 {
		return false
	}
	a.usage.follow(l)
	now := a.terms.since(at)
	if !a.terms.store.Available() || !a.usage.refund(now) {
		return false
	}
	a.active = now
	return true
}

func (a *account) Reserve(l config.KeyLimits, estimate int64, now time.Time) (held int64, d limit.Decision) {
	held = min(max(estimate, 0), int64(l.TokensPerMinute))
	return held, a.take(limitsOf(l), needs{tokens: held, slots: 1}, now)
}

func (a *account) Settle(held, used int64) {
	a.settle(needs{tokens: held, slots: 1}, needs{tokens: used})
}

// Charge charges tokens that a running call used in addition to those that it has reserved. It
// takes the usage at other edges from the store's last answer.
func (a *account) Charge(used int64, _ time.Time) limit.Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.charge(needs{}, needs{tokens: used})
	if a.open() {
		return allowed
	}
	return a.usage.over(tokens)
}

// open reports whether no limit applies, because this edge works without the store and fleet.lost
// is open. The caller must hold mu.
func (a *account) open() bool {
	return a.terms.whenLost == config.LostOpen && (a.usage.lost || !a.terms.store.Available())
}

// settle charges what a call has used instead of what it had reserved.
func (a *account) settle(held, used needs) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.charge(held, used)
}

// charge does the work of settle. The caller must hold mu.
func (a *account) charge(held, used needs) {
	now := a.terms.now()
	a.usage.earn(now, a.terms)
	a.usage.catchUp(now) // the new charges do not decrease yet
	a.usage.settle(held, used)
	a.queue()
}

// take takes either all amounts that a call needs, or none. If this edge has too little, take waits
// for the store.
func (a *account) take(l needs, n needs, at time.Time) limit.Decision {
	now := a.terms.since(at)
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.queue()
	a.usage.follow(l)
	a.usage.fenceAfter(now - a.answered)
	a.active = now
	if !a.terms.store.Available() || a.waitedBefore(n) {
		return a.takeAlone(n, now)
	}
	if d, ok := a.tryTake(n, now); ok {
		return d
	}
	if enoughWait(a.terms.store.Misses(), int(a.terms.waiting.Load())) {
		return a.takeAlone(n, now)
	}
	return a.askStore(n, now)
}

// fenceBefore is how long before the expiry of its lease an edge gives up the amounts that it was
// granted.
const fenceBefore = 2 * time.Second

// waitedBefore reports whether Take has already waited for the store without success for this call.
// A call must not wait twice. The caller must hold mu.
func (a *account) waitedBefore(n needs) bool {
	if !a.usage.lost || n[slots] == 0 || a.unanswered == 0 {
		return false
	}
	a.unanswered--
	return true
}

// patience is how long an edge trusts an answer which says that nothing is free.
const patience = 25 * time.Millisecond

// tryTake takes the needed amounts from those granted to this edge. If the store has just answered
// that nothing is free, tryTake rejects the call. ok is false if only the store can decide. The
// caller must hold mu.
func (a *account) tryTake(n needs, now time.Duration) (d limit.Decision, ok bool) {
	u := &a.usage
	if u.lost || a.turns != nil && a.turns.waited() { // it may be another edge's turn
		return d, false
	}
	lacking := u.lacking(n, false, now, a.terms.edges())
	if lacking < 0 {
		u.hold(n)
		return allowed, true
	}
	// Other edges may return amounts to the store, so the edge trusts an answer only for the time
	// patience. It does not trust the answer while a message is in flight, because the message may
	// return amounts. It never trusts an answer about slots, because a slot may become free at any
	// time.
	known := a.flying == nil && now-a.answered < patience
	if c := &u.cells[lacking]; known && c.kind != slot && c.seen && u.missing(lacking, n, now) > 0 {
		return u.refuse(lacking, n, now), true
	}
	return d, false
}

// takeAlone decides without the store. The caller must hold mu.
func (a *account) takeAlone(n needs, now time.Duration) limit.Decision {
	u, edges := &a.usage, a.terms.edges()
	if !u.lost {
		u.leave(now, a.answered > 0 && now-a.answered < lease, a.terms.silence(now), edges)
	}
	a.usage.earn(now, a.terms)
	a.terms.metrics.alone.Inc()
	switch a.terms.whenLost {
	case config.LostOpen:
	case config.LostClosed:
		return limit.Decision{Unavailable: true, RetryAfter: time.Second}
	default:
		if d := u.refuseAlone(n, edges); !d.OK {
			return d
		}
	}
	u.hold(n)
	return allowed
}

// Levels returns the remaining requests and tokens. It adds the amounts granted to this edge and
// the amounts that were free at the last answer.
func (a *account) Levels(l config.KeyLimits, now time.Time) (r, t limit.Level) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.usage.follow(limitsOf(l))
	at := a.terms.since(now)
	return a.usage.level(requests, at), a.usage.level(tokens, at)
}
