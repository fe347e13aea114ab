package upstreams

import "time"

// Outcome is the outcome of a call's attempt at an upstream. The set is closed.
type Outcome uint8

// The outcomes. Timeout, Unreachable and BadResponse count against the upstream. The other outcomes
// never do.
const (
	OutcomeOK          Outcome = iota
	OutcomeClientGone          // the client left; says nothing about the upstream
	OutcomeTimeout             // a timeout of the edge, or the engine's 504
	OutcomeUnreachable         // no connection, or closed before the first byte
	OutcomeBadResponse         // a 5xx, or a broken, truncated or invalid reply
	OutcomeRefused             // the engine is full: 429, 503 with Retry-After, Profile.Overload
	OutcomeRejected            // the engine refused the request itself: 400, 413, 422, Profile.ClientFault
	OutcomeModelGone           // 404 for a model that the engine is configured to serve
	OutcomeStalled             // the call left a stalled upstream for another one
	OutcomeHandedOver          // the call left a drained upstream for another one
	outcomeCount
)

// String returns the outcome as a metric label.
func (o Outcome) String() string {
	return [...]string{
		"ok", "client_gone", "timeout", "unreachable", "bad_response", "refused", "rejected", "model_gone", "stalled",
		"handed_over",
	}[o]
}

// Failed reports whether the outcome counts against the upstream.
func (o Outcome) Failed() bool {
	return o == OutcomeTimeout || o == OutcomeUnreachable || o == OutcomeBadResponse
}

// FailureSource identifies the key and the request of a failed call, as evidence for the breaker.
// It holds no content of the request: Body is a hash with this process's seed.
type FailureSource struct {
	Key    string        // id of the client's key; empty: none
	Body   uint64        // seeded hash of the request's body; 0: unknown
	Served string        // the model's name at the engine, for a generation probe
	Kind   string        // the model's kind
	Sent   bool          // the request had been sent to the engine
	Begun  bool          // the answer had started, so a first token is no proof
	Limit  time.Duration // maximum wait of the call for its first token; 0: unknown
}

// independentOf reports whether two failures are independent evidence: they share neither key nor
// body. Calls without a key may all come from the same client, so they count as one key.
func (f FailureSource) independentOf(other FailureSource) bool {
	return f.Key != other.Key && (f.Body == 0 || f.Body != other.Body)
}
