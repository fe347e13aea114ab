// Package snapshot compiles a configuration into the form used by requests. A snapshot is complete
// and immutable. A request loads the current snapshot once, and uses it until the request ends. A
// reload builds a new snapshot and replaces one pointer (package reload).
//
// A snapshot refers to state that survives reloads: health and calls in flight in package
// upstreams, and the usage of limits in package limit. Within a snapshot, only the ConfigVersion
// changes, because it counts the calls that started with the snapshot.
//
// Credentials are separate because the keys in a new file are applied before its models, and stay
// valid even if its models are rejected. Replacing the credentials of a Snapshot (WithCredentials)
// does not change its version. While Ahead is true, a key gains no rights to models that the new
// file changes (ForRunningModels).
package snapshot
