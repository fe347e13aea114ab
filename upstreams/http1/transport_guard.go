package http1

// Guard catches the panics of a transport's background work. Places are names for the operator.
type Guard interface {
	// Catch must be deferred. It stops a panic and calls after, which may be nil.
	Catch(place string, after func())
	// Once runs f.
	Once(place string, f func())
	// Point marks a place where a test may make the transport panic.
	Point(name string)
}

const (
	guardDNS     = "names"   // a look-up of a dialled name
	guardEngines = "engines" // the upkeep of connections to engines
)

// Unguarded does not catch panics.
type Unguarded struct{}

// Catch does nothing.
func (Unguarded) Catch(string, func()) {}

// Once runs f.
func (Unguarded) Once(_ string, f func()) { f() }

// Point does nothing.
func (Unguarded) Point(string) {}
