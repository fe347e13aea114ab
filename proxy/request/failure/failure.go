package failure

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"penstock/proxy/access/limit"
	"penstock/proxy/request/body"
	"penstock/proxy/request/retry"
	"penstock/proxy/telemetry/observe"
	"penstock/routing"
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/engineerror"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// Failure describes why an attempt or a call failed.
type Failure struct {
	API     *apierr.Error
	Outcome upstreams.Outcome // outcome for the upstream's health
	Result  observe.Outcome   // outcome in the call record if this failure is final
	// Whether another target may be tried if the client has received nothing yet.
	Retry  bool
	NotNow bool                       // whether the same engine may be able to answer soon
	Doubt  *upstreams.DisputedRefusal // set if the engine rather than the request may be at fault
	// Whether the call leaves the engine because it vanished, stalled or was drained.
	Gone        bool
	Cause       upstreams.Cause // why the attempt failed; empty if the upstream is not to blame
	Status      int             // status of the engine's response; 0 if there was none
	MessageHash uint64          // hash of the engine's error message for a 500, a 501 or IsBareNotFound; otherwise 0
	Label       string          // error code in metrics and the log; if empty, API.Code

	About engineerror.RejectedSubject // what the engine rejected; it may accept the same thing in another form
}

// Error implements error.
func (f *Failure) Error() string { return f.API.Error() }

// RetryCause returns the cause for package retry.
func (f *Failure) RetryCause() retry.Cause {
	switch {
	case f.Gone:
		return retry.CauseMustLeaveEngine
	case f.NotNow:
		return retry.CauseNotNow
	case f.Retry && (f.Outcome == upstreams.OutcomeModelGone || f.Cause == upstreams.CauseNoEndpoint || f.IsBareNotFound()):
		return retry.CauseModelGone
	case f.Retry && f.Outcome == upstreams.OutcomeRefused:
		return retry.CauseEngineFull
	case f.Retry && f.API.Code == apierr.CodeUpstreamBadResponse:
		return retry.CauseBadAnswer
	case f.Retry:
		return retry.CauseConnectionLost
	case f.MessageHash != 0:
		return retry.CauseEngineFailed
	case f.API.Code == apierr.CodeContextLength:
		return retry.CausePromptTooLong
	case f.Doubt != nil:
		return retry.CauseDoubtfulRejection
	}
	return retry.CauseFinal
}

// IsBareNotFound reports whether the engine answered 404 without saying what is missing. The edge
// itself has chosen the path and the model's name. Therefore, either the engine or its
// configuration is at fault, or the request names something else that does not exist.
func (f *Failure) IsBareNotFound() bool { return f.Cause == upstreams.CauseStatus && f.Status == 404 }

// CanResume reports whether another engine may continue an answer that this failure interrupted. It
// also returns true for timeouts and for an engine without a free slot.
func (f *Failure) CanResume() bool {
	switch f.Outcome {
	case upstreams.OutcomeUnreachable, upstreams.OutcomeBadResponse, upstreams.OutcomeRefused, upstreams.OutcomeTimeout,
		upstreams.OutcomeStalled, upstreams.OutcomeHandedOver:
		return true
	default:
		return false
	}
}

// These are the reasons for canceling a call.
var (
	ErrClientGone   = body.ErrClientGone // the client closed its side of the connection
	ErrShuttingDown = errors.New("the edge is shutting down")
	ErrRevoked      = errors.New("the key was revoked")
	ErrPanicked     = errors.New("panic")
)

// StatusClientGone is the status in the log for a call whose client disconnected. The codes show
// why the client received no answer.
const (
	StatusClientGone = 499
	codeClientGone   = "client_gone"
	codeRevoked      = "revoked" // the key was removed during the call
)

func upstreamError(code, message string) *apierr.Error {
	return apierr.New(502, code, "%s", message)
}

// BadResponse returns the failure for an invalid response from an engine.
func BadResponse(cause error) *Failure {
	e := upstreamError(apierr.CodeUpstreamBadResponse, "The engine gave an answer that could not be understood.")
	e.Cause = cause
	why := exchangeCause(cause)
	switch string(why) {
	case http1.ReasonTruncated, http1.ReasonReset, http1.ReasonEOF, http1.ReasonSilent:
		e.Message = "The connection to the engine was lost before its answer was whole."
	}
	if errors.Is(cause, translate.ErrNoFinish) {
		e.Message = "The engine ended its answer before it was whole."
	}
	if errors.Is(cause, translate.ErrNoAnswerLength) {
		e.Message = "The engine's answer had no length, so it cannot be known to be complete."
	}
	f := &Failure{
		API: e, Cause: why, Outcome: upstreams.OutcomeBadResponse, Result: observe.OutcomeUpstreamFail, Retry: true,
	}
	var bad *translate.BadAnswerError
	if errors.As(cause, &bad) && bad.ByModel { // a retry may succeed, and the engine is healthy
		e.Message = "The model called a tool with arguments that break off."
		f.Outcome = upstreams.OutcomeOK
	}
	return f
}

