package shadow

import (
	"errors"
	"time"

	"penstock/proxy/request/attempt"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/observe"
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/upstreams"
)

func (p *runningCopy) run() {
	defer p.shadows.remove(p) // must run after the slot has been released
	defer p.finish()
	p.shadows.o.Guard.PanicIfInjected("shadow.run")
	if p.decode() != nil {
		p.outcome = observe.ShadowUnfit
		return
	}
	err := p.makeAttempt(false)
	if err != nil && p.applyChange(p.attempt.ClassifyError(err)) {
		err = p.makeAttempt(true)
	}
	if err != nil {
		p.recordFailure(p.attempt.ClassifyError(err))
		return
	}
	if p.removedParts != (endpoint.RejectedParts{}) {
		p.shadows.o.Changes.LearnRejection(p.slot.lease.Upstream().ID(), p.slot.target.Served, p.removedParts, time.Now())
	}
	p.outcome = observe.ShadowOK
	p.attempt.RecordAnswerTokens(p.record.CompletionTokens)
	p.attempt.End(upstreams.OutcomeOK, time.Now())
}

// finish releases and counts the copy. A failed copy does not affect the upstream's breaker.
func (p *runningCopy) finish() {
	now := time.Now()
	defer p.countOutcome(now)
	defer p.request.Recycle()
	defer p.body.Release()
	defer p.memory.Release()
	if p.attempt.Target() == nil {
		p.slot.lease.ReleaseAt(upstreams.OutcomeClientGone, now)
	} else {
		p.attempt.End(upstreams.OutcomeClientGone, now)
	}
}

func (p *runningCopy) countOutcome(now time.Time) {
	observe.CountShadow(p.shadows.o.Calls, &p.record, p.model.Config.ID, p.outcome, now.Sub(p.record.Start).Seconds())
}

func (p *runningCopy) recordFailure(f *failure.Failure) {
	switch cause := p.abort.Cause(); {
	case errors.Is(cause, failure.ErrShuttingDown), f.Outcome == upstreams.OutcomeHandedOver:
		p.outcome = observe.ShadowDrained
	case cause != nil:
		p.outcome = observe.ShadowClientGone
	case f.API.Code == apierr.CodeContextLength, f.Outcome == upstreams.OutcomeRejected && f.Result == observe.OutcomeClientError:
		p.outcome = observe.ShadowUnfit
	case f.Result == observe.OutcomeLimited && f.Outcome == upstreams.OutcomeClientGone: // failure.NoReplyMemory
		p.outcome = observe.ShadowNoMemory
	default:
		p.outcome = observe.ShadowFailed
		p.slot.lease.Upstream().Health.RecordFailure(f.Cause, "", f.Status, time.Now())
	}
}

func (p *runningCopy) decode() error {
	if err := p.request.Decode(endpoint.DecodeInput{Body: &p.body, Snapshot: p.snapshot}); err != nil {
		return err
	}
	p.request.Chat().ImpliedProperties = p.implied
	if _, err := p.request.CheckModelRules(p.model, p.record.Start); err != nil || p.model.Rules.Strict {
		return err
	}
	limit := p.request.AnswerTokenLimit()
	prompt := func() int { return limit.PromptTokens(p.model.Route.BytesPerToken(), p.tokens) }
	attempt.LowerTokenLimit(p.model, limit, prompt, p.slot.target)
	return nil
}

// applyChange changes the request so that the engine may accept it, like Call.findRequestChange in
// package call. It returns false if no change helps.
func (p *runningCopy) applyChange(why *failure.Failure) bool {
	if p.model.Rules.Strict || p.attempt.Target() == nil || p.abort.Cause() != nil {
		return false
	}
	to := p.endpointTarget()
	limit, refused, ok := p.shadows.o.Changes.ChangeAfter(why, endpoint.DescribeSentParts(p.request, &to))
	if !ok {
		return false
	}
	if limit > 0 {
		p.request.AnswerTokenLimit().LowerTo(limit)
	}
	p.removedParts = refused
	p.attempt.CloseExchange(why.Outcome, time.Now())
	return true
}

