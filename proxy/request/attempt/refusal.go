package attempt

import (
	"time"

	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/translate/engineerror"
	"penstock/upstreams"
)

func (a *Attempt) refusal() *failure.Failure {
	x, up := a.Reply.x, a.lease.Upstream()
	status := x.Status()
	contentType := string(x.Header("Content-Type")) // copied because reading the body moves the headers
	e := engineerror.Parse(status, contentType, errorBody(a.Reply.x, a.terms.Memory))
	profile := up.Engine()
	notNow := profile.NotNow(status, e.Type, e.Message)
	switch {
	case notNow && status >= 500:
		status = 503
	case profile.ClientFault(status, e.Type, e.Message):
		e.ClientFault = true
	case profile.Overload(status, e.Type, e.Message):
		status = 503
	}
	a.redact(&e)
	// Agents lower max_tokens by this number. If the number is missing, they need a dozen attempts.
	if e.ContextAtLeast {
		e.ContextPrompt = max(e.ContextPrompt, min(a.terms.PromptTokens, e.ContextMax-1))
	}
	if e.ContextExcess > 0 {
		// Agents parse both sizes from the message.
		if longest := ContextOf(a.terms.Model, a.terms.Request.Limit(), a.target); longest > 0 {
			e.ContextPrompt, e.ContextMax = longest+e.ContextExcess, longest
		}
	}
	now := time.Now()
	after := failure.RetryAfter(x.Header("Retry-After"), now)
	if status == 404 && !e.ClientFault && e.Absent == engineerror.AbsentModel {
		up.ModelGone(a.source(true))
		f := failure.FromStatus(status, &e, max(after, a.terms.Model.Route.NextChance(a.terms.Tiers, now)))
		f.Outcome, f.Cause = upstreams.OutcomeModelGone, upstreams.CauseModelGone
		return f
	}
	f := failure.FromStatus(status, &e, after)
	f.NotNow, f.Status = notNow, x.Status() // the profile may change the status
	a.doubt(f, &e, status)
	return f
}

// doubt records a 4xx response if the engine rather than the request may be at fault. The request
// is at fault if the engine's profile says so, if the prompt is too long, or if the request names
// something that does not exist.
func (a *Attempt) doubt(f *failure.Failure, e *engineerror.Error, status int) {
	own := e.ContextOverflow || status == 404 && e.ClientFault ||
		a.lease.Upstream().Engine().ClientFault(status, e.Type, e.Message)
	if own || f.Outcome != upstreams.OutcomeRejected && !f.NotFound() || f.NotNow || status/100 != 4 || status == 413 {
		return
	}
	f.Doubt = a.lease.Refused(upstreams.Refusal{
		Status: status, Text: e.Gist(status), Body: a.terms.Body.BodyHash(), Path: e.Absent == engineerror.AbsentPath,
	})
}

// complaint returns the failure for a response that has the status 200 but is not the requested
// stream. The response is either an engine error in another format, or of an unknown type.
func (a *Attempt) complaint(mediaType string, body []byte) *failure.Failure {
	e := engineerror.Parse(200, mediaType, body)
	if e.Status != 0 {
		a.redact(&e)
		return failure.FromStreamError(&e)
	}
	return failure.WrongType(endpoint.ErrWrongType)
}

// redact replaces the engine's model name in an error with the client's model name, and removes the
// engine's API key.
func (a *Attempt) redact(e *engineerror.Error) {
	if a.lease != nil {
		e.RedactSecret(a.lease.Upstream().APIKey())
	}
	if a.target != nil {
		e.Rename(a.target.Served, a.terms.Model.Config.ID)
	}
}
