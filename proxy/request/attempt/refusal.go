package attempt

import (
	"time"

	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/translate/engineerror"
	"penstock/upstreams"
)

func (a *Attempt) statusFailure() *failure.Failure {
	x, up := a.Reply.x, a.lease.Upstream()
	status := x.Status()
	contentType := string(x.Header("Content-Type")) // copied because reading the body moves the headers
	e := engineerror.ParseErrorBody(status, contentType, readErrorBody(a.Reply.x, a.params.Memory))
	profile := up.Engine()
	notNow := profile.IsTemporary(status, e.Type, e.Message)
	switch {
	case notNow && status >= 500:
		status = 503
	case profile.IsClientFault(status, e.Type, e.Message):
		e.ClientFault = true
	case profile.IsOverload(status, e.Type, e.Message):
		status = 503
	}
	a.redactError(&e)
	// Agents derive a smaller max_tokens from the prompt length in the error. If the engine reports
	// only a lower bound, the edge's estimate may be closer. With a length that is too small,
	// agents need a dozen attempts to find a limit that fits.
	if e.ContextAtLeast {
		e.ContextPrompt = max(e.ContextPrompt, min(a.params.PromptTokens, e.ContextMax-1))
	}
	if e.ContextExcess > 0 {
		// Agents parse both sizes from the error message.
		if longest := ContextLength(a.params.Model, a.params.Request.AnswerTokenLimit(), a.target); longest > 0 {
			e.ContextPrompt, e.ContextMax = longest+e.ContextExcess, longest
		}
	}
	now := time.Now()
	after := failure.ParseRetryAfter(x.Header("Retry-After"), now)
	if status == 404 && !e.ClientFault && e.Absent == engineerror.AbsentModel {
		up.RecordModelGone(a.failureSource(true))
		f := failure.FromStatus(status, &e, max(after, a.params.Model.Route.EstimateAcceptDelay(a.params.Tiers, now)))
		f.Outcome, f.Cause = upstreams.OutcomeModelGone, upstreams.CauseModelGone
		return f
	}
	f := failure.FromStatus(status, &e, after)
	// f.Status is the engine's own status, even if the profile implies another.
	f.NotNow, f.Status = notNow, x.Status()
	a.recordDoubtfulRejection(f, &e, status)
	return f
}

// recordDoubtfulRejection records a 4xx response if the engine rather than the request may be at
// fault. The request is at fault if:
//
//   - the engine's profile says so;
//   - the prompt is too long;
//   - the request names something that does not exist.
func (a *Attempt) recordDoubtfulRejection(f *failure.Failure, e *engineerror.Error, status int) {
	own := e.ContextOverflow || status == 404 && e.ClientFault ||
		a.lease.Upstream().Engine().IsClientFault(status, e.Type, e.Message)
	if own || f.Outcome != upstreams.OutcomeRejected && !f.IsBareNotFound() || f.NotNow || status/100 != 4 || status == 413 {
		return
	}
	f.Doubt = a.lease.RecordDisputableRefusal(upstreams.Refusal{
		Status: status, Text: e.MessageHash(status), Body: a.params.Body.BodyHash(), Path: e.Absent == engineerror.AbsentPath,
	})
}

// unexpectedTypeFailure returns the failure for a response that has status 200 but is not the
// requested stream. The response is either an engine error in another format or has an unknown
// type.
func (a *Attempt) unexpectedTypeFailure(mediaType string, body []byte) *failure.Failure {
	e := engineerror.ParseErrorBody(200, mediaType, body)
	if e.Status != 0 {
		a.redactError(&e)
		return failure.FromStreamError(&e)
	}
	return failure.WrongReplyContentType(endpoint.ErrWrongReplyMediaType)
}

// redactError replaces the engine's model name in an error with the client's model name, and
// removes the engine's API key.
func (a *Attempt) redactError(e *engineerror.Error) {
	if a.lease != nil {
		e.RedactSecret(a.lease.Upstream().APIKey())
	}
	if a.target != nil {
		e.RenameModel(a.target.Served, a.params.Model.Config.ID)
	}
}
