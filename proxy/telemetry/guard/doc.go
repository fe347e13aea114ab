// Package guard catches panics. A fault in our code ends only the call or the round of work in
// which it occurs, never the process with all other calls.
//
// # What a panic costs
//
// Each place documents what a panic there costs (places.go). All code that starts a goroutine of a
// serving edge, directly or through a library, catches its panics under the name of a place. A test
// reads the sources and fails if a go statement has no guard. Before work restarts, it pauses for
// 100 ms. The pause doubles with each further panic, up to 10 s.
//
// # What is reported
//
// A panic is counted by its place (penstock_panics_total) and logged with its type and its stack as
// functions and lines. The panic's value is not logged, because it may hold a client's text. If a
// place panics ten times within ten seconds, the edge is not ready (/-/ready) until that place has
// been calm for thirty seconds, so that a balancer uses other edges.
//
// # Tests
//
// Point marks where a test may make the edge panic. With `-tags testing` Inject arms such a point.
// In a release build Point is an empty function that the compiler removes.
package guard
