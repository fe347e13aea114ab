// Package poison remembers requests that cost engines.
//
// Retrying such a request would cost a second engine, and the client's own retries would cost
// more. So a body that has cost two engines is not sent to a third while both are still down. An
// engine counts as lost to a body if its connection ended before its stream had begun or its
// answer was complete (package call), and its probes now find it down. An engine that only dropped
// a connection is up again at once. A body that another engine has answered is cleared.
//
// The package keeps a hash of the body under a seed of this process, and nothing of the body
// itself. The edges of a fleet share one seed and learn of each other's losses, so all of them
// refuse a body that has cost two engines. As long as no engine is lost, Blocks costs two atomic
// loads.
package poison
