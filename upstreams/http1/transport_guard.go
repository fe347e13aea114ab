package http1

// Guard catches the panics of a transport's background work. The places are words for the operator.
type Guard interface {
	// Catch is deferred: it stops a panic and calls after, which may be nil.
	Catch(place string, after func())
	// Once runs f.
	Once(place string, f func())
	// Point is where a test may make the transport panic.
	Point(name string)
}

const (
	guardDNS     = "names"   // a look-up of a name that is dialled
	guardEngines = "engines" // the upkeep of connections to engines
)

// Unguarded lets panics pass.
type Unguarded struct{}

// Catch lets a panic pass.
func (Unguarded) Catch(string, func()) {}

// Once runs f.
func (Unguarded) Once(_ string, f func()) { f() }

// Point does nothing.
func (Unguarded) Point(string) {}
