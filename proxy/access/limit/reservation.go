package limit

import (
	"sync/atomic"
	"time"
)

// Reservation is what an admitted call holds of its key: a place in the concurrency and an estimate
// of tokens. The zero value is idle. It is a field of the call, so holding one allocates nothing.
// It must not be copied, and a call must settle before it is recycled.
//
// Settle and Cancel may be called from any goroutine and any number of times. Only the first one
// counts; the others, and those of an idle reservation, do nothing.
type Reservation struct {
	state atomic.Uint32
	key   *Key
	held  int64

	expected Held // held in the key's budgets
}

const (
	reservationIdle uint32 = iota
	reservationHeld
	reservationChanging // being filled or settled; other callers do nothing
)

// hold fills an idle reservation.
func (r *Reservation) hold(k *Key, held int64) {
	if !r.state.CompareAndSwap(reservationIdle, reservationChanging) {
		panic("BUG: reservation taken twice")
	}
	r.key, r.held = k, held
	r.state.Store(reservationHeld)
}

// Settle ends the reservation: it frees the place, and charges the used tokens at now in place of
// the held estimate. It reports whether it was the first to do so.
func (r *Reservation) Settle(used Cost, now time.Time) bool {
	if !r.state.CompareAndSwap(reservationHeld, reservationChanging) {
		return false
	}
	k, held, expected := r.key, r.held, r.expected
	r.key, r.held, r.expected = nil, 0, Held{}
	if a := k.state.shared; a != nil {
		a.Settle(held, used.Tokens)
	} else {
		k.settle(held, used.Tokens, now)
	}
	if k.budget != nil {
		k.budget.Settle(expected, used, now)
	}
	r.state.Store(reservationIdle)
	return true
}

// settle charges used tokens in place of a held estimate, and frees a place.
func (k *Key) settle(held, used int64, now time.Time) {
	if limit := int64(k.limits.TokensPerMinute); limit != 0 {
		k.state.tokens.charge(k.since(now), held, cost(used, limit))
	}
	k.state.running.Add(-1)
}

// Cancel ends the reservation of a call that has used no tokens, such as one that never reached an
// engine.
func (r *Reservation) Cancel() bool { return r.Settle(Cost{}, time.Time{}) }
