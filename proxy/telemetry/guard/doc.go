// Package guard catches panics. A fault of ours costs the call or the round of work that hit it,
// never the process with everyone else's calls.
//
// # What a panic costs
//
// Each place says what its panics cost (places.go). Code that starts a goroutine of a serving edge,
// directly or through a library, catches its panics under a place: a test reads the sources, so a
// go statement without a guard fails it. Work that is restarted pauses for 100 ms first; the pause
// doubles up to 10 s.
//
// # What is reported
//
// A panic is counted by its place (penstock_panics_total) and logged with its type and its stack as
// functions and lines. Its value is not logged: it may hold a client's words. A place that panics
// ten times within ten seconds does not stop by itself. Then the edge is not ready (/-/ready) until
// that place has been calm for thirty seconds, so that a balancer with other edges uses those.
//
// # Tests
//
// Point marks where a test may make the edge panic. Under `-tags testing` Inject arms such a point;
// in a release Point is an empty function that the compiler removes.
package guard
