package call

import (
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/request/resume"
	"penstock/proxy/request/retry"
	"penstock/routing/turns"
	"penstock/upstreams"
)

// callAttempts is what a call remembers of its attempts.
type callAttempts struct {
	upstream    *upstreams.Upstream // of the current attempt
	targetCount int
	stepCounts  retry.SendCounts // how often each retry step has sent the call
	// Whether the call was sent to another engine because the engine, rather than the request, may
	// have caused the first refusal.
	resentInDoubt  bool
	leftEngine     bool                   // whether the client left while an engine was working
	pendingChanges endpoint.RejectedParts // request changes that no engine has accepted yet
	firstFailure   *failure.Failure       // first failure that was not resumed; nil if there is none
	// records the stream so that it can be resumed; nil if the stream cannot be resumed
	recording     *resume.PartialAnswerRecorder
	turn          turns.CallCharge // the key's turn; the zero value if keys do not take turns
	countRequests int              // number of requests that asked an engine to count tokens
}
