package call

import (
	"errors"
	"time"

	"penstock/proxy/request/attempt"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/routing"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// beginAttempt records that the call has acquired the slot s and will be sent to its engine.
func (c *Call) beginAttempt(s engineSlot, now time.Time) {
	u, t := s.lease.Upstream(), &c.attemptState
	t.upstream, t.pendingChanges, t.stepCounts.LastWasSameEngine = u, endpoint.RejectedParts{}, false
	t.targetCount++
	t.turn.SetCharge(0) // the charge of the new turn also includes the tokens of earlier engines
	t.turn = routing.StartCharging(c.config.model.Route, c.record.Key, c.limits.key.TurnWeight(), s.lease, now)
	c.record.Upstream, c.record.Tier = u.Name(), s.target.Tier
	c.record.Arm, c.record.MissedArm = s.target.Arm, ""
	if m := c.config.model; isCountedByArm(m) {
		recordArm(&c.record, m.Route, c.callArms(), s.target)
	}
	c.search.pickReason.record(&c.record, s.lease)
	c.callStatus.target.Store(u)
	c.times.stepStart = now
}

// sendRequest sends the request to the engine of a slot.
func (c *Call) sendRequest(s engineSlot, x *http1.Exchange) *failure.Failure {
	a := &c.attempt
	terms := attempt.Params{
		Request: c.request, Model: c.config.model, PromptTokens: c.tokens.estimatedPrompt,
		Key: c.record.Key, Tiers: c.keyTiers(), Body: &c.fingerprint,
		Memory: &c.memory, Abort: &c.abort, Guard: c.services.Guard,
	}
	sent := attempt.SendParams{
		Start: c.record.Start, Begun: c.times.stepStart, RequestID: c.requestID(),
		Span: c.trace.span, Number: c.attemptState.targetCount, Mover: c,
	}
	if c.trace.span == nil {
		sent.Traceparent = c.trace.engineTraceparent(&c.client)
	}
	if c.trace.span != nil || sent.Traceparent != nil {
		sent.Tracestate = c.trace.engineTracestate(&c.client)
	}
	a.Prepare(&terms, &sent, s.lease, s.target, x)
	to := c.endpointTarget(s.lease.Upstream(), s.target)
	sending, err := c.request.EncodeRequest(to)
	s.lease.SetFeatures(c.search.neededFeatures)
	if err == nil {
		err = a.Send(&sent, sending, to.Stream, a.SendCount() > int(c.attemptState.stepCounts.Changes+c.attemptState.stepCounts.Longer))
	}
	if err != nil {
		if errors.Is(err, endpoint.ErrEngineLacksEndpoint) {
			f := failure.EngineLacksEndpoint(0)
			f.Outcome = upstreams.OutcomeClientGone // the request was not sent to the engine
			err = f
		}
		return a.ClassifyError(err)
	}
	// The last field of the form may be the one that requests a stream.
	c.record.Stream = c.request.ClientWantsStream()
	return nil
}
