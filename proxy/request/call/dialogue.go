package call

import (
	"errors"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/access/limit"
	"penstock/proxy/request/body"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/observe"
	"penstock/translate/apierr"
	"penstock/translate/engineerror"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// Dialogue is a call that talks with its engine in both directions: a session of endpoint.Realtime.
// It holds its slot and its key's concurrency slot, and is on the status page, from Services.Talk
// to End. One goroutine at a time owns it. Any goroutine may call Spend and Took.
type Dialogue struct {
	call  *Call
	codec *endpoint.Session
	meet  func(*Engine) error
	ended bool

	charged bool // the key was charged for each transcript
}

// Engine is an engine that has accepted the connection of a dialogue.
type Engine struct {
	Conn        net.Conn
	Profile     *engine.Profile
	Served      string        // the engine's name for the model
	Model       string        // the client's name for the model
	First, Idle time.Duration // the limits of package attempt
	Quiet       time.Duration // the configured limit of silence; 0: none
	Total       time.Duration // the configured limit of a call; 0: none
}

// Talk takes a request through the steps of a call until an engine accepts a connection. Then meet
// exchanges the first messages with the engine. If meet returns an error, the call goes on to
// another engine. The error must come from the connection or be a *failure.Failure. Talk returns
// nil if the call has ended; ctx then has its answer.
func (s *Services) Talk(ctx *fasthttp.RequestCtx, meet func(*Engine) error) (d *Dialogue) {
	c := s.begin(ctx, endpoint.Realtime)
	defer s.Guard.Catch(guard.Handler, func() {
		d = nil
		c.panicked()
	})
	d = &Dialogue{call: c, meet: meet}
	if f := d.open(); f != nil {
		answer{c}.error(f)
		c.finish()
		return nil
	}
	c.record.Status = fasthttp.StatusSwitchingProtocols
	return d
}

// open finds the first engine.
func (d *Dialogue) open() *failure.Failure {
	c := d.call
	if f := c.enter(); f != nil {
		return f
	}
	d.codec = c.request.(*endpoint.Session)
	c.poison.begin(c.shared.Poison, new(body.Body)) // the body is the same for all sessions of a model
	c.shared.Retries.Call(c.record.Start)
	return d.connect(loop{c}.first(c.times.asked))
}

// connect completes the connection to the engine that was asked, or to the next one.
func (d *Dialogue) connect(at standing, f *failure.Failure) *failure.Failure {
	for at == asked {
		if f = d.greet(); f == nil {
			return nil
		}
		at, f = loop{d.call}.next(f)
	}
	return f
}

// greet waits until the engine accepts the connection, and exchanges the first messages.
func (d *Dialogue) greet() *failure.Failure {
	c := d.call
	a := &c.attempt
	conn, err := a.Upgraded(d.codec.Upgrade())
	if err != nil {
		return a.FailureOf(err)
	}
	first, idle := a.Limits()
	m := c.config.model
	e := &Engine{
		Conn: conn, Profile: a.Lease().Upstream().Engine(), Served: a.Target().Served, Model: m.Config.ID,
		First: first, Idle: idle, Quiet: m.Clocks.Idle.D(), Total: m.Clocks.Total.D(),
	}
	_ = conn.SetDeadline(time.Now().Add(first)) // fails only on a closed connection, which the next read reports
	if err := d.meet(e); err != nil {
		return d.failureOf(err)
	}
	c.setPhase(&phaseStreaming)
	c.record.Stream = true
	return nil
}

// failureOf returns the failure for an error of a dialogue.
func (d *Dialogue) failureOf(err error) *failure.Failure {
	a := &d.call.attempt
	var f *failure.Failure
	switch {
	case d.call.abort.Cause() != nil, errors.As(err, &f):
	case body.TimedOut(err):
		err = failure.GenerationTimeout(upstreams.CauseFirstEventTimeout, err)
	default:
		err = a.Lost(err)
	}
	return a.FailureOf(err)
}

// Lost ends the attempt after an error from the connection or a *failure.Failure. If no audio was
// sent, another engine may take over: Lost then calls meet for that engine and returns nil.
// Otherwise it returns the error that the client sees, and the dialogue only has to be ended.
// Nothing may use the connection meanwhile.
func (d *Dialogue) Lost(err error) *apierr.Error {
	f := d.failureOf(err)
	d.call.record.Stream = false // a call that waits for a slot as a stream would get keep-alives
	if f = d.connect(loop{d.call}.next(f)); f == nil {
		return nil
	}
	d.call.record.Stream = true
	return d.fail(f)
}

// fail records that the dialogue has failed.
func (d *Dialogue) fail(f *failure.Failure) *apierr.Error {
	c := d.call
	c.fail(f)
	if f.Result == observe.UpstreamFail || f.Result == observe.Limited || f.Result == observe.NoRoute {
		c.record.Outcome = observe.StreamBroken
	}
	answer{c}.warn(f)
	c.failAttempt(f, time.Now())
	return c.ep.Dialect.ErrorOf(f.API)
}

// Spend records that the engine receives audio. The edge keeps no audio, so no other engine can
// take over after that.
func (d *Dialogue) Spend() { d.codec.Spend() }

// Took counts bytes of the client's messages.
func (d *Dialogue) Took(n int64) { d.codec.Took(n) }

// Sent counts bytes of the client's events.
func (d *Dialogue) Sent(n int64) { d.call.record.BytesOut += n }

// Used adds the tokens that the engine has counted for one transcript, and charges the key at once.
// It returns an error once the key has exceeded a limit.
func (d *Dialogue) Used(prompt, completion int) *apierr.Error {
	c := d.call
	u := &c.tokens.usage
	u.Prompt, u.Completion, u.Known = u.Prompt+prompt, u.Completion+completion, true
	d.charged = true
	used := limit.Cost{Tokens: int64(prompt + completion), Spend: c.config.model.Price.Of(prompt, 0, completion)}
	if over := c.rates.held.Charge(used, time.Now()); !over.OK {
		e := rateLimited(over)
		c.record.Code = e.Code
		return e
	}
	return nil
}

// FirstText records that the first text has arrived, after audio was sent at the given time.
func (d *Dialogue) FirstText(sent time.Time) {
	c, now := d.call, time.Now()
	if c.record.TTFT > 0 || c.attempt.Lease() == nil {
		return
	}
	c.record.UpstreamTTFT = max(now.Sub(sent), time.Nanosecond)
	c.record.TTFT = c.record.UpstreamTTFT
	c.public.firstAt.Store(now.UnixNano())
	c.attempt.FirstToken(c.record.UpstreamTTFT)
}

// Redact removes from an engine's complaint what a client may not see.
func (d *Dialogue) Redact(e *engineerror.Error) { _ = d.call.attempt.Redact(e) }

// Cause returns why the call was ended from outside, or nil. It must not be called after End.
func (d *Dialogue) Cause() error { return d.call.abort.Cause() }

// Leave ends the attempt of a dialogue whose client has gone.
func (d *Dialogue) Leave() { _ = d.fail(failure.FromAbort(failure.ErrClientGone)) }

// longDialogue is the maximum duration of a dialogue that counts as an answer of usual length. The
// engine's times must not be learned from clients that speak for an hour.
const longDialogue = time.Minute

// Complete ends the attempt of a dialogue that has completed.
func (d *Dialogue) Complete() {
	c := d.call
	c.record.Outcome = observe.OK
	if time.Since(c.record.Start) < longDialogue && c.record.TTFT > 0 {
		c.endAttempt(upstreams.OutcomeOK)
		return
	}
	c.endAttempt(upstreams.OutcomeClientGone)
}

// End ends the call. Complete, Leave or Lost must have recorded how it ended, except after a panic.
// A second call does nothing.
func (d *Dialogue) End() {
	c := d.call
	if d.ended {
		return
	}
	d.ended = true
	if c.record.Outcome == "" {
		_ = d.fail(failure.Internal(failure.ErrPanicked))
	}
	if d.charged {
		c.rates.held.Cancel()
	}
	c.finish()
}
