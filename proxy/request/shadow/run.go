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

func (p *shadow) run() {
	defer p.of.remove(p) // must run after the slot has been released
	defer p.finish()
	p.of.o.Guard.Point("shadow.run")
	if p.decode() != nil {
		p.end = observe.ShadowUnfit
		return
	}
	err := p.ask(false)
	if err != nil && p.change(p.attempt.FailureOf(err)) {
		err = p.ask(true)
	}
	if err != nil {
		p.failed(p.attempt.FailureOf(err))
		return
	}
	if p.without != (endpoint.Refused{}) {
		p.of.o.Changes.Learn(p.slot.lease.Upstream().ID(), p.slot.target.Served, p.without, time.Now())
	}
	p.end = observe.ShadowOK
	p.attempt.Answered(p.record.CompletionTokens)
	p.attempt.End(upstreams.OutcomeOK, time.Now())
}

// finish releases and counts the copy. If the copy failed, the outcome does not affect the
// upstream's breaker.
func (p *shadow) finish() {
	now := time.Now()
	defer p.count(now)
	defer p.request.Recycle()
	defer p.body.Release()
	defer p.memory.Release()
	if p.attempt.Target() == nil {
		p.slot.lease.ReleaseAt(upstreams.OutcomeClientGone, now)
	} else {
		p.attempt.End(upstreams.OutcomeClientGone, now)
	}
}

func (p *shadow) count(now time.Time) {
	observe.Shadowed(p.of.o.Calls, &p.record, p.model.Config.ID, p.end, now.Sub(p.record.Start).Seconds())
}

func (p *shadow) failed(f *failure.Failure) {
	switch cause := p.abort.Cause(); {
	case errors.Is(cause, failure.ErrDrained), f.Outcome == upstreams.OutcomeHandedOver:
		p.end = observe.ShadowDrained
	case cause != nil:
		p.end = observe.ShadowLeft
	case f.API.Code == apierr.CodeContextLength, f.Outcome == upstreams.OutcomeRejected && f.Result == observe.ClientError:
		p.end = observe.ShadowUnfit
	case f.Result == observe.Limited && f.Outcome == upstreams.OutcomeClientGone: // failure.NoReplyMemory
		p.end = observe.ShadowNoMemory
	default:
		p.end = observe.ShadowFailed
		p.slot.lease.Upstream().Health.Note(f.Cause, "", f.Status, time.Now())
	}
}

func (p *shadow) decode() error {
	if err := p.request.Decode(endpoint.Input{Body: &p.body, Snapshot: p.snapshot}); err != nil {
		return err
	}
	p.request.Chat().Implied = p.implied
	if _, err := p.request.Check(p.model, p.record.Start); err != nil || p.model.Rules.Strict {
		return err
	}
	limit := p.request.Limit()
	prompt := func() int { return limit.Prompt(p.model.Route.BytesPerToken(), p.tokens) }
	attempt.LowerLimit(p.model, limit, prompt, p.slot.target)
	return nil
}

// change changes the request so that the engine may accept it, like Call.changeFor in package call.
// It returns false if no change helps.
func (p *shadow) change(why *failure.Failure) bool {
	if p.model.Rules.Strict || p.attempt.Target() == nil || p.abort.Cause() != nil {
		return false
	}
	to := p.target()
	limit, refused, ok := p.of.o.Changes.After(why, endpoint.SentOf(p.request, &to))
	if !ok {
		return false
	}
	if limit > 0 {
		p.request.Limit().Fit(limit)
	}
	p.without = refused
	p.attempt.Close(why.Outcome, time.Now())
	return true
}

func (p *shadow) target() endpoint.Target {
	up, served := p.slot.lease.Upstream(), p.slot.target.Served
	return endpoint.Target{
		Upstream: up, Model: p.model, Served: served, Stream: p.request.WantsStream(up.Engine()),
		Salt: p.slot.salt, Formats: p.of.o.Formats,
		Priority: endpoint.PriorityOf(up, p.model, max(1, len(p.snapshot.Floors))),
		Refused:  p.of.o.Changes.Known(up.ID(), served, p.record.Start).And(p.without),
	}
}

// ask makes one attempt. again is true for the second attempt.
func (p *shadow) ask(again bool) error {
	lease, target := p.slot.lease, p.slot.target
	exchange := lease.Exchange
	if again {
		exchange = lease.Again
	}
	p.attempt.Begin(&attempt.Terms{
		Request: p.request, Model: p.model, PromptTokens: p.tokens, Start: p.record.Start, Begun: p.record.Start,
		RequestID: p.id, Tiers: p.tiers, Body: unknownBody{}, Number: 1,
		Memory: &p.memory, Abort: &p.abort, Guard: p.of.o.Guard, Mover: leaver{},
	}, lease, target, exchange())
	to := p.target()
	sending, err := p.request.Fill(to)
	if err != nil {
		return err
	}
	if err := p.attempt.Send(sending, to.Stream, false); err != nil {
		return err
	}
	about := endpoint.CallInfo{
		Model: p.model.Config, RequestID: p.id, Created: p.record.Start, PromptTokens: p.tokens, Streamed: to.Stream,
	}
	if p.record.Stream = p.request.Streams(); p.record.Stream {
		return p.readStream(p.request.Stream(about))
	}
	return p.readWhole(p.request.Unary(about))
}

func (p *shadow) readStream(stream endpoint.Stream) error {
	defer func() { p.noteUsage(stream.Usage()) }()
	if err := p.attempt.AwaitHead(time.Time{}); err != nil {
		return err
	}
	for {
		if p.attempt.Reply.Rests() {
			p.attempt.Reply.Rest(0, nil)
		}
		out := attempt.NewBuffer()
		text, done, err := p.attempt.Pull(*out, 0, stream)
		*out = text
		attempt.Recycle(out)
		p.memory.Free(attempt.PartOut)
		if r := p.attempt.Reply.Progress(); r.Begun && p.record.TTFT == 0 {
			p.record.TTFT, p.record.UpstreamTTFT = r.ReadAt().Std().Sub(p.record.Start), r.ReadAt().Since(r.SentAt())
			p.attempt.FirstToken(p.record.UpstreamTTFT)
		}
		if done || err != nil {
			return err
		}
	}
}

func (p *shadow) readWhole(codec endpoint.Unary) error {
	if err := p.attempt.AwaitHead(time.Time{}); err != nil {
		return err
	}
	completion, err := p.attempt.ReadWhole(time.Time{}, codec, false)
	if err != nil {
		return err
	}
	out := attempt.NewBuffer()
	defer attempt.Recycle(out)
	if err := p.memory.HoldOut(len(completion) + attempt.OutMore); err != nil {
		return err
	}
	*out, err = codec.Append(*out, completion, p.attempt.Reply.Head())
	p.noteUsage(codec.Usage())
	return err
}

func (p *shadow) noteUsage(u translate.Usage) {
	p.record.PromptTokens, p.record.CompletionTokens, p.record.Finish = u.Prompt, u.Completion, u.Finish.String()
}

// unknownBody is an attempt.Hasher that never returns a hash, because the failure of a copy proves
// nothing about the request.
type unknownBody struct{}

func (unknownBody) BodyHash() uint64 { return 0 }

// leaver implements attempt.Mover. A copy on a stalled or drained engine ends rather than moving to
// another engine.
type leaver struct{}

func (leaver) Leave() bool { return true }
