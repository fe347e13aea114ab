package limit

import (
	"sync"
	"sync/atomic"
	"time"

	"penstock/config"
)

// Reservation contains what an admitted call has reserved from its key and its group. The zero
// value is idle. A Reservation is a field of the call, which avoids an allocation. It must not be
// copied, and must be settled before the call is recycled.
//
// Settle and Cancel may be called multiple times and by any goroutine. Only the first call has an
// effect.
type Reservation struct {
	state     atomic.Uint32
	keyPart   reservedPart
	groupPart reservedPart // reserved from the key's group
}

type reservedPart struct {
	key        *KeyLimiter // nil if nothing is reserved
	heldNanos  int64
	budgetHeld *BudgetReservation // pooled; nil if the key has no budget
}

// budgetReservationPool keeps the reservations out of the calls, most of which have no budget.
var budgetReservationPool = sync.Pool{New: func() any { return new(BudgetReservation) }}

const (
	reservationIdle uint32 = iota
	reservationHeld
	reservationChanging // a goroutine is settling the reservation
)

// Settle releases the slot, and charges the used tokens instead of the estimate. It reports whether
// this was the first call to Settle or Cancel.
func (r *Reservation) Settle(used Cost, now time.Time) bool {
	if !r.state.CompareAndSwap(reservationHeld, reservationChanging) {
		return false
	}
	r.keyPart.settle(used, now)
	if r.groupPart.key != nil {
		r.groupPart.settle(used, now)
	}
	r.state.Store(reservationIdle)
	return true
}

// Charge charges part of the usage of a running call. Settle charges the remaining usage later.
// Charge returns a refusal once the key or its group has exceeded a limit of tokens or money. It
// must not run concurrently with Settle.
func (r *Reservation) Charge(used Cost, now time.Time) Decision {
	if r.state.Load() != reservationHeld {
		return decisionAllowed
	}
	d := r.keyPart.charge(used, now)
	if r.groupPart.key == nil {
		return d
	}
	if of := r.groupPart.charge(used, now); d.OK && !of.OK {
		return r.keyPart.key.setDecisionGroup(of)
	}
	return d
}

// charge charges an amount in addition to the call's reservation, and checks the limits.
func (h *reservedPart) charge(used Cost, now time.Time) Decision {
	d := h.key.charge(used.Tokens, now)
	b := h.key.budget
	if b == nil {
		return d
	}
	b.Settle(BudgetReservation{At: h.budgetHeld.At}, used, now)
	if of := checkBudgets(b, &h.key.limits, now); !of.OK {
		return of
	}
	return d
}

func checkBudgets(b UsageBudget, l *config.KeyLimits, now time.Time) Decision {
	for p := range PeriodCount {
		if b.AllowsOverrun(p, now) {
			continue
		}
		budget, used := PeriodBudget(l, p), b.Used(p, now)
		spent := !budget.Spend.Zero() && !used.Spend.Less(budget.Spend)
		if spent || budget.Tokens > 0 && used.Tokens >= budget.Tokens {
			return RefusalDecision(p, spent, BudgetRefusal{Budget: budget, Used: used}, now)
		}
	}
	return decisionAllowed
}

func (k *KeyLimiter) charge(used int64, now time.Time) Decision {
	limit := int64(k.limits.TokensPerMinute)
	if a := k.state.account; a != nil {
		return a.Charge(used, now)
	}
	if limit == 0 {
		return decisionAllowed
	}
	at := k.sinceEpoch(now)
	k.state.tokens.charge(at, 0, costNanos(used, limit))
	return waitDecision(TokensPerMinute, k.state.tokens.excessWait(at), limit)
}

// settle releases what a call has reserved from a key, and charges what the call has used.
func (h *reservedPart) settle(used Cost, now time.Time) {
	k, held, expected := h.key, h.heldNanos, h.budgetHeld
	*h = reservedPart{}
	if a := k.state.account; a != nil {
		a.Settle(held, used.Tokens)
	} else {
		k.settle(held, used.Tokens, now)
	}
	if k.budget != nil {
		k.budget.Settle(*expected, used, now)
		budgetReservationPool.Put(expected)
	}
}

func (k *KeyLimiter) settle(held, used int64, now time.Time) {
	if limit := int64(k.limits.TokensPerMinute); limit != 0 {
		k.state.tokens.charge(k.sinceEpoch(now), held, costNanos(used, limit))
	}
	k.state.running.Add(-1)
}

// Cancel ends the reservation of a call that used no tokens, for example because it did not reach
// an engine.
func (r *Reservation) Cancel() bool { return r.Settle(Cost{}, time.Time{}) }
