package upstreams

import "time"

// Outcome is the outcome of an attempt to send a call to an upstream.
type Outcome uint8

// Only OutcomeTimeout, OutcomeUnreachable and OutcomeBadResponse count against the upstream.
const (
	OutcomeOK          Outcome = iota
	OutcomeClientGone          // the client disconnected
	OutcomeTimeout             // a timeout in the edge, or a 504 from the engine
	OutcomeUnreachable         // no connection, or the connection closed before the first byte
	OutcomeBadResponse         // a 5xx, a 404 without a reason, or a malformed or truncated response
	OutcomeRefused             // the engine is full: 429, 503 with Retry-After, Profile.IsOverload
	OutcomeRejected            // the engine rejected the request: 400, 413, 422, Profile.IsClientFault
	OutcomeModelGone           // a 404 for a model that the upstream is configured to serve
	OutcomeStalled             // the call moved from a stalled upstream to another upstream
	OutcomeHandedOver          // the call moved from a drained upstream to another upstream
	outcomeCount
)

// String returns the outcome as a metric label.
func (o Outcome) String() string {
	return [...]string{
		"ok", "client_gone", "timeout", "unreachable", "bad_response", "refused", "rejected", "model_gone", "stalled",
		"handed_over",
	}[o]
}

// IsFailure reports whether the outcome counts against the upstream.
func (o Outcome) IsFailure() bool {
	return o == OutcomeTimeout || o == OutcomeUnreachable || o == OutcomeBadResponse
}

// FailureSource identifies the key and the request of a failed call, as evidence for the breaker.
// It contains no request content: Body is a hash with a per-process seed.
type FailureSource struct {
	Key    string // id of the client's key, or empty
	Body   uint64 // seeded hash of the request body, or 0 if unknown
	Served string // the model's name at the engine, for a generation probe
	Kind   string // the model's kind
	Sent   bool   // the request was sent to the engine
	Begun  bool   // the response had begun, so a generation probe must check more than the first token
	// NotFound means that the engine answered 404 without a reason. The request may be at fault, so
	// the breaker opens only if a generation probe also gets a 404.
	NotFound bool
	Limit    time.Duration // the call's timeout for its first token, or 0 if unknown
}

// isIndependentOf reports whether two failures are independent evidence, because their keys and
// bodies differ. Calls without a key may all come from one client, so they count as calls of the
// same key.
func (f FailureSource) isIndependentOf(other FailureSource) bool {
	return f.Key != other.Key && (f.Body == 0 || f.Body != other.Body)
}
