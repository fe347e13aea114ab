package limit

import (
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
	state  atomic.Uint32
	own    holding
	shared holding // reserved from the key's group
}

type holding struct {
	key      *Key // nil if nothing is reserved
	held     int64
	expected Held
}

const (
	reservationIdle uint32 = iota
	reservationHeld
	reservationChanging // a goroutine is settling the reservation
)

// Settle releases the slot, and charges the used tokens instead of the estimate. It reports whether
// this was the first call of Settle or Cancel.
func (r *Reservation) Settle(used Cost, now time.Time) bool {
	if !r.state.CompareAndSwap(reservationHeld, reservationChanging) {
		return false
	}
	r.own.settle(used, now)
	if r.shared.key != nil {
		r.shared.settle(used, now)
	}
	r.state.Store(reservationIdle)
	return true
}

// Charge charges part of the usage of a running call. Settle later charges the remainder. Charge
// returns a refusal once the key or its group has exceeded a limit of tokens or money. It must not
// run concurrently with Settle.
func (r *Reservation) Charge(used Cost, now time.Time) Decision {
	if r.state.Load() != reservationHeld {
		return allowed
	}
	d := r.own.charge(used, now)
	if r.shared.key == nil {
		return d
	}
	if of := r.shared.charge(used, now); d.OK && !of.OK {
		return r.own.key.byGroup(of)
	}
	return d
}

// charge charges an amount in addition to the call's reservation, and checks the limits.
func (h *holding) charge(used Cost, now time.Time) Decision {
	d := h.key.charge(used.Tokens, now)
	b := h.key.budget
	if b == nil {
		return d
	}
	b.Settle(Held{At: h.expected.At}, used, now)
	if of := usedUp(b, &h.key.limits, now); !of.OK {
		return of
	}
	return d
}

func usedUp(b Budget, l *config.KeyLimits, now time.Time) Decision {
	for p := range Periods {
		if b.Open(p, now) {
			continue
		}
		budget, used := OfPeriod(l, p), b.Used(p, now)
		spent := !budget.Spend.Zero() && !used.Spend.Less(budget.Spend)
		if spent || budget.Tokens > 0 && used.Tokens >= budget.Tokens {
			return Exhausted(p, spent, Refused{Budget: budget, Used: used}, now)
		}
	}
	return allowed
}

func (k *Key) charge(used int64, now time.Time) Decision {
	limit := int64(k.limits.TokensPerMinute)
	if a := k.state.shared; a != nil {
		return a.Charge(used, now)
	}
	if limit == 0 {
		return allowed
	}
	at := k.since(now)
	k.state.tokens.charge(at, 0, cost(used, limit))
	return decide(TokensPerMinute, k.state.tokens.over(at), limit)
}

// settle releases what a call has reserved from a key, and charges what the call has used.
func (h *holding) settle(used Cost, now time.Time) {
	k, held, expected := h.key, h.held, h.expected
	*h = holding{}
	if a := k.state.shared; a != nil {
		a.Settle(held, used.Tokens)
	} else {
		k.settle(held, used.Tokens, now)
	}
	if k.budget != nil {
		k.budget.Settle(expected, used, now)
	}
}

func (k *Key) settle(held, used int64, now time.Time) {
	if limit := int64(k.limits.TokensPerMinute); limit != 0 {
		k.state.tokens.charge(k.since(now), held, cost(used, limit))
	}
	k.state.running.Add(-1)
}

// Cancel ends the reservation of a call that used no tokens, for example because it did not reach
// an engine.
func (r *Reservation) Cancel() bool { return r.Settle(Cost{}, time.Time{}) }
