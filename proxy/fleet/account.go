package fleet

import (
	"sync"
	"time"

	"penstock/config"
	"penstock/proxy/access/limit"
)

// account is a key's usage as this edge knows it: a limit.Account. Its methods may be called from
// any goroutine.
type account struct {
	terms *terms
	id    string
	edge  string // the edge that reports the use

	mu     sync.Mutex
	usage  usage
	active time.Duration // the last time that a call took something
	queued bool          // it has something to report

	turns *turns // of slots that calls wait for; nil: calls are refused

	number       uint64  // of the last message
	born         string  // the account's birth in the store, by the last answer
	flying, next *flight // the message under way, and the next one
	sent         time.Duration
	unheard      bool // the store may have forgotten what calls hold
	answered     time.Duration
	unanswered   int // requests that have waited in vain since the last answer
}

func newAccount(t *terms, id string) *account {
	a := &account{terms: t, id: id, edge: t.edge, active: -time.Hour}
	a.usage.names = names
	a.usage.cells[requests].kind, a.usage.cells[tokens].kind = paid, paid
	return a
}

// Take takes one of the key's requests per minute.
func (a *account) Take(l config.KeyLimits, now time.Time) limit.Decision {
	return a.take(limitsOf(l), needs{requests: 1}, now)
}

// Reserve takes a place in the key's concurrency and holds an estimate of its tokens. The caller
// must give held back to Settle.
func (a *account) Reserve(l config.KeyLimits, estimate int64, now time.Time) (held int64, d limit.Decision) {
	held = min(max(estimate, 0), int64(l.TokensPerMinute))
	return held, a.take(limitsOf(l), needs{tokens: held, slots: 1}, now)
}

// Settle frees the place and charges the used tokens instead of the held ones.
func (a *account) Settle(held, used int64) {
	a.settle(needs{tokens: held, slots: 1}, needs{tokens: used})
}

// settle charges what a call has used instead of what it held.
func (a *account) settle(held, used needs) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.usage.earn(a.terms.now(), a.terms)
	a.usage.settle(held, used)
	a.queue()
}

// take takes what a call needs of each cell, or nothing. It waits for the store if this edge does
// not hold enough.
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

// fenceBefore is how long before the end of its lease an edge gives up what it holds.
const fenceBefore = 2 * time.Second

// waitedBefore reports whether the reserving call has already waited in vain for its request: no
// call waits twice. The caller holds mu.
func (a *account) waitedBefore(n needs) bool {
	if !a.usage.lost || n[slots] == 0 || a.unanswered == 0 {
		return false
	}
	a.unanswered--
	return true
}

// patience is how long an edge trusts an answer that nothing is free.
const patience = 25 * time.Millisecond

// tryTake takes from what this edge holds, or refuses if the store has just answered that nothing
// is free. ok is false if only the store can decide. The caller holds mu.
func (a *account) tryTake(n needs, now time.Duration) (d limit.Decision, ok bool) {
	u := &a.usage
	if u.lost || a.turns != nil && a.turns.waited() { // a slot freed here may be another edge's turn
		return d, false
	}
	lacking := u.lacking(n, false, now, a.terms.edges())
	if lacking < 0 {
		u.hold(n)
		return allowed, true
	}
	// Other edges may give back what they hold, so an answer is good only for a moment. Slots come
	// back by themselves, at any time, and a message under way may be giving something back.
	known := a.flying == nil && now-a.answered < patience
	if c := &u.cells[lacking]; known && c.kind != slot && c.seen && u.missing(lacking, n, now) > 0 {
		return u.refuse(lacking, n, now), true
	}
	return d, false
}

// takeAlone decides without the store. The caller holds mu.
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

// Levels returns what is left of the requests and of the tokens: what this edge holds, and what was
// free at the last answer.
func (a *account) Levels(l config.KeyLimits, now time.Time) (r, t limit.Level) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.usage.follow(limitsOf(l))
	at := a.terms.since(now)
	return a.usage.level(requests, at), a.usage.level(tokens, at)
}
