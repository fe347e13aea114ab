// Package poison remembers requests that brought down engines.
//
// A retry of such a request would bring down a second engine, and the client's own retries would
// bring down more. So a body that has brought down two engines is not sent to a third while both
// are still down. An engine counts as brought down by a body if its connection ended before its
// stream had started or its answer was complete (package call), and its probes now find it down. An
// engine that only dropped a connection is up again at once. A body that another engine has
// answered is cleared.
//
// The package keeps a hash of the body under a seed of this process, and no bytes of the body
// itself. The edges of a fleet share one seed and their losses, so all edges refuse a body that has
// brought down two engines. As long as no engine is lost, Blocks costs two atomic loads.
package poison