// GenerationTimeout returns the failure for an engine that exceeded a time limit. why names the
// limit.
func GenerationTimeout(why upstreams.Cause, cause error) *Failure {
	message := "The engine did not answer in time. Retry after 5 seconds."
	if why == upstreams.CauseTotalTimeout { // the call may have spent the time in the queue
		message = "The call took longer than the model's time limit. Retry after 5 seconds."
	}
	return &Failure{
		API: &apierr.Error{
			Status: 504, Type: apierr.TypeTimeout, Code: apierr.CodeGenerationTimeout, RetryAfter: longRetryAfter, Cause: cause,
			Message: message,
		},
		Cause: why, Outcome: upstreams.OutcomeTimeout, Result: observe.OutcomeTimeout,
	}
}

// EngineStalled returns the failure for a call that leaves a stalled engine.
func EngineStalled() *Failure {
	f := GenerationTimeout(upstreams.CauseStalled, nil)
	f.Outcome, f.Gone = upstreams.OutcomeStalled, true
	return f
}

// EngineDown returns the failure for a call whose engine is down and silent
// (upstreams.Health.IsSilent). The call moves to another engine, as if the host of this engine had
// vanished.
func EngineDown() *Failure {
	return &Failure{
		API:   upstreamError(apierr.CodeUpstreamUnreachable, "The engine stopped answering before its answer was whole."),
		Cause: http1.ReasonSilent, Outcome: upstreams.OutcomeUnreachable, Result: observe.OutcomeUpstreamFail, Retry: true, Gone: true,
	}
}

// EngineDraining returns the failure for a call that leaves an engine whose drain time has passed.
func EngineDraining() *Failure {
	return &Failure{
		API: noHealthyRouteError(ShortRetryAfter), Cause: upstreams.CauseHandedOver,
		Outcome: upstreams.OutcomeHandedOver, Result: observe.OutcomeNoRoute, Gone: true,
	}
}

func noHealthyRouteError(after time.Duration) *apierr.Error {
	return &apierr.Error{
		Status: 503, Type: apierr.TypeAPI, Code: apierr.CodeNoHealthyRoute, RetryAfter: after,
		Message: fmt.Sprintf("No healthy engine serves this model at the moment. Retry after %s.", formatSeconds(after)),
	}
}

// Internal returns a failure of the edge itself.
func Internal(cause error) *Failure {
	return &Failure{
		API:     apierr.InternalError(cause),
		Outcome: upstreams.OutcomeClientGone, Result: observe.OutcomeInternal,
	}
}

// FromAbort returns the failure for a canceled call. It does not count against the engine's health.
func FromAbort(cause error) *Failure {
	f := &Failure{Outcome: upstreams.OutcomeClientGone}
	switch {
	case errors.Is(cause, ErrClientGone):
		f.Result = observe.OutcomeClientGone
		f.API = &apierr.Error{
			Status: StatusClientGone, Type: apierr.TypeAPI, Code: codeClientGone, Message: "The client left.",
		}
	case errors.Is(cause, ErrRevoked):
		f.Result = observe.OutcomeClientError
		f.Label = codeRevoked
		f.API = apierr.New(401, apierr.CodeInvalidAPIKey, "The API key was revoked.")
	default:
		f.Result = observe.OutcomeDrained
		f.API = &apierr.Error{
			Status: 503, Type: apierr.TypeAPI, Code: apierr.CodeShuttingDown, RetryAfter: ShortRetryAfter,
			Message: "The edge is shutting down. Retry after 1 second.",
		}
	}
	return f
}

// FromExchange returns the failure for an error of an exchange with an engine.
func FromExchange(err error) *Failure {
	f := fromTransport(err)
	f.Gone = errors.Is(err, http1.ErrHostVanished)
	return f
}

