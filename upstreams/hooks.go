package upstreams

import (
	"time"

	"go.uber.org/zap"

	"penstock/config/instant"
	"penstock/upstreams/http1"
)

// Guard catches the panics of a set's background work; see Options.Guard. The places are words for
// the operator.
type Guard interface {
	http1.Guard
	// Loop runs f until it returns. If f panics, Loop pauses and runs f again, unless stop is
	// closed.
	Loop(stop <-chan struct{}, place string, f func())
}

// The places that this package guards.
const (
	guardProbe      = "probe"      // a round of an upstream's prober
	guardGeneration = "generation" // a generation probe
	guardAddresses  = "addresses"  // a discovery of endpoints
	guardWake       = "wake"       // a request that wakes an engine
	guardStall      = "stall"      // a check whether work moves
	guardRoom       = "room"       // the waking of calls that wait for room
)

// unguarded does not catch panics.
type unguarded struct{ http1.Unguarded }

func (unguarded) Loop(_ <-chan struct{}, _ string, f func()) { f() }

// hooks holds what the parts of an upstream need from their surroundings.
type hooks struct {
	log   *zap.Logger // names the upstream
	guard Guard
	room  func() // makes calls that wait for room look again; a part's lock may be held
	found func() // reports that the engine lists other models; a part's lock may be held
	// account returns the exact slot account of a fleet; nil: there is no fleet
	account func() SlotAccount
}

// Moment is a time on the monotonic clock, for comparisons in a pick. A step of the wall clock
// therefore keeps no breaker open.
type Moment = instant.Time

// At returns the moment of a time.
func At(t time.Time) Moment { return instant.Of(t) }

func ticks(t time.Time) int64 { return int64(At(t)) }

// age returns the seconds since at, or -1 if at is zero.
func age(at, now time.Time) float64 {
	if at.IsZero() {
		return -1
	}
	return now.Sub(at).Seconds()
}
