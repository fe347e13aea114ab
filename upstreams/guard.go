package upstreams

import (
	"go.uber.org/zap"

	"penstock/upstreams/http1"
)

// Guard catches the panics of what a set runs in the background; see Options.Guard. The places are
// words for the operator.
type Guard interface {
	http1.Guard
	// Loop runs f until it returns: after a panic again, after a pause, unless stop is closed.
	Loop(stop <-chan struct{}, place string, f func())
}

// The places of this package.
const (
	guardProbe      = "probe"      // a round of an upstream's prober
	guardGeneration = "generation" // a generation probe
	guardAddresses  = "addresses"  // a look-up of a name with `resolve`
	guardWake       = "wake"       // a request that wakes an engine
	guardRoom       = "room"       // the waking of calls that wait for room
)

// unguarded lets panics pass.
type unguarded struct{ http1.Unguarded }

func (unguarded) Loop(_ <-chan struct{}, _ string, f func()) { f() }

// hooks are what the parts of an upstream need from their surroundings.
type hooks struct {
	log   *zap.Logger // names the upstream
	guard Guard
	room  func() // calls that wait for room should look again; a part's lock may be held
}
