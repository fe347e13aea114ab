// Package guard catches panics. A bug in the edge therefore ends only the call or the unit of work
// in which it occurs, never the whole process.
//
// # What a panic costs
//
// places.go lists the places that catch panics, and what a panic at each place costs. Every
// goroutine of a serving edge catches its panics under the name of a place, even if a library
// started the goroutine. A test reads the sources and fails if a go statement has no guard.
//
// # What is reported
//
// A panic is counted by place (penstock_panics_total), and logged with its type and with its stack
// as functions and lines. The panic's value is not logged, because it may contain client text.
// After ten panics at a place within ten seconds, the edge is not ready (/-/ready) until no panic
// has occurred at this place for thirty seconds. Until then, a load balancer uses other edges.
//
// # Tests
//
// Point marks where a test may make the edge panic. With `-tags testing`, Inject arms a point. In a
// release build, PanicIfInjected is an empty function that the compiler removes.
package guard
