// Package kubernetes follows the pods that are an upstream's engines, with plain lists and watches
// from the API server. It knows pods, InferencePools and the API's framing, but not health or
// routing.
//
// # Followed pods
//
// The watcher follows the pods that a selector matches, or those of an InferencePool
// (inference.networking.k8s.io/v1), which has a selector and ports (pool.go). If a pod has an
// address, each of its ports is an endpoint (pod.go). A pod with a deletion timestamp does not
// count, whatever else its object says. Neither does a pod that has ended or whose role is prefill.
// Ready is only a hint, because probes judge engines.
//
// # How it is followed
//
//	Sync            one list, for a caller that needs a first answer
//	Run, RunPool    forever: list, watch until that ends, list again
//
// A list is read in pages, and the watch starts at the list's version (follow.go). Whatever ends
// the watch (its time limit, a closed connection, 410, an event of type ERROR, invalid bytes), the
// next step is a list. A watch never continues from the last position, because events may have been
// lost with the connection. Objects are identified by their UID, so a pod that was replaced under
// the same name is a new pod.
//
// # Failures
//
// If an API server is away, slow or hostile, or refuses access, the endpoints of the last good list
// stay. Pages, events, the number of pods and the rate of events are bounded. After a failure the
// watcher pauses for 200 ms to 10 s.
//
// The token and the CA are read from the account's folder for every list. A rotated token is thus
// in use after one watch (10 minutes), or after the pause that follows a 401.
//
// # Design
//
// The alternative is client-go, which adds 25 MB to the program, and 47 modules, for a GET whose
// body does not end. Requests go over http1, like those to engines. So there is only one HTTP
// client to trust, and its exchanges can be ended at any instant.
package kubernetes
