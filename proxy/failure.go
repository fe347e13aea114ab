package proxy

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"penstock/proxy/observe"
	"penstock/routing"
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/engineerror"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// This file is the only place where a fact (an engine failed so, a pool is full) becomes an API
// error, an outcome for the upstream's health, a label for the metrics, and the answer to "may it
// be sent again?".

// failure is one attempt's bad end.
type failure struct {
	api     *apierr.Error
	outcome upstreams.Outcome // what the upstream's health is told
	result  observe.Outcome   // what the call's record says when this failure is final
	retry   bool              // another target may be asked, when nothing was committed
	notNow  bool              // the same engine may say otherwise in a moment; see Call.mayRepeat
	gone    bool              // the engine's host has vanished; see Call.mayMove
	status  int               // what the engine answered, where it did
	label   string            // the error's code in metrics and log, where it is not the error's own
}

// Error implements error, so that a failure can be returned where any error can.
func (f *failure) Error() string { return f.api.Error() }

// Causes of an abort.
var (
	errClientGone = errors.New("client gone")
	errDrained    = errors.New("the edge is shutting down")
	errRevoked    = errors.New("the key was revoked")
	errPanicked   = errors.New("panic")
)

// What the log says of a call whose client has gone.
const (
	statusClientGone = 499
	codeClientGone   = "client_gone"
)

// upstreamFailed is the answer to an engine that failed in a way the client cannot mend.
func upstreamFailed(code, message string) *apierr.Error {
	return apierr.New(502, code, "%s", message)
}

func badResponse(cause error) *failure {
	e := upstreamFailed(apierr.CodeUpstreamBadResponse, "The engine gave an answer that could not be understood.")
	e.Cause = cause
	switch reasonOf(cause) {
	case http1.ReasonTruncated, http1.ReasonReset, http1.ReasonEOF, http1.ReasonSilent:
		e.Message = "The connection to the engine was lost before its answer was whole."
	}
	if errors.Is(cause, translate.ErrNoFinish) {
		e.Message = "The engine ended its answer before it was whole."
	}
	f := &failure{api: e, outcome: upstreams.OutcomeBadResponse, result: observe.UpstreamFail, retry: true}
	var bad *translate.BadAnswer
	if errors.As(cause, &bad) && bad.ByModel { // it may say it better next time; its engine is well
		e.Message = "The model called a tool with arguments that break off."
		f.outcome = upstreams.OutcomeOK
	}
	return f
}

func generationTimeout(cause error) *failure {
	return &failure{
		api: &apierr.Error{
			Status: 504, Type: apierr.TypeTimeout, Code: apierr.CodeGenerationTimeout, RetryAfter: retryLater, Cause: cause,
			Message: "The engine did not answer in time. Retry after 5 seconds.",
		},
		outcome: upstreams.OutcomeTimeout, result: observe.Timeout,
	}
}

func noHealthyRoute(after time.Duration) *apierr.Error {
	return &apierr.Error{
		Status: 503, Type: apierr.TypeAPI, Code: apierr.CodeNoHealthyRoute, RetryAfter: after,
		Message: fmt.Sprintf("No healthy engine serves this model at the moment. Retry after %s.", seconds(after)),
	}
}

func internalError(cause error) *failure {
	return &failure{
		api:     apierr.Internal(cause),
		outcome: upstreams.OutcomeClientGone, result: observe.Internal,
	}
}

// fromAbort is the end of a call that somebody ended on purpose; the engine is not to blame.
func fromAbort(cause error) *failure {
	f := &failure{outcome: upstreams.OutcomeClientGone}
	switch {
	case errors.Is(cause, errClientGone):
		f.result = observe.ClientGone
		f.api = &apierr.Error{Status: statusClientGone, Type: apierr.TypeAPI, Code: codeClientGone, Message: "The client left."}
	case errors.Is(cause, errRevoked):
		f.result = observe.ClientError
		f.label = "revoked" // in the log: the client was right when it began
		f.api = &apierr.Error{Status: 401, Type: apierr.TypeAuthentication, Code: apierr.CodeInvalidAPIKey, Message: "The API key was revoked."}
	default:
		f.result = observe.Drained
		f.api = &apierr.Error{
			Status: 503, Type: apierr.TypeAPI, Code: apierr.CodeShuttingDown, RetryAfter: retrySoon,
			Message: "The edge is shutting down. Retry after 1 second.",
		}
	}
	return f
}

