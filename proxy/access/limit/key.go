package limit

import (
	"strconv"
	"sync/atomic"
	"time"

	"penstock/config"
)

// keyUsage is the usage of a key. It belongs to the key's id, and survives reloads.
type keyUsage struct {
	requests        gcraLimiter
	tokens          tokenAccount
	running         atomic.Int64
	readingBytes    atomic.Int64 // bytes in request bodies that are being read
	replyBytes      atomic.Int64 // bytes of memory for engine responses to the key's calls
	waitingMessages atomic.Int64 // number of WebSocket messages waiting to become calls

	conversationBytes atomic.Int64 // bytes of memory for the key's WebSocket conversations
	account           KeyAccount   // nil if this edge counts locally
	budget            UsageBudget  // nil if the key has no budget

	memberIDs atomic.Pointer[[]string] // ids of the group's keys; nil for a key
}

// aggregateUsage returns a UsageFunc for this key or group. The usage of a group is the sum of its
// keys' usage.
func (s *keyUsage) aggregateUsage(of UsageFunc) UsageFunc {
	return func(id string, now time.Time) (sum [PeriodCount]Cost) {
		ids := s.memberIDs.Load()
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

// KeyLimiter combines a key's state with its limits in one configuration. Its methods may be called
// by multiple goroutines.
type KeyLimiter struct {
	state  *keyUsage
	epoch  time.Time
	limits config.KeyLimits
	texts  limitTexts
	budget UsageBudget // nil if the key has no budget

	group     *KeyLimiter // nil if the key is in no group
	groupName string
}

// limitTexts contains the limits per minute in decimal. Every response states them.
type limitTexts struct{ requests, tokens string }

func newLimitTexts(l *config.KeyLimits) limitTexts {
	return limitTexts{strconv.Itoa(l.RequestsPerMinute), strconv.Itoa(l.TokensPerMinute)}
}

// sinceEpoch converts now to the clock of keyUsage. In production, both times have a monotonic
// clock reading, so a step of the wall clock has no effect.
func (k *KeyLimiter) sinceEpoch(now time.Time) int64 { return int64(now.Sub(k.epoch)) }

// IncompleteBodyCounter returns the counter of bytes in the key's request bodies that are being
// read.
func (k *KeyLimiter) IncompleteBodyCounter() *atomic.Int64 { return &k.state.readingBytes }

// ReplyByteCounter returns the counter of bytes in engine responses to the key's calls.
func (k *KeyLimiter) ReplyByteCounter() *atomic.Int64 { return &k.state.replyBytes }

// ConversationByteCounter returns the counter of bytes in the key's WebSocket conversations.
func (k *KeyLimiter) ConversationByteCounter() *atomic.Int64 { return &k.state.conversationBytes }

// StartWaiting counts a WebSocket message that waits to become a call, or rejects it. A key may
// have as many waiting messages as it may have concurrent calls. More messages would only use
// memory until they are rejected. StopWaiting must be called after the wait.
func (k *KeyLimiter) StartWaiting() Decision {
	limit := int64(k.limits.Concurrency)
	if n := k.state.waitingMessages.Add(1); limit != 0 && n > limit {
		k.state.waitingMessages.Add(-1)
		return Decision{LimitName: Concurrency, RetryAfter: concurrencyRetry, Limit: limit}
	}
	return decisionAllowed
}

// StopWaiting ends a wait that StartWaiting allowed.
func (k *KeyLimiter) StopWaiting() { k.state.waitingMessages.Add(-1) }

// TakeRequest charges one request against the requests per minute of the key and its group. If
// either rejects the request, neither is charged.
func (k *KeyLimiter) TakeRequest(now time.Time) Decision {
	d := k.takeRequest(now)
	if !d.OK || k.group == nil {
		return d
	}
	if d = k.group.takeRequest(now); d.OK {
		return d
	}
	if a := k.state.account; a != nil {
		a.RefundRequest()
	} else {
		k.state.requests.refund(int64(k.limits.RequestsPerMinute))
	}
	return k.setDecisionGroup(d)
}

func (k *KeyLimiter) setDecisionGroup(d Decision) Decision {
	d.Group = k.groupName
	return d
}

func (k *KeyLimiter) takeRequest(now time.Time) Decision {
	if a := k.state.account; a != nil {
		return a.TakeRequest(k.limits, now)
	}
	limit := int64(k.limits.RequestsPerMinute)
	if limit == 0 {
		return decisionAllowed
	}
	return waitDecision(RequestsPerMinute, k.state.requests.admit(k.sinceEpoch(now), limit), limit)
}

// Reserve admits a call. For both the key and its group, it acquires a concurrency slot and
// reserves the expected usage from tokens per minute and budgets. If a limit rejects the call,
// Reserve changes nothing. Otherwise, the amounts stay reserved until Settle or Cancel.
//
// Calls are counted even if the key has no limit, so that a limit added by a later reload is exact
// from the start.
//
// An unused budget also admits a call whose expected usage exceeds the entire budget, as long as the
// budget covers least.
//
// r must be idle, which means that it is new or settled. What Reserve allocates is pooled.
func (k *KeyLimiter) Reserve(r *Reservation, expected, least Cost, now time.Time) Decision {
	if r.state.Load() != reservationIdle {
		panic("BUG: reservation taken twice")
	}
	d := k.reserve(&r.keyPart, expected, least, now)
	if d.OK && k.group != nil {
		if d = k.group.reserve(&r.groupPart, expected, least, now); !d.OK {
			r.keyPart.settle(Cost{}, now)
			d = k.setDecisionGroup(d)
		}
	}
	if d.OK {
		r.state.Store(reservationHeld)
	}
	return d
}

func (k *KeyLimiter) reserve(h *reservedPart, expected, least Cost, now time.Time) Decision {
	if k.budget == nil {
		return k.reservePerMinute(h, expected.Tokens, now)
	}
	held, d := k.budget.ReserveUsage(&k.limits, expected, least, now)
	if !d.OK {
		return d
	}
	if d = k.reservePerMinute(h, expected.Tokens, now); !d.OK {
		k.budget.Settle(held, Cost{}, now)
		return d
	}
	h.budgetHeld = budgetReservationPool.Get().(*BudgetReservation)
	*h.budgetHeld = held
	return d
}

func (k *KeyLimiter) reservePerMinute(h *reservedPart, estimate int64, now time.Time) Decision {
	if a := k.state.account; a != nil {
		held, d := a.Reserve(k.limits, estimate, now)
		if d.OK {
			h.key, h.heldNanos = k, held
		}
		return d
	}
	if d := k.acquireConcurrency(); !d.OK {
		return d
	}
	limit, held := int64(k.limits.TokensPerMinute), int64(0)
	d := decisionAllowed
	if limit != 0 {
		held = min(costNanos(estimate, limit), ratePeriod)
		if d = waitDecision(TokensPerMinute, k.state.tokens.reserve(k.sinceEpoch(now), held), limit); !d.OK {
			k.state.running.Add(-1)
			return d
		}
	}
	h.key, h.heldNanos = k, held
	return d
}

func (k *KeyLimiter) acquireConcurrency() Decision {
	limit := int64(k.limits.Concurrency)
	if limit == 0 {
		k.state.running.Add(1)
		return decisionAllowed
	}
	for {
		n := k.state.running.Load()
		if n >= limit {
			return Decision{LimitName: Concurrency, RetryAfter: concurrencyRetry, Limit: limit}
		}
		if k.state.running.CompareAndSwap(n, n+1) {
			return decisionAllowed
		}
	}
}

func waitDecision(what string, wait, limit int64) Decision {
	if wait > 0 {
		return Decision{LimitName: what, RetryAfter: time.Duration(wait), Limit: limit}
	}
	return decisionAllowed
}
