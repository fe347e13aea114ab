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
	OutcomeRefused             // the engine is full: 429, 503 with Retry-After, Profile.Overload
	OutcomeRejected            // the engine rejected the request: 400, 413, 422, Profile.ClientFault
	OutcomeModelGone           // a 404 for a model that the upstream is configured to serve
	OutcomeStalled             // the call moved from a stalled upstream to another one
	OutcomeHandedOver          // the call moved from a drained upstream to another one
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

// FailureSource identifies the key and the request of a failed call. The breaker uses it as
// evidence. It contains no request content: Body is a hash with a per-process seed.
type FailureSource struct {
	Key    string // id of the client's key, or empty
	Body   uint64 // seeded hash of the request body, or 0 if unknown
	Served string // the model's name at the engine, used for a generation probe
	Kind   string // the model's kind
	Sent   bool   // the request was sent to the engine
	Begun  bool   // the response had begun, so a probe must check more than a first token
	// The engine answered 404 without a reason. The request may be at fault, so only a generation
	// probe that also gets a 404 opens the breaker.
	NotFound bool
	Limit    time.Duration // the call's timeout for its first token, or 0 if unknown
}

// isIndependentOf reports whether two failures are independent evidence. This requires different keys
// and different bodies. Calls without a key may all come from one client, so they count as the same
// key.
func (f FailureSource) isIndependentOf(other FailureSource) bool {
	return f.Key != other.Key && (f.Body == 0 || f.Body != other.Body)
}
