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

// Dialogue is a call that exchanges messages with its engine in both directions, in a session of
// endpoint.Realtime. From Services.OpenDialogue to End, a dialogue occupies an engine slot and a
// slot of its key's concurrency limit, and the status page lists it. A Dialogue belongs to one
// goroutine at a time. Any goroutine may call Spend and Received, but no other method.
type Dialogue struct {
	call  *Call
	codec *endpoint.Session
	meet  func(*Engine) error
	ended bool

	charged bool // whether the key was charged for each transcript
}

// Engine is an engine that accepted the connection of a dialogue.
type Engine struct {
	Conn        net.Conn
	Profile     *engine.Profile
	Served      string        // model name at the engine
	Model       string        // model name for the client
	First, Idle time.Duration // see attempt.Limits
	Quiet       time.Duration // configured limit of silence; 0 means no limit
	Total       time.Duration // configured limit of a call; 0 means no limit
}

// OpenDialogue runs the steps of a call until an engine has accepted a connection and meet has
// exchanged the first messages with that engine. If meet returns an error, the call continues at
// another engine. That error must come from the connection or be a *failure.Failure. If the call
// fails, OpenDialogue returns nil, and ctx contains the response.
func (s *Services) OpenDialogue(ctx *fasthttp.RequestCtx, meet func(*Engine) error) (d *Dialogue) {
	c := s.begin(ctx, endpoint.Realtime)
	defer s.Guard.Catch(guard.Handler, func() {
		d = nil
		c.panicked()
	})
	d = &Dialogue{call: c, meet: meet}
	if f := d.open(); f != nil {
		c.answerError(f)
		c.finish()
		return nil
	}
	c.record.Status = fasthttp.StatusSwitchingProtocols
	return d
}

func (d *Dialogue) open() *failure.Failure {
	c := d.call
	if f := c.enter(); f != nil {
		return f
	}
	d.codec = c.request.(*endpoint.Session)
	// All sessions of a model have the same body: an empty one.
	c.poison.begin(c.shared.Poison, new(body.Body))
	c.shared.Retries.Call(c.record.Start)
	return d.connect(c.firstAttempt(c.times.begun))
}

// connect completes the handshake with the engine to which the call was sent. If that fails, it
// tries the next engine.
func (d *Dialogue) connect(result sendResult, f *failure.Failure) *failure.Failure {
	for result == sent {
		if f = d.greet(); f == nil {
			return nil
		}
		result, f = d.call.nextAttempt(f)
	}
	return f
}

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
	// If this fails, the connection is closed, and the next read reports the error.
	_ = conn.SetDeadline(time.Now().Add(first))
	if err := d.meet(e); err != nil {
		return d.failureOf(err)
	}
	c.setPhase(&phaseStreaming)
	c.record.Stream = true
	return nil
}

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

// Lost ends the attempt after err. err must come from the connection or be a *failure.Failure. If
// no audio has been sent, Lost connects to another engine, calls meet, and returns nil. Otherwise,
// it returns an error for the client, and the caller must call End. The connection must not be used
// while Lost runs.
func (d *Dialogue) Lost(err error) *apierr.Error {
	f := d.failureOf(err)
	// Otherwise, the call would send keep-alives while it waits for a slot.
	d.call.record.Stream = false
	if f = d.connect(d.call.nextAttempt(f)); f == nil {
		return nil
	}
	d.call.record.Stream = true
	return d.fail(f)
}

func (d *Dialogue) fail(f *failure.Failure) *apierr.Error {
	c := d.call
	c.fail(f)
	if f.Result == observe.UpstreamFail || f.Result == observe.Limited || f.Result == observe.NoRoute {
		c.record.Outcome = observe.StreamBroken
	}
	c.warnUpstreamFailed(f)
	c.failAttempt(f, time.Now())
	return c.ep.Dialect.ErrorOf(f.API)
}

// Spend records that audio was sent to the engine. The edge does not store audio, so no other
// engine can take over.
func (d *Dialogue) Spend() { d.codec.Spend() }

// Received adds n to the number of bytes in the client's messages.
func (d *Dialogue) Received(n int64) { d.codec.Received(n) }

// Sent adds n to the number of bytes in events for the client.
func (d *Dialogue) Sent(n int64) { d.call.record.BytesOut += n }

// Used adds the tokens that the engine counted for one transcript, and charges the key immediately.
// It returns an error once the key has exceeded a limit.
func (d *Dialogue) Used(prompt, completion int) *apierr.Error {
	c := d.call
	u := &c.tokens.usage
	u.Prompt, u.Completion, u.Known = u.Prompt+prompt, u.Completion+completion, true
	d.charged = true
	used := limit.Cost{Tokens: int64(prompt + completion), Spend: c.config.model.Price.Of(prompt, 0, completion)}
	if over := c.rates.reserved.Charge(used, time.Now()); !over.OK {
		e := rateLimited(over)
		c.record.Code = e.Code
		return e
	}
	return nil
}

// FirstText records that the first text has arrived. sent is when the audio for this text was sent.
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

// Redact removes the engine's API key and model name from an error.
func (d *Dialogue) Redact(e *engineerror.Error) { _ = d.call.attempt.Redact(e) }

// Cause returns why the call was canceled, or nil. It must not be called after End.
func (d *Dialogue) Cause() error { return d.call.abort.Cause() }

// Leave ends the attempt because the client has disconnected.
func (d *Dialogue) Leave() { _ = d.fail(failure.FromAbort(failure.ErrClientGone)) }

// Dialogues that last longDialogue or longer do not affect the measured times of the engine,
// because a client may speak for an hour.
const longDialogue = time.Minute

// Complete ends the attempt successfully.
func (d *Dialogue) Complete() {
	c := d.call
	c.record.Outcome = observe.OK
	if time.Since(c.record.Start) < longDialogue && c.record.TTFT > 0 {
		c.endAttempt(upstreams.OutcomeOK)
		return
	}
	c.endAttempt(upstreams.OutcomeClientGone)
}

// End ends the call. It is called after Complete, Leave or Lost, or after a panic. It may be called
// again.
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
		c.rates.reserved.Cancel()
	}
	c.finish()
}
