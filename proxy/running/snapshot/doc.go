// Package snapshot holds one configuration as requests need it: the compiled form of a file over
// the running upstreams. It is complete and immutable. A request loads it once and keeps it until
// it ends. A reload builds the next snapshot completely and replaces one pointer (package proxy).
//
// A snapshot only points to the state that outlives a reload: health and in-flight calls in package
// upstreams, the state of keys' limits and the queues of models in proxy/access/limit. Only a
// ConfigVersion changes: it counts the calls that began with its snapshot.
//
// Credentials are separate because the keys of a new file take effect before its models, and stay
// in force if its models are refused. A Snapshot with other credentials (WithCredentials) is the
// same version. As long as the credentials are Ahead of the models, a key has no right to a model
// that the new file changes (AheadOf).
//
// Both the request path and reloading import this package. It imports neither.
package snapshot