func (p *runningCopy) endpointTarget() endpoint.Target {
	up, served := p.slot.lease.Upstream(), p.slot.target.Served
	return endpoint.Target{
		Upstream: up, Model: p.model, Served: served, Stream: p.request.WantsStream(up.Engine()),
		Salt: p.slot.salt, Formats: p.shadows.o.Formats,
		Priority: endpoint.EnginePriority(up, p.model, max(1, len(p.snapshot.Floors))),
		Refused:  p.shadows.o.Changes.KnownRejections(up.ID(), served, p.record.Start).Union(p.removedParts),
	}
}

// makeAttempt makes one attempt. again is true for the second attempt.
func (p *runningCopy) makeAttempt(again bool) error {
	lease, target := p.slot.lease, p.slot.target
	exchange := lease.Exchange
	if again {
		exchange = lease.NewExchange
	}
	sent := attempt.SendParams{Start: p.record.Start, Begun: p.record.Start, RequestID: p.id, Number: 1, Mover: abandoningMover{}}
	p.attempt.Prepare(&attempt.Params{
		Request: p.request, Model: p.model, PromptTokens: p.tokens, Tiers: p.tiers, Body: noopBodyHasher{},
		Memory: &p.memory, Abort: &p.abort, Guard: p.shadows.o.Guard,
	}, &sent, lease, target, exchange())
	to := p.endpointTarget()
	sending, err := p.request.EncodeRequest(to)
	if err != nil {
		return err
	}
	if err := p.attempt.Send(&sent, sending, to.Stream, false); err != nil {
		return err
	}
	about := endpoint.CallInfo{
		Model: p.model.Config, RequestID: p.id, Created: p.record.Start, PromptTokens: p.tokens, Streamed: to.Stream,
	}
	if p.record.Stream = p.request.ClientWantsStream(); p.record.Stream {
		return p.readStream(p.request.NewStream(about))
	}
	return p.readFullResponse(p.request.NewUnaryAnswer(about))
}

func (p *runningCopy) readStream(stream endpoint.Stream) error {
	defer func() { p.recordUsage(stream.Usage()) }()
	if err := p.attempt.AwaitHead(time.Time{}); err != nil {
		return err
	}
	for {
		if p.attempt.Reply.WouldBlock() {
			p.attempt.Reply.WaitForBytes(0, nil)
		}
		out := attempt.NewBuffer()
		text, done, err := p.attempt.PullStream(*out, 0, stream)
		*out = text
		attempt.RecycleBuffer(out)
		p.memory.FreePart(attempt.ClientOutputMemory)
		if r := p.attempt.Reply.Progress(); r.Begun && p.record.TTFT == 0 {
			p.record.TTFT, p.record.UpstreamTTFT = r.ReadAt().StdTime().Sub(p.record.Start), r.ReadAt().Sub(r.SentAt())
			p.attempt.RecordFirstToken(p.record.UpstreamTTFT)
		}
		if done || err != nil {
			return err
		}
	}
}

func (p *runningCopy) readFullResponse(codec endpoint.UnaryAnswer) error {
	if err := p.attempt.AwaitHead(time.Time{}); err != nil {
		return err
	}
	completion, err := p.attempt.ReadFullResponse(time.Time{}, codec, false)
	if err != nil {
		return err
	}
	out := attempt.NewBuffer()
	defer attempt.RecycleBuffer(out)
	if err := p.memory.SetOutSize(len(completion) + attempt.AnswerBufferHeadroom); err != nil {
		return err
	}
	*out, err = codec.AppendAnswer(*out, completion, p.attempt.Reply.Head())
	p.recordUsage(codec.Usage())
	return err
}

func (p *runningCopy) recordUsage(u translate.Usage) {
	p.record.PromptTokens, p.record.CompletionTokens, p.record.Finish = u.Prompt, u.Completion, u.Finish.String()
}

// noopBodyHasher is an attempt.BodyHasher that never returns a hash, because the failure of a copy
// proves nothing about the request.
type noopBodyHasher struct{}

func (noopBodyHasher) BodyHash() uint64 { return 0 }

// abandoningMover implements attempt.CallMover. A copy on a stalled or drained engine ends instead
// of moving to another engine.
type abandoningMover struct{}

func (abandoningMover) AcquireOtherSlot() bool { return true }
