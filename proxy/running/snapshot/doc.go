// Package snapshot compiles a configuration into the form that requests use. A snapshot is complete
// and immutable. A request loads a snapshot once and keeps it. A reload builds the next snapshot
// and replaces one pointer (package reload).
//
// A snapshot refers to state that survives reloads: health and calls in flight in package
// upstreams, and the state of limits in proxy/access/limit. Within a snapshot, only the
// ConfigVersion changes, because it counts the calls that started with the snapshot.
//
// Credentials are separate because the keys of a new file are applied before its models, and stay
// valid if its models are refused. If the credentials of a Snapshot are replaced (WithCredentials),
// its version does not change. While Ahead is true, a key gains no right to a model that the new
// file changes (AheadOf).
package snapshot
