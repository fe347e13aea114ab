package call

import (
	"cmp"
	"errors"
	"time"

	"penstock/proxy/request/attempt"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/observe"
	"penstock/routing"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// beginAttempt records that the call was assigned to the engine of a slot.
func (c *Call) beginAttempt(s slot, now time.Time) {
	u, t := s.lease.Upstream(), &c.tries
	t.upstream, t.refused, t.sends.Again = u, endpoint.Refused{}, false
	t.targets++
	t.turn.Book(0) // the tokens of earlier engines are counted together with those of this engine
	t.turn = routing.BeginTurn(c.config.model.Route, c.record.Key, c.rates.key.Share(), s.lease, now)
	c.record.Upstream, c.record.Tier = u.Name(), s.target.Tier
	c.recordArm(s.target)
	t.why.note(&c.record, s.lease)
	c.public.target.Store(u)
	c.times.begun = now
}

func (c *Call) recordArm(target *routing.Target) {
	r, m := &c.record, c.config.model
	if r.Arm, r.MissedArm = target.Arm, ""; countsByArm(m) {
		r.Arm = cmp.Or(r.Arm, observe.NoArm)
		if own, missed := routing.Missed(m.Route, c.arms(), target); missed {
			r.MissedArm = cmp.Or(own, observe.NoArm)
		}
	}
}

// recordOwnArm records the arm of a call that was not sent to any upstream, so that the refusal of
// the call counts for that arm.
func (c *Call) recordOwnArm() {
	if m := c.config.model; c.attempts() == 0 && countsByArm(m) {
		c.record.Arm = cmp.Or(routing.Own(m.Route, c.arms(), c.tiers()), observe.NoArm)
	}
}

// countsByArm reports whether the model's calls are counted by arm, which requires that the model
// has arms or a shadow.
func countsByArm(m *snapshot.Model) bool { return m.Shadow != nil || routing.SharesCalls(m.Route) }

// send sends the request to the engine of a slot.
func (c *Call) send(s slot, x *http1.Exchange) *failure.Failure {
	a := &c.attempt
	terms := attempt.Terms{
		Request: c.request, Model: c.config.model, PromptTokens: c.tokens.prompt,
		Start: c.record.Start, Begun: c.times.begun, RequestID: c.client.requestID,
		Key: c.record.Key, Tiers: c.tiers(), Body: &c.poison,
		Span: c.trace.span, Number: c.tries.targets,
		Memory: &c.memory, Abort: &c.abort, Guard: c.shared.Guard, Mover: c,
	}
	if c.trace.span == nil {
		terms.Traceparent = c.trace.context(&c.client)
	}
	if c.trace.span != nil || terms.Traceparent != nil {
		terms.Tracestate = c.trace.state(&c.client)
	}
	a.Begin(&terms, s.lease, s.target, x)
	to := c.requestTarget(s.lease.Upstream(), s.target)
	sending, err := c.request.Fill(to)
	s.lease.Needs(c.tries.needs)
	if err == nil {
		err = a.Send(sending, to.Stream, a.Sends() > c.tries.sends.Changes+c.tries.sends.Longer)
	}
	if errors.Is(err, endpoint.ErrNoPath) {
		f := failure.NoEndpoint(0)
		f.Outcome = upstreams.OutcomeClientGone // the request was not sent to the engine
		err = f
	}
	if err != nil {
		return a.FailureOf(err)
	}
	// The last field of the form may be the one that requests a stream.
	c.record.Stream = c.request.Streams()
	return nil
}
