// Package snapshot is one configuration as requests need it: the compiled form of a file over the
// upstreams that run. It is complete and immutable. A request loads it once and keeps it to its
// end; a reload builds the next one whole and swaps one pointer (package proxy).
//
// What outlives a reload is not in it but found through it: health and in-flight calls in
// upstreams, the state of keys' limits and the queues of models in proxy/access/limit. A ConfigVersion
// alone changes: it counts the calls that began with its snapshot.
//
// Credentials are a part of their own because the keys of a new file take effect before its models,
// and stay in force if its models are refused. A Snapshot under other credentials
// (WithCredentials) is the same version. While the credentials are Ahead of the models, a key has
// no right to a model that the new file changes (AheadOf).
//
// The request path and the reloading both import this package. It knows neither.
package snapshot
