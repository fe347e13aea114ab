package upstreams

import "time"

// Outcome is the result of a call's attempt at an upstream. The set is closed.
type Outcome uint8

// The outcomes. Timeout, Unreachable and BadResponse count against the upstream; the others never
// do.
const (
	OutcomeOK          Outcome = iota
	OutcomeClientGone          // the client left; says nothing about the upstream
	OutcomeTimeout             // one of our clocks ran out, or the engine answered 504
	OutcomeUnreachable         // no connection, or reset or closed before a byte
	OutcomeBadResponse         // a 5xx, a broken or cut reply, a reply that makes no sense
	OutcomeRefused             // the engine said it is full: 429, 503 with Retry-After, Profile.Overload
	OutcomeRejected            // the engine refused the request itself: 400, 413, 422, Profile.ClientFault
	OutcomeModelGone           // it answered 404 for a model that it is configured to serve
	OutcomeStalled             // the call left an upstream that had stalled for another one
	OutcomeHandedOver          // the call left an upstream whose drain time was over for another one
	outcomeCount
)

// String returns the outcome as a metric label.
func (o Outcome) String() string {
	return [...]string{
		"ok", "client_gone", "timeout", "unreachable", "bad_response", "refused", "rejected", "model_gone", "stalled",
		"handed_over",
	}[o]
}

// failed reports whether the outcome counts against the upstream.
func (o Outcome) failed() bool {
	return o == OutcomeTimeout || o == OutcomeUnreachable || o == OutcomeBadResponse
}

// FailureSource is the key and the request of a failed call, as evidence for the breaker. It holds
// nothing of the request itself: Body is a hash under a seed of this process.
type FailureSource struct {
	Key    string        // id of the client's key; empty: none
	Body   uint64        // hash of the request's body; 0: unknown
	Served string        // the model's name at the engine, which a generation probe uses
	Kind   string        // of the model
	Sent   bool          // the request had reached the engine
	Begun  bool          // the answer had begun, so a first token does not show the failure
	Limit  time.Duration // how long such a call may wait for its first token; 0: unknown
}

// independentOf reports whether two failures are independent evidence: neither the same key nor the
// same body. Calls without a key may all come from one client, so they count as one key.
func (f FailureSource) independentOf(other FailureSource) bool {
	return f.Key != other.Key && (f.Body == 0 || f.Body != other.Body)
}
