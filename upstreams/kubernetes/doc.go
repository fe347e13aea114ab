// Package kubernetes watches the pods of an upstream's engines, with plain lists and watches from
// the API server. It handles pods, InferencePools and the API's framing, and leaves health and
// routing to its callers.
//
// # Watched pods
//
// A PodWatcher watches the pods that match a selector, or the pods of an InferencePool
// (inference.networking.k8s.io/v1). An InferencePool defines a selector and ports (pool.go). If a
// pod has an IP address, each of its ports is an endpoint (pod.go). A pod has no endpoints if it
// has a deletion timestamp, has terminated, or has a role that cannot serve a call alone, such as
// prefill. The Ready condition is only a hint, because the edge probes the engines.
//
// # Lists and watches
//
//	Sync            one list, for a caller that waits for a first result
//	Run, RunPool    forever: list, watch until the watch ends, list again
//
// The watcher reads a list in pages, and then watches for changes after the version of the list
// (reflector.go). A watch ends at its time limit, when the connection is closed, or with a 410, an
// event of type ERROR, or invalid bytes. The watcher always continues with a new list. It does not
// resume after the last event, because events may have been lost with the connection. Objects are
// identified by UID, so a pod that is recreated under the same name counts as a new pod.
//
// # Failures
//
// If the API server is unreachable, slow or hostile, or denies access, the endpoints from the last
// complete list remain. The watcher limits the size of pages and events, the number of pods and the
// event rate. After a failure, the watcher pauses for 200 ms to 10 s.
//
// The watcher reads the token and the CA certificate from the account's folder before every list.
// It therefore starts to use a rotated token when the current watch ends (after at most 10
// minutes), or after the pause that follows a 401.
//
// # Design
//
// client-go would add 25 MB and 47 modules to the program, just to send a GET request whose
// response does not end. Requests to the API server use package http1, like requests to engines. An
// http1.Exchange can be aborted at any time.
package kubernetes
