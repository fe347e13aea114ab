// Package poison remembers request bodies that have killed engines.
//
// If a request has killed an engine, retrying it would kill another engine, and the client's retries
// would kill more. A body that has killed two engines is therefore not sent to another engine while
// both are down. A body counts as having killed an engine if two conditions hold. First, the
// connection was lost before the first event or, if the answer is not streamed, before its end
// (package call). Second, probes now find the engine down. If an engine has merely closed a
// connection, probes soon find it up again. If another engine answers the body, the body is cleared.
//
// The package stores only a hash of the body with a random seed. The edges of a fleet share the
// seed and their records, so all of them refuse a body that has killed two engines. If no engine
// was lost recently, Blocks costs only two atomic loads.
package poison
