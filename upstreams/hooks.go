package upstreams

import (
	"time"

	"go.uber.org/zap"

	"penstock/config/instant"
	"penstock/upstreams/http1"
)

// Guard catches panics in a set's background goroutines (see Options.Guard). The place arguments
// tell the operator which part of the program panicked.
type Guard interface {
	http1.Guard
	// Loop calls f until f returns normally. If f panics, Loop pauses and calls f again, unless
	// stop is closed.
	Loop(stop <-chan struct{}, place string, f func())
}

// Names of the places that this package guards.
const (
	guardProbe       = "probe"      // a round of an upstream's prober
	guardGeneration  = "generation" // a generation probe
	guardAddresses   = "addresses"  // a discovery of endpoints
	guardWake        = "wake"       // a request that wakes an engine
	guardStall       = "stall"      // a check for progress
	guardSlotWakeups = "room"       // waking the calls that are waiting for a slot
)

// unguardedLoop does not catch panics.
type unguardedLoop struct{ http1.NoPanicGuard }

func (unguardedLoop) Loop(_ <-chan struct{}, _ string, f func()) { f() }

// upstreamHooks contains the callbacks and the log that an upstream's parts share.
type upstreamHooks struct {
	log           *zap.Logger // every entry includes the upstream's name
	guard         Guard
	wakeWaiting   func() // wakes the calls that are waiting for a slot; a part's lock may be held
	modelsChanged func() // called when the published models change; a part's lock may be held
	// slotAccount returns the fleet's exact slot account, or nil if there is no fleet.
	slotAccount func() FleetSlotAccount
}

// Moment is a time on the monotonic clock, for comparisons while picking an upstream. It is
// monotonic so that a step of the wall clock cannot keep a breaker open.
type Moment = instant.Time

// MomentOf converts a time to a Moment.
func MomentOf(t time.Time) Moment { return instant.FromTime(t) }

func momentTicks(t time.Time) int64 { return int64(MomentOf(t)) }

// secondsSince returns the seconds since at, or -1 if at is zero.
func secondsSince(at, now time.Time) float64 {
	if at.IsZero() {
		return -1
	}
	return now.Sub(at).Seconds()
}