// fromExchange maps what went wrong on the way to an engine and back.
func fromExchange(err error) *failure {
	f := fromTransport(err)
	f.gone = errors.Is(err, http1.ErrHostVanished)
	return f
}

func fromTransport(err error) *failure {
	var f *http1.Failure
	if !errors.As(err, &f) {
		return badResponse(err)
	}
	switch f.Kind {
	case http1.Aborted:
		if own := (*apierr.Error)(nil); errors.As(f.Err, &own) { // of the client's body, while it was passed on
			f := clientError(own)
			f.outcome = upstreams.OutcomeClientGone
			return f
		}
		return fromAbort(f.Err)
	case http1.Timeout:
		if f.Clock != http1.ClockConnect { // the one clock that runs before anything is sent
			return generationTimeout(err)
		}
		fallthrough
	case http1.Unreachable:
		e := upstreamFailed(apierr.CodeUpstreamUnreachable, "The engine could not be reached.")
		e.Cause = err
		return &failure{api: e, outcome: upstreams.OutcomeUnreachable, result: observe.UpstreamFail, retry: true}
	default:
		b := badResponse(err)
		if errors.Is(err, http1.ErrHostVanished) {
			b.outcome = upstreams.OutcomeUnreachable // nobody answered so badly
		}
		return b
	}
}

// clientError is the failure of a call that was refused before it reached an engine.
func clientError(err error) *failure {
	var e *apierr.Error
	if !errors.As(err, &e) {
		return internalError(err)
	}
	f := &failure{api: e, result: observe.ClientError}
	switch {
	case e.Status == 429 || e.Status == 503:
		f.result = observe.Limited
	case errors.Is(e.Cause, errClientGone):
		f.result, f.label = observe.ClientGone, codeClientGone
	}
	return f
}

// fromAcquire maps a pick that found no slot. room is how long a client is to wait for a slot of a
// full pool, target for an engine that may be asked at all.
func fromAcquire(err error, room, target time.Duration) *failure {
	var full *routing.FullError
	if errors.As(err, &full) {
		return &failure{api: poolFull(full, room), result: observe.Limited}
	}
	return &failure{api: noHealthyRoute(min(jitter(max(target, retrySoon)), retryMax)), result: observe.NoRoute}
}

// poolFull is the admission refusal. Vision saturation carries the contract's metadata.
func poolFull(full *routing.FullError, retryAfter time.Duration) *apierr.Error {
	c := full.Capacity
	e := &apierr.Error{Status: 429, Type: apierr.TypeRateLimit, Code: apierr.CodeCapacityFull, RetryAfter: max(retryAfter, retrySoon)}
	if full.Pool != upstreams.PoolVision {
		e.Message = fmt.Sprintf("All slots of this model are in use. Retry after %s.", seconds(e.RetryAfter))
		return e
	}
	e.Message = fmt.Sprintf("All vision slots of this model are in use (%d active of %d). Retry after %s.", c.Active, c.Total, seconds(e.RetryAfter))
	e.Metadata = &apierr.Metadata{
		RetryAfter: e.RetryAfterSeconds(), Modality: "vision", State: "saturated",
		ActiveRequests: c.Active, TotalConcurrency: c.Total, AvailableConcurrency: c.Available,
	}
	return e
}

// reasonOf names why an exchange failed, from a closed set: errors of the network hold addresses.
func reasonOf(err error) string {
	var f *http1.Failure
	if errors.As(err, &f) && f.Reason != "" {
		return f.Reason
	}
	return "invalid"
}

