// Package snapshot holds one configuration in the form that requests use: a file, compiled for the
// running upstreams. A snapshot is complete and immutable. A request loads one snapshot and keeps
// it until the request ends. A reload builds the next snapshot completely and replaces one pointer
// (package reload).
//
// A snapshot only points to state that outlives a reload: health and in-flight calls in package
// upstreams, and the state of keys' limits in proxy/access/limit. Within a snapshot only the
// ConfigVersion changes. It counts the calls that started with the snapshot.
//
// Credentials are separate because the keys of a new file take effect before its models, and stay
// in force if its models are refused. A Snapshot with other credentials (WithCredentials) keeps its
// version. As long as the credentials are Ahead of the models, a key has no right to a model that
// the new file changes (AheadOf).
//
// Both the request path and package reload import this package. It imports neither.
package snapshot
