package limit

import (
	"sync/atomic"
	"time"

	"penstock/config"
)

// keyState is the usage of a key. The usage belongs to the key's id and outlives every
// configuration.
type keyState struct {
	requests gcra
	tokens   tokenAccount
	running  atomic.Int64
	reading  atomic.Int64 // bytes of memory
	replies  atomic.Int64 // bytes of memory
	waiting  atomic.Int64 // WebSocket messages that wait to become calls

	conversations atomic.Int64 // bytes of memory
	shared        Account      // nil: this edge counts by itself
	budget        Budget       // nil while the key has none

	members atomic.Pointer[[]string] // if this is a group: the ids of its keys; otherwise nil
}

// usedBy returns a function that reports what the key has used. A group's usage is the sum over its
// keys.
func (s *keyState) usedBy(of Used) Used {
	return func(id string, now time.Time) (sum [Periods]Cost) {
		ids := s.members.Load()
		if ids == nil {
			return of(id, now)
		}
		for _, member := range *ids {
			for p, used := range of(member, now) {
				sum[p] = sum[p].Plus(used)
			}
		}
		return sum
	}
}

// Key is the state of one key under the limits of one configuration. Its methods may be called from
// any goroutine.
type Key struct {
	state  *keyState
	epoch  time.Time
	limits config.KeyLimits
	budget Budget // nil without one

	group     *Key   // the group whose limits the key shares with other keys; nil without a group
	groupName string // the name of that group
}

// since converts now to the clock of keyState. In production both times have a monotonic reading,
// so a step of the wall clock has no effect.
func (k *Key) since(now time.Time) int64 { return int64(now.Sub(k.epoch)) }

// Reading returns the counter of the memory that the key's incomplete bodies use, in bytes.
func (k *Key) Reading() *atomic.Int64 { return &k.state.reading }

// Replies returns the counter of the memory that engines' replies to the key's calls use, in bytes.
func (k *Key) Replies() *atomic.Int64 { return &k.state.replies }

// Conversations returns the counter of the memory that the key's WebSocket conversations use, in
// bytes.
func (k *Key) Conversations() *atomic.Int64 { return &k.state.conversations }

// Wait counts a message that waits to become a call, or refuses it. A key may have as many waiting
// messages as concurrent calls, because further messages would only use memory until they are
// refused. StopWaiting ends the wait.
func (k *Key) Wait() Decision {
	limit := int64(k.limits.Concurrency)
	if n := k.state.waiting.Add(1); limit != 0 && n > limit {
		k.state.waiting.Add(-1)
		return Decision{LimitName: Concurrency, RetryAfter: concurrencyRetry, Limit: limit}
	}
	return allowed
}

// StopWaiting uncounts a message that Wait has counted.
func (k *Key) StopWaiting() { k.state.waiting.Add(-1) }

// Take takes one of the requests per minute of the key and of its group. A refused request takes
// nothing.
func (k *Key) Take(now time.Time) Decision {
	d := k.take(now)
	if !d.OK || k.group == nil {
		return d
	}
	if d = k.group.take(now); d.OK {
		return d
	}
	if a := k.state.shared; a != nil {
		a.GiveBack()
	} else {
		k.state.requests.giveBack(int64(k.limits.RequestsPerMinute))
	}
	return k.byGroup(d)
}

// byGroup returns a refusal as a refusal by a limit of the key's group.
func (k *Key) byGroup(d Decision) Decision {
	d.Group = k.groupName
	return d
}

func (k *Key) take(now time.Time) Decision {
	if a := k.state.shared; a != nil {
		return a.Take(k.limits, now)
	}
	limit := int64(k.limits.RequestsPerMinute)
	if limit == 0 {
		return allowed
	}
	return decide(RequestsPerMinute, k.state.requests.admit(k.since(now), limit), limit)
}

// Reserve admits one call of the key. It takes a slot of the key's concurrency, and holds the
// expected use of the key's tokens per minute and budgets. It does the same for the key's group. If
// one of these limits refuses, Reserve takes nothing. If it succeeds, r holds these amounts until
// Settle or Cancel. Calls are counted even without a limit, so that a limit that a later reload
// sets is exact from the start.
//
// r must be idle: new or settled. Reserve does not allocate.
func (k *Key) Reserve(r *Reservation, expected Cost, now time.Time) Decision {
	if r.state.Load() != reservationIdle {
		panic("BUG: reservation taken twice")
	}
	d := k.reserve(&r.own, expected, now)
	if d.OK && k.group != nil {
		if d = k.group.reserve(&r.shared, expected, now); !d.OK {
			r.own.settle(Cost{}, now)
			d = k.byGroup(d)
		}
	}
	if d.OK {
		r.state.Store(reservationHeld)
	}
	return d
}

// reserve takes the amounts that a call needs from this key alone, or nothing.
func (k *Key) reserve(h *holding, expected Cost, now time.Time) Decision {
	if k.budget == nil {
		return k.reserveMinute(h, expected.Tokens, now)
	}
	held, d := k.budget.Hold(&k.limits, expected, now)
	if !d.OK {
		return d
	}
	if d = k.reserveMinute(h, expected.Tokens, now); !d.OK {
		k.budget.Settle(held, Cost{}, now)
		return d
	}
	h.expected = held
	return d
}

// reserveMinute takes a slot of the concurrency and holds an estimate of tokens per minute.
func (k *Key) reserveMinute(h *holding, estimate int64, now time.Time) Decision {
	if a := k.state.shared; a != nil {
		held, d := a.Reserve(k.limits, estimate, now)
		if d.OK {
			h.key, h.held = k, held
		}
		return d
	}
	if d := k.acquireConcurrency(); !d.OK {
		return d
	}
	limit, held := int64(k.limits.TokensPerMinute), int64(0)
	d := allowed
	if limit != 0 {
		held = min(cost(estimate, limit), window)
		if d = decide(TokensPerMinute, k.state.tokens.hold(k.since(now), held), limit); !d.OK {
			k.state.running.Add(-1)
			return d
		}
	}
	h.key, h.held = k, held
	return d
}

// acquireConcurrency takes a slot of the concurrency.
func (k *Key) acquireConcurrency() Decision {
	limit := int64(k.limits.Concurrency)
	if limit == 0 {
		k.state.running.Add(1)
		return allowed
	}
	for {
		n := k.state.running.Load()
		if n >= limit {
			return Decision{LimitName: Concurrency, RetryAfter: concurrencyRetry, Limit: limit}
		}
		if k.state.running.CompareAndSwap(n, n+1) {
			return allowed
		}
	}
}

// decide turns the wait for a limit, in nanoseconds, into a Decision.
func decide(what string, wait, limit int64) Decision {
	if wait > 0 {
		return Decision{LimitName: what, RetryAfter: time.Duration(wait), Limit: limit}
	}
	return allowed
}
