package http1

// Guard catches panics in a transport's background goroutines. The place arguments tell the
// operator which part of the program panicked.
type Guard interface {
	// Catch must be deferred. It recovers from a panic and then calls the function after, which
	// may be nil.
	Catch(place string, after func())
	// RunWithRecover calls f and recovers from a panic.
	RunWithRecover(place string, f func())
	// PanicIfInjected is a hook with which tests cause panics.
	PanicIfInjected(name string)
}

const (
	guardDNS     = "names"   // a name look-up
	guardEngines = "engines" // maintenance of connections to engines
)

// NoPanicGuard is a Guard that does not catch panics.
type NoPanicGuard struct{}

// Catch does nothing.
func (NoPanicGuard) Catch(string, func()) {}

// RunWithRecover calls f.
func (NoPanicGuard) RunWithRecover(_ string, f func()) { f() }

// PanicIfInjected does nothing.
func (NoPanicGuard) PanicIfInjected(string) {}
