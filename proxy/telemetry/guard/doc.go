// Package guard catches panics: a fault of ours costs the call or the round of work that met it,
// and never the process with everybody else's calls.
//
// # What a panic costs
//
// Each place says what its panics cost (places.go). Whatever starts a goroutine of a serving edge, or
// has one started, catches under a place: a test reads the sources, so a go statement without a guard
// does not pass. What is started again, is so after a pause of 100 ms, which doubles up to 10 s.
//
// # What is told
//
// A panic is counted by its place (penstock_panics_total) and logged with its type and its stack as
// functions and lines. Its value is not logged: it may hold a client's words. A place that panics
// ten times within ten seconds does not stop by itself. Then the edge is not ready (/-/ready),
// until that place has been calm for thirty seconds: a balancer that has other edges asks those.
//
// # Tests
//
// Point marks where a test may have the edge panic. Under `-tags testing` Inject arms such a point;
// in a release Point is an empty function that the compiler removes.
package guard