func fromTransport(err error) *Failure {
	var f *http1.Failure
	if !errors.As(err, &f) {
		return BadResponse(err)
	}
	switch f.Kind {
	case http1.KindAborted:
		if own := (*apierr.Error)(nil); errors.As(f.Err, &own) { // caused by the client's body
			f := FromRequestError(own)
			f.Outcome = upstreams.OutcomeClientGone
			return f
		}
		return FromAbort(f.Err)
	case http1.KindTimeout:
		if f.Clock != http1.TimeoutConnect { // only the connect limit applies before the request is sent
			return GenerationTimeout(upstreams.CauseWriteTimeout, err)
		}
		fallthrough
	case http1.KindUnreachable:
		e := upstreamError(apierr.CodeUpstreamUnreachable, unreachableMessage(f.Reason))
		e.Cause = err
		return &Failure{
			API: e, Cause: exchangeCause(err), Outcome: upstreams.OutcomeUnreachable, Result: observe.OutcomeUpstreamFail, Retry: true,
		}
	default:
		b := BadResponse(err)
		if errors.Is(err, http1.ErrHostVanished) {
			// The engine counts as unreachable instead of as having sent an invalid response.
			b.Outcome = upstreams.OutcomeUnreachable
		}
		return b
	}
}

// unreachableMessage describes what happened to the connection. Either the engine was never
// reached, or the connection was lost while the engine was working.
func unreachableMessage(reason string) string {
	switch reason {
	case http1.ReasonEOF:
		return "The engine closed the connection before its answer."
	case http1.ReasonReset:
		return "The engine's connection was reset before its answer."
	case http1.ReasonSilent:
		return "The engine's host fell silent before its answer."
	}
	return "The engine could not be reached."
}

// FromRequestError returns the failure for a call that was rejected before it reached an engine.
func FromRequestError(err error) *Failure {
	var e *apierr.Error
	if !errors.As(err, &e) {
		return Internal(err)
	}
	f := &Failure{API: e, Result: observe.OutcomeClientError}
	switch {
	case e.Status == 429 || e.Status == 503:
		f.Result = observe.OutcomeLimited
	case errors.Is(e.Cause, ErrClientGone):
		f.Result, f.Label = observe.OutcomeClientGone, codeClientGone
	}
	return f
}

// FromRoutingError returns the failure for a call that did not get a slot. room is the Retry-After
// if the pool is full. target is the time until an engine accepts calls again.
func FromRoutingError(err error, room, target time.Duration) *Failure {
	var full *routing.FullError
	if errors.As(err, &full) {
		return &Failure{API: poolFullError(full, room), Result: observe.OutcomeLimited}
	}
	return &Failure{API: noHealthyRouteError(min(limit.AddJitter(max(target, ShortRetryAfter)), retryMax)), Result: observe.OutcomeNoRoute}
}

// poolFullError returns the error for a full pool. If a vision pool is full, the error contains the
// metadata that the contract requires.
func poolFullError(full *routing.FullError, retryAfter time.Duration) *apierr.Error {
	c := full.Capacity
	e := apierr.New(429, apierr.CodeCapacityFull, "")
	e.RetryAfter = max(retryAfter, ShortRetryAfter)
	e.Message = poolFullMessage(full) + " Retry after " + formatSeconds(e.RetryAfter) + "."
	if full.Pool != upstreams.PoolVision {
		return e
	}
	e.Metadata = newVisionPoolLoadMetadata(e, &c)
	return e
}

func newVisionPoolLoadMetadata(e *apierr.Error, c *routing.Capacity) *apierr.VisionPoolLoadMetadata {
	return &apierr.VisionPoolLoadMetadata{
		RetryAfter: e.RetryAfterSeconds(), Modality: "vision", State: "saturated",
		ActiveRequests: c.Active, TotalConcurrency: c.Total, AvailableConcurrency: c.Available,
	}
}

// AddVisionPoolLoad adds the load of the vision pool to the error if an engine refused a vision
// request because it was at capacity. The error is then like the one for a full pool.
func (f *Failure) AddVisionPoolLoad(c routing.Capacity) {
	e := f.API
	if e.Code != apierr.CodeCapacityFull || e.Metadata != nil {
		return
	}
	c.Available = 0 // the edge has a slot, but the engine does not
	e.Metadata = newVisionPoolLoadMetadata(e, &c)
	e.Message = fmt.Sprintf("The engines of this model are at capacity (%d active of %d vision slots). Retry after %s.",
		c.Active, c.Total, formatSeconds(e.RetryAfter))
}

// poolFullMessage returns the message for a full pool. It says that all slots are in use, or that
// some slots are unusable because their engines do not respond to probes.
func poolFullMessage(full *routing.FullError) string {
	slots, numbers := "slots", ""
	if full.Pool == upstreams.PoolVision {
		slots, numbers = "vision slots", fmt.Sprintf(" (%d active of %d)", full.Capacity.Active, full.Capacity.Total)
	}
	switch full.Silent {
	case 0:
		return "All " + slots + " of this model are in use" + numbers + "."
	case 1:
		return "No " + slots + " of this model are free" + numbers + ": one of its engines does not answer its probes."
	default:
		return fmt.Sprintf("No %s of this model are free%s: %d of its engines do not answer their probes.", slots, numbers, full.Silent)
	}
}

