package limit

import (
	"sync/atomic"
	"time"
)

// Reservation is the amount that an admitted call holds of its key and the key's group: a slot of
// the concurrency and an estimate of tokens. The zero value is idle. A Reservation is a field of
// the call, so it is not allocated. It must not be copied, and must be settled before the call is
// recycled.
//
// Settle and Cancel may be called from any goroutine and any number of times. Only the first call
// has an effect. Later calls, and calls on an idle reservation, do nothing.
type Reservation struct {
	state  atomic.Uint32
	own    holding
	shared holding // held of the key's group
}

// holding is the amount that a call holds of one key, or of one group.
type holding struct {
	key      *Key // nil: it holds nothing
	held     int64
	expected Held // amounts held in the budgets
}

const (
	reservationIdle uint32 = iota
	reservationHeld
	reservationChanging // one caller is settling it, so other callers do nothing
)

// Settle ends the reservation at the time now. It frees the slot, and charges the used tokens in
// place of the held estimate. It reports whether this was the first call of Settle or Cancel.
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

// settle releases the amounts that a call holds of a key, and charges the amounts that the call has
// used.
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

// settle charges the used tokens in place of a held estimate, and frees a slot.
func (k *Key) settle(held, used int64, now time.Time) {
	if limit := int64(k.limits.TokensPerMinute); limit != 0 {
		k.state.tokens.charge(k.since(now), held, cost(used, limit))
	}
	k.state.running.Add(-1)
}

// Cancel ends the reservation of a call that has used no tokens, such as one that never reached an
// engine.
func (r *Reservation) Cancel() bool { return r.Settle(Cost{}, time.Time{}) }
