// Package poison records request bodies that have killed engines.
//
// If a request killed an engine, retrying it would kill another engine, and the client's retries
// would kill more engines. A body that has killed two engines is therefore not sent to another
// engine while both of these engines are down. A body counts as having killed an engine under two
// conditions. First, the connection was lost before the first event or, if the answer is not
// streamed, before the end of the answer (package call). Second, probes now find the engine down.
// If the engine only closed a connection, probes soon find it up again. If another engine answers
// the request, the record of the body is cleared.
//
// The package stores only a hash of the body, which is computed with a random seed. The edges of a
// fleet share the seed and their records, so every edge rejects a body that has killed two engines.
// If no engine was lost recently, IsBlocked only costs two atomic loads.
package poison