// fromStatus maps an engine's refusal: a status of its own, or an error event that came before
// anything was committed.
func fromStatus(status int, e *engineerror.Error, retryAfter time.Duration) *failure {
	retryAfter = min(max(retryAfter, retrySoon), retryMax)
	f := &failure{outcome: upstreams.OutcomeBadResponse, result: observe.UpstreamFail, status: status}
	switch {
	case e.ClientFault || status == 400 || status == 413 || status == 422:
		f.api, f.outcome, f.result = rejected(status, e), upstreams.OutcomeRejected, observe.ClientError
		if c := f.api.Code; c != apierr.CodeContextLength && c != apierr.CodeRequestTooLarge {
			f.label = apierr.CodeRejectedByEngine // an engine's own code is not ours to label with
		}
	case status == 429:
		f.outcome, f.result, f.retry = upstreams.OutcomeRefused, observe.Limited, true
		f.api = &apierr.Error{
			Status: 429, Type: apierr.TypeRateLimit, Code: apierr.CodeCapacityFull, RetryAfter: retryAfter,
			Message: fmt.Sprintf("The engines of this model are at capacity. Retry after %s.", seconds(retryAfter)),
		}
	case status == 503 || status == 529:
		f.outcome, f.result, f.retry = upstreams.OutcomeRefused, observe.NoRoute, true
		f.api = noHealthyRoute(retryAfter)
	case e.Absent == engineerror.AbsentPath:
		return noEndpoint(status)
	case status == 404:
		f.outcome, f.result, f.retry = upstreams.OutcomeRejected, observe.NoRoute, true
		f.api = noHealthyRoute(retryAfter)
	case status == 504:
		return generationTimeout(nil)
	case status == 401 || status == 403:
		f.api = upstreamFailed(apierr.CodeUpstreamAuth, "The engine refused the edge's credential.")
	case status == 502:
		f.retry = true
		f.api = upstreamFailed(apierr.CodeUpstreamFailed, "The engine failed.")
	case status >= 500:
		f.api = upstreamFailed(apierr.CodeUpstreamFailed, "The engine failed.")
	default: // 402, 415, 424, redirects, 101, 204 and whatever else is no answer to a generation
		f.api = upstreamFailed(apierr.CodeUpstreamBadResponse, "The engine gave an answer that could not be understood.")
	}
	return f
}

// noEndpoint is the failure of a call to an engine that does not have its endpoint. Another engine
// may have it; to come back later does not help, and says nothing about the engine's other
// endpoints.
func noEndpoint(status int) *failure {
	return &failure{
		api:     upstreamFailed(apierr.CodeUpstreamFailed, "The engine does not have this endpoint."),
		outcome: upstreams.OutcomeRejected, result: observe.UpstreamFail, retry: true, status: status,
	}
}

// rejected passes an engine's complaint about the request on, cleaned: it helps the client to mend
// it.
func rejected(status int, e *engineerror.Error) *apierr.Error {
	a := &apierr.Error{Status: 400, Type: apierr.TypeInvalidRequest, Code: e.Code, Message: e.Message}
	if status == 413 {
		a.Status, a.Type, a.Code = 413, apierr.TypeTooLarge, apierr.CodeRequestTooLarge
	}
	a.Image = a.Status == 400 && e.AboutImages()
	if e.ContextOverflow {
		a.Code = apierr.CodeContextLength
		a.Param = "messages"
		a.Overflow = apierr.Overflow{Prompt: e.ContextPrompt, Answer: e.ContextAnswer, Max: e.ContextMax, Least: e.ContextAtLeast}
	}
	if a.Code == "" || isNumber(a.Code) {
		a.Code = apierr.CodeRejectedByEngine
	}
	if a.Message == "" {
		a.Message = "The engine rejected the request without saying why."
	}
	return a
}

// fromStreamError maps an error event inside a stream. What reads as the client's fault keeps the
// engine's words.
func fromStreamError(e *engineerror.Error) *failure {
	status := e.Status
	if status == 0 {
		status = 500
	}
	return fromStatus(status, e, 0)
}

func isNumber(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}