// exchangeCause returns why an exchange failed or why its response is invalid. The log contains
// this cause instead of the error, because network errors contain addresses.
func exchangeCause(err error) upstreams.Cause {
	var (
		exchange *http1.Failure
		answer   *translate.BadAnswerError
	)
	switch {
	case errors.As(err, &exchange) && exchange.Kind == http1.KindTimeout && exchange.Clock == http1.TimeoutConnect:
		return upstreams.CauseConnectTimeout
	case errors.As(err, &exchange) && exchange.Reason != "":
		return upstreams.Cause(exchange.Reason)
	case errors.Is(err, translate.ErrNoFinish):
		return upstreams.CauseUnfinished
	case errors.Is(err, translate.ErrNoAnswerLength):
		return upstreams.CauseNoLength
	case errors.As(err, &answer) && answer.ByModel:
		return upstreams.CauseToolArguments
	}
	return upstreams.CauseBadAnswer
}

// WrongReplyContentType returns the failure for a response whose Content-Type does not match the
// request.
func WrongReplyContentType(cause error) *Failure {
	f := BadResponse(cause)
	f.Cause = upstreams.CauseContentType
	return f
}

// FromStatus returns the failure for an engine's refusal. A refusal is a status other than 200 or
// an error event before the commit.
func FromStatus(status int, e *engineerror.Error, retryAfter time.Duration) *Failure {
	retryAfter = min(max(retryAfter, ShortRetryAfter), retryMax)
	f := &Failure{
		Cause: upstreams.CauseStatus, Outcome: upstreams.OutcomeBadResponse, Result: observe.OutcomeUpstreamFail, Status: status,
	}
	switch {
	case e.ClientFault || status == 400 || status == 413 || status == 422:
		f.API, f.Outcome, f.Result = rejectionError(status, e), upstreams.OutcomeRejected, observe.OutcomeClientError
		f.Cause, f.About = upstreams.CauseRejected, e.Subject
		if c := f.API.Code; c != apierr.CodeContextLength && c != apierr.CodeRequestTooLarge {
			f.Label = apierr.CodeRejectedByEngine // an engine's error code must not become a label
		}
	case status == 429:
		f.Cause, f.Outcome, f.Result, f.Retry = upstreams.CauseConnectionRefused, upstreams.OutcomeRefused, observe.OutcomeLimited, true
		f.API = &apierr.Error{
			Status: 429, Type: apierr.TypeRateLimit, Code: apierr.CodeCapacityFull, RetryAfter: retryAfter,
			Message: fmt.Sprintf("The engines of this model are at capacity. Retry after %s.", formatSeconds(retryAfter)),
		}
	case status == 503 || status == 529:
		f.Cause, f.Outcome, f.Result, f.Retry = upstreams.CauseConnectionRefused, upstreams.OutcomeRefused, observe.OutcomeNoRoute, true
		f.API = noHealthyRouteError(retryAfter)
	case e.Absent == engineerror.AbsentPath:
		return EngineLacksEndpoint(status)
	case status == 404:
		f.Result, f.Retry, f.MessageHash = observe.OutcomeNoRoute, true, e.MessageHash(status)
		f.API = noHealthyRouteError(retryAfter)
		if e.Absent == engineerror.AbsentModel { // only this model is missing
			f.Outcome, f.MessageHash = upstreams.OutcomeRejected, 0
		}
	case status == 504:
		f := GenerationTimeout(upstreams.CauseStatus, nil)
		f.Status = status
		return f
	case status == 401 || status == 403:
		f.Cause = upstreams.CauseCredential
		f.API = upstreamError(apierr.CodeUpstreamAuth, "The engine refused the edge's credential.")
	case status == 502:
		f.Retry = true
		f.API = upstreamError(apierr.CodeUpstreamFailed, "The engine failed.")
	case status >= 500:
		if status <= 501 {
			f.MessageHash = e.MessageHash(status)
		}
		f.API = upstreamError(apierr.CodeUpstreamFailed, "The engine failed.")
	default: // 402, 415, 424, redirects, 101, 204 and others
		f.API = upstreamError(apierr.CodeUpstreamBadResponse, "The engine gave an answer that could not be understood.")
	}
	return f
}

