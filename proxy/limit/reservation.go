package limit

import (
	"sync/atomic"
	"time"
)

// Reservation is what an admitted call holds of its key: a place in the concurrency and an estimate of tokens. The zero
// value is idle. It is made to be a field of the call, so that holding one allocates nothing; it must not be copied, and a
// call that is recycled must have settled before.
//
// Settle and Cancel may be called from any goroutine and any number of times: the first call counts, the others, and
// calls on an idle reservation, do nothing.
type Reservation struct {
	state atomic.Uint32
	key   *Key
	held  int64
}

const (
	reservationIdle uint32 = iota
	reservationHeld
	reservationChanging // being filled or settled; others keep off
)

// hold fills an idle reservation.
func (r *Reservation) hold(k *Key, held int64) {
	if !r.state.CompareAndSwap(reservationIdle, reservationChanging) {
		panic("BUG: reservation taken twice")
	}
	r.key, r.held = k, held
	r.state.Store(reservationHeld)
}

// Settle ends the reservation: the place is free again, and used tokens are charged for the held estimate, at now. It
// reports whether this call was the one that ended it.
func (r *Reservation) Settle(used int64, now time.Time) bool {
	if !r.state.CompareAndSwap(reservationHeld, reservationChanging) {
		return false
	}
	k, held := r.key, r.held
	r.key, r.held = nil, 0
	if limit := int64(k.limits.TokensPerMinute); limit != 0 {
		k.state.tokens.settle(k.since(now), held, cost(used, limit))
	}
	k.state.running.Add(-1)
	r.state.Store(reservationIdle)
	return true
}

// Cancel ends the reservation of a call that has used nothing, such as one that never reached an engine.
func (r *Reservation) Cancel() bool { return r.Settle(0, time.Time{}) }
