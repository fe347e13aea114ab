package upstreams

// Guard catches the panics of what a set runs in the background; see Options.Guard. The places are
// words for the operator.
type Guard interface {
	// Catch is deferred: it ends a panic that passes and calls after, which may be nil.
	Catch(place string, after func())
	// Once runs f.
	Once(place string, f func())
	// Loop runs f until it returns: after a panic again, after a pause, unless stop is closed.
	Loop(stop <-chan struct{}, place string, f func())
	// Point is where a test may have the set panic.
	Point(name string)
}

// The places of this package.
const (
	guardProbe      = "probe"      // a round of an upstream's prober
	guardGeneration = "generation" // a generation probe
	guardAddresses  = "addresses"  // a look-up of a name with `resolve`
	guardDNS        = "names"      // a look-up of a name that is dialled
	guardEngines    = "engines"    // the upkeep of connections to engines
	guardRoom       = "room"       // the waking of calls that wait for room
)

// unguarded lets panics pass.
type unguarded struct{}

func (unguarded) Catch(string, func())                       {}
func (unguarded) Once(_ string, f func())                    { f() }
func (unguarded) Loop(_ <-chan struct{}, _ string, f func()) { f() }
func (unguarded) Point(string)                               {}