// EngineLacksEndpoint returns the failure for a call to an engine that does not serve the endpoint.
// The call may move to another engine, which may serve the endpoint. A retry at the same engine
// would not help. The failure does not affect calls to other endpoints of the engine.
func EngineLacksEndpoint(status int) *Failure {
	return &Failure{
		API:     upstreamError(apierr.CodeUpstreamFailed, "The engine does not have this endpoint."),
		Outcome: upstreams.OutcomeRejected, Result: observe.OutcomeUpstreamFail, Retry: true,
		Cause: upstreams.CauseNoEndpoint, Status: status,
	}
}

func rejectionError(status int, e *engineerror.Error) *apierr.Error {
	a := &apierr.Error{Status: 400, Type: apierr.TypeInvalidRequest, Code: e.Code, Message: e.Message}
	if status == 413 {
		a.Status, a.Type, a.Code = 413, apierr.TypeTooLarge, apierr.CodeRequestTooLarge
	}
	a.Image = a.Status == 400 && e.IsAboutImages()
	if e.ContextOverflow {
		a.Code = apierr.CodeContextLength
		a.Param = "messages"
		a.Overflow = apierr.ContextOverflow{
			Prompt: e.ContextPrompt, Answer: e.ContextAnswer, Max: e.ContextMax, Least: e.ContextAtLeast,
		}
	}
	if a.Code == "" || isNumber(a.Code) {
		a.Code = apierr.CodeRejectedByEngine
	}
	if a.Message == "" {
		a.Message = "The engine rejected the request without saying why."
	}
	return a
}

// FromStreamError returns the failure for an error event in a stream with status 200. If the error
// is the client's fault, the client gets the engine's error message.
func FromStreamError(e *engineerror.Error) *Failure {
	status := e.Status
	if status == 0 {
		status = 500
	}
	f := FromStatus(status, e, 0)
	f.Cause, f.Status = upstreams.CauseErrorEvent, 200
	if status == 404 { // the engine has the path, so the request names something that does not exist
		f.Outcome, f.MessageHash = upstreams.OutcomeRejected, 0
	}
	return f
}

func isNumber(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

// ExplainOverflow rewrites the error message if fewer than least tokens of the context remain after
// the prompt.
func (f *Failure) ExplainOverflow(least, context int) {
	o := &f.API.Overflow
	if !o.HasSizes() || o.Prompt+least <= context {
		return
	}
	if context > o.Max || o.Answer > 0 {
		f.API.Message = fmt.Sprintf("This model's maximum context length is %d tokens. "+
			"However, your request has %d input tokens, which leaves too few for an answer. "+
			"Please reduce the length of the input messages.", context, o.Prompt)
	}
	if o.Prompt <= context {
		o.Prompt += least // the error must contain a number of tokens that exceeds the context
	}
	o.Answer, o.Max = 0, context
}

// Poisoned returns the failure for a call whose body has killed two engines.
func Poisoned() *Failure {
	return &Failure{
		API: apierr.New(502, apierr.CodeUpstreamFailed,
			"Two engines were lost while they worked on this very request, so it is not sent again for now."),
		Outcome: upstreams.OutcomeClientGone, Result: observe.OutcomeUpstreamFail,
	}
}

// HookUnavailable returns the failure for a call whose hook failed, if the hook is configured to
// reject calls in this case.
func HookUnavailable(cause upstreams.Cause) *Failure {
	f := &Failure{
		API: apierr.HookUnavailable(limit.AddJitter(ShortRetryAfter)), Cause: cause,
		Outcome: upstreams.OutcomeClientGone, Result: observe.OutcomeUpstreamFail,
	}
	if cause == upstreams.CauseHookTimeout {
		f.Result = observe.OutcomeTimeout
	}
	return f
}

// RefusedByHook returns the failure for a call that a hook rejected.
func RefusedByHook(status int, message string) *Failure {
	return &Failure{
		API:     apierr.RefusedByHook(status, message, limit.AddJitter(ShortRetryAfter)),
		Outcome: upstreams.OutcomeClientGone, Result: observe.OutcomeClientError,
	}
}

// codeReplyMemory is the error code if no memory is left for the engine's response. Engines do not
// return this code.
const codeReplyMemory = "no_reply_memory"

// NoReplyMemory returns the failure for an attempt if no memory is left for its response. The call
// is not retried, because no memory would be left for another engine's response either.
func NoReplyMemory() *Failure {
	e := apierr.New(503, codeReplyMemory, "The memory for engines' replies is exhausted. Retry shortly.")
	e.RetryAfter = limit.AddJitter(ShortRetryAfter)
	return &Failure{
		API: e, Cause: upstreams.CauseReplyMemory, Outcome: upstreams.OutcomeClientGone, Result: observe.OutcomeLimited,
	}
}
