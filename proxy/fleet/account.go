package fleet

import (
	"sync"
	"time"

	"penstock/config"
	"penstock/proxy/access/limit"
)

// account is this edge's view of a key's usage: a limit.Account. Any goroutine may call its
// methods.
type account struct {
	terms *terms
	id    string
	edge  string // the edge that reports the usage

	mu     sync.Mutex
	usage  usage
	active time.Duration // when a call last took an amount
	queued bool          // the account is in the queue of accounts with something to report

	turns *turns // the queue of calls that wait for slots; nil: calls do not wait, but are refused

	number       uint64  // the number of the last message
	born         string  // the account's birth id in the store, according to the last answer
	flying, next *flight // the message in flight, and the next one
	sent         time.Duration
	unheard      bool // the store may have lost the amounts that calls hold
	answered     time.Duration
	unanswered   int // number of failed requests since the last answer
}

func newAccount(t *terms, id string) *account {
	a := &account{terms: t, id: id, edge: t.edge, active: -time.Hour}
	a.usage.names = names
	a.usage.cells[requests].kind, a.usage.cells[tokens].kind = paid, paid
	return a
}

// Take takes one of the key's requests per minute.
func (a *account) Take(l config.KeyLimits, now time.Time) limit.Decision {
	if a.refund(limitsOf(l), now) {
		return allowed
	}
	return a.take(limitsOf(l), needs{requests: 1}, now)
}

// GiveBack gives back a request that Take has just taken. The store may have counted it already, so
// the next request is free instead.
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

// Reserve takes a slot of the key's concurrency and holds an estimate of the call's tokens. The
// caller must pass held to Settle.
func (a *account) Reserve(l config.KeyLimits, estimate int64, now time.Time) (held int64, d limit.Decision) {
	held = min(max(estimate, 0), int64(l.TokensPerMinute))
	return held, a.take(limitsOf(l), needs{tokens: held, slots: 1}, now)
}

// Settle frees the slot, and charges the used tokens in place of the held tokens.
func (a *account) Settle(held, used int64) {
	a.settle(needs{tokens: held, slots: 1}, needs{tokens: used})
}

// Charge charges tokens that a running call has used in addition to those that it holds. It knows
// the use at other edges from the store's last answer.
func (a *account) Charge(used int64, now time.Time) limit.Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.charge(needs{}, needs{tokens: used})
	if a.usage.lost && a.terms.whenLost == config.LostOpen {
		return allowed
	}
	return a.usage.over(tokens, a.terms.since(now))
}

// settle charges the amounts that a call has used in place of the amounts that it held.
func (a *account) settle(held, used needs) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.charge(held, used)
}

// charge is settle for a caller that holds mu.
func (a *account) charge(held, used needs) {
	a.usage.earn(a.terms.now(), a.terms)
	a.usage.settle(held, used)
	a.queue()
}

// take takes the amounts that a call needs from each cell, or nothing. If this edge does not hold
// enough, take waits for the store.
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
	if a.terms.enoughWait() {
		return a.takeAlone(n, now)
	}
	return a.askStore(n, now)
}

// fenceBefore is how long before the end of its lease an edge gives up the amounts that it holds.
const fenceBefore = 2 * time.Second

// waitedBefore reports whether the call that now reserves has already waited in vain when it took
// its request. No call waits twice. The caller must hold mu.
func (a *account) waitedBefore(n needs) bool {
	if !a.usage.lost || n[slots] == 0 || a.unanswered == 0 {
		return false
	}
	a.unanswered--
	return true
}

// patience is how long an edge relies on an answer that nothing is free.
const patience = 25 * time.Millisecond

// tryTake takes from what this edge holds, or refuses if the store has just answered that nothing
// is free. ok is false if only the store can decide. The caller must hold mu.
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
	// Other edges may return the amounts that they hold, so an answer is valid only for a moment.
	// Slots become free at any time, and a message in flight may return amounts.
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

// Levels returns the remaining requests and tokens: the amounts that this edge holds, and those
// that were free at the last answer.
func (a *account) Levels(l config.KeyLimits, now time.Time) (r, t limit.Level) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.usage.follow(limitsOf(l))
	at := a.terms.since(now)
	return a.usage.level(requests, at), a.usage.level(tokens, at)
}
