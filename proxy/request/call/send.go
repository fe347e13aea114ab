package call

import (
	"cmp"
	"errors"
	"time"

	"penstock/proxy/request/attempt"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/observe"
	"penstock/routing"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

func (l loop) beginTry(lease *upstreams.Lease, target *routing.Target, now time.Time) {
	u := lease.Upstream()
	l.call.tries.begin(u)
	l.call.record.Upstream, l.call.record.Tier = u.Name(), target.Tier
	l.noteArm(target)
	l.call.tries.why.note(&l.call.record, lease)
	l.call.public.target.Store(u)
	l.call.times.ask(now)
}

func (l loop) noteArm(target *routing.Target) {
	r, route := &l.call.record, l.call.config.model.Route
	if r.Arm, r.MissedArm = target.Arm, ""; l.compared() {
		r.Arm = cmp.Or(r.Arm, observe.NoArm)
		if own, missed := routing.Missed(route, l.call.arms(), target); missed {
			r.MissedArm = cmp.Or(own, observe.NoArm)
		}
	}
}

// noteOwnArm records the arm of a call that was not sent to any upstream, so that the refusal of
// the call counts for that arm.
func (l loop) noteOwnArm() {
	if r := &l.call.record; l.call.attempts() == 0 && l.compared() {
		r.Arm = cmp.Or(routing.Own(l.call.config.model.Route, l.call.arms(), l.call.tiers()), observe.NoArm)
	}
}

// compared reports whether the model's calls are counted by arm, which requires that the model has
// arms or a shadow.
func (l loop) compared() bool {
	m := l.call.config.model
	return m.Shadow != nil || routing.SharesCalls(m.Route)
}

func (l loop) open(lease *upstreams.Lease, target *routing.Target, x *http1.Exchange) *failure.Failure {
	if err := l.send(lease, target, x); err != nil {
		return l.call.attempt.FailureOf(err)
	}
	return nil
}

func (l loop) send(lease *upstreams.Lease, target *routing.Target, x *http1.Exchange) error {
	a, m := &l.call.attempt, l.call.config.model
	terms := attempt.Terms{
		Request: l.call.request, Model: m, PromptTokens: l.call.tokens.prompt,
		Start: l.call.record.Start, Asked: l.call.times.asked, RequestID: l.call.client.requestID,
		Key: l.call.record.Key, Tiers: l.call.tiers(), Body: &l.call.poison,
		Span: l.call.trace.span, Number: l.call.tries.targets,
		Memory: &l.call.memory, Abort: &l.call.abort, Guard: l.call.shared.Guard, Mover: l.call,
	}
	if l.call.trace.span == nil {
		terms.Traceparent = l.call.trace.context(&l.call.client)
	}
	if l.call.trace.span != nil || terms.Traceparent != nil {
		terms.Tracestate = l.call.trace.state(&l.call.client)
	}
	a.Begin(&terms, lease, target, x)
	to := l.call.requestTarget(lease.Upstream(), target)
	sending, err := l.call.request.Fill(to)
	lease.Needs(l.call.tries.needs)
	if errors.Is(err, endpoint.ErrNoPath) {
		f := failure.NoEndpoint(0)
		f.Outcome = upstreams.OutcomeClientGone // the request was not sent to the engine
		return f
	}
	if err == nil {
		err = a.Send(sending, to.Stream, a.Sends() > l.call.tries.sends.Changes+l.call.tries.sends.Longer)
	}
	if err == nil {
		// The last field of the form may be the one that requests a stream.
		l.call.record.Stream = l.call.request.Streams()
	}
	return err
}
