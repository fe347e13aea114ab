// Package kubernetes follows the pods that are an upstream's engines, by plain lists and watches of
// the API server. It knows pods, InferencePools and the API's framing, and nothing of health or
// routing.
//
// # What is followed
//
// The pods of a selector, or those of an InferencePool (inference.networking.k8s.io/v1), which has
// a selector and ports (pool.go). Every pod and port with an address is an endpoint (pod.go). A pod
// with a deletion timestamp no longer is one, whatever else it says. Neither is a pod that has
// ended or whose role is prefill. Ready is a hint: probes judge engines.
//
// # How it is followed
//
//	Sync            one list, for a caller that needs a first answer
//	Run, RunPool    forever: list, watch until that ends, list again
//
// A list is read in pages, and the watch starts at its version (follow.go). Whatever ends the watch
// (its time, a closed connection, 410, an event of the type ERROR, bytes that are no event), the
// next step is a list, never a watch from the last position: events lost with the connection cannot
// be known. Objects are identified by their UID, so a pod that was replaced under its name is
// another one.
//
// # What may go wrong
//
// An API server that is away, slow, hostile or forbidden changes nothing: the endpoints of the last
// good list stay. Pages, events and the number of pods are bounded, and so is the rate of events.
// After a failure the watcher pauses, from 200 ms to 10 s.
//
// The token and the CA are read from the account's folder for every list. So a rotated token is
// never older than one watch (10 minutes), or than the pause after a 401.
//
// # Design
//
// The alternative is client-go: 25 MB of program and 47 modules for a GET whose body does not end.
// Requests go over http1, like those to engines: one HTTP client to trust, whose exchanges end at
// any instant.
package kubernetes
