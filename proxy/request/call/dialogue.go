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

// Dialogue is a call that exchanges messages with its engine in both directions. It is a session of
// endpoint.RealtimeEndpoint. From Services.OpenDialogue to End, a dialogue occupies an engine slot
// and a slot of its key's concurrency limit, and the status page lists it. A Dialogue belongs to
// one goroutine at a time. Any goroutine may call MarkAudioSent and AddBytesIn, but no other
// method.
type Dialogue struct {
	call      *Call
	codec     *endpoint.RealtimeSession
	onConnect func(*DialogueEngine) error
	hasEnded  bool

	chargedPerTranscript bool // whether the key was charged for each transcript
}

// DialogueEngine is an engine that accepted the connection of a dialogue.
type DialogueEngine struct {
	Conn        net.Conn
	Profile     *engine.Profile
	Served      string        // model name at the engine
	Model       string        // model name for the client
	First, Idle time.Duration // see attempt.Attempt.UpgradeTimeouts
	Quiet       time.Duration // configured idle timeout; 0 means no limit
	Total       time.Duration // configured limit of a call; 0 means no limit
}

// OpenDialogue runs the steps of a call until an engine has accepted a connection and meet has
// exchanged the first messages with that engine. If meet returns an error, the call is sent to
// another engine. The error must come from the connection or be a *failure.Failure. If the call
// fails, OpenDialogue returns nil and stores the response in ctx.
func (s *Services) OpenDialogue(ctx *fasthttp.RequestCtx, meet func(*DialogueEngine) error) (d *Dialogue) {
	c := s.beginCall(ctx, endpoint.RealtimeEndpoint)
	defer s.Guard.Catch(guard.PlaceHandler, func() {
		d = nil
		c.handlePanic()
	})
	d = &Dialogue{call: c, onConnect: meet}
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
	if f := c.checkAndAdmit(); f != nil {
		return f
	}
	d.codec = c.request.(*endpoint.RealtimeSession)
	// All sessions of a model have the same body: an empty one.
	c.fingerprint.initForBody(c.services.Poison, new(body.Body))
	c.services.Retries.CountCall(c.record.Start)
	return d.connect(c.sendFirstAttempt(c.times.stepStart))
}

// connect completes the handshake with the engine to which the call was sent. If the handshake
// fails, it tries the next engine.
func (d *Dialogue) connect(result sendResult, f *failure.Failure) *failure.Failure {
	for result == sendResultSent {
		if f = d.handshake(); f == nil {
			return nil
		}
		result, f = d.call.retryAfterFailure(f)
	}
	return f
}

func (d *Dialogue) handshake() *failure.Failure {
	c := d.call
	a := &c.attempt
	conn, err := a.AwaitUpgrade(d.codec.EngineHandshake())
	if err != nil {
		return a.ClassifyError(err)
	}
	first, idle := a.UpgradeTimeouts()
	m := c.config.model
	e := &DialogueEngine{
		Conn: conn, Profile: a.Lease().Upstream().Engine(), Served: a.Target().Served, Model: m.Config.ID,
		First: first, Idle: idle, Quiet: m.Clocks.Idle.D(), Total: m.Clocks.Total.D(),
	}
	// If SetDeadline fails, the connection is closed, and the next read returns the error.
	_ = conn.SetDeadline(time.Now().Add(first))
	if err := d.onConnect(e); err != nil {
		return d.classifyError(err)
	}
	c.setPhase(&phaseStreaming)
	c.record.Stream = true
	return nil
}

func (d *Dialogue) classifyError(err error) *failure.Failure {
	a := &d.call.attempt
	var f *failure.Failure
	switch {
	case d.call.abort.Cause() != nil, errors.As(err, &f):
	case body.IsTimeout(err):
		err = failure.GenerationTimeout(upstreams.CauseFirstEventTimeout, err)
	default:
		err = a.WrapConnError(err)
	}
	return a.ClassifyError(err)
}

// Reconnect ends the attempt after err, which must come from the connection or be a
// *failure.Failure. If no audio has been sent, Reconnect connects to another engine, calls
// onConnect, and returns nil. Otherwise, it returns an error for the client, and the caller must
// call End. The connection must not be used while Reconnect runs.
func (d *Dialogue) Reconnect(err error) *apierr.Error {
	f := d.classifyError(err)
	// A call whose record says that it is streaming would send keep-alives while it waits for a
	// slot.
	d.call.record.Stream = false
	if f = d.connect(d.call.retryAfterFailure(f)); f == nil {
		return nil
	}
	d.call.record.Stream = true
	return d.failDialogue(f)
}

func (d *Dialogue) failDialogue(f *failure.Failure) *apierr.Error {
	c := d.call
	recordBrokenAnswer(&c.record, f)
	logUpstreamFailure(c.services.Log, c.requestID(), &c.record, f)
	c.endAndBlameAttempt(f, time.Now())
	return c.ep.Dialect.ConvertError(f.API)
}

// MarkAudioSent records that audio was sent to the engine. The edge does not store audio, so no
// other engine can take over.
func (d *Dialogue) MarkAudioSent() { d.codec.MarkAudioSent() }

// AddBytesIn adds n to the number of bytes in the client's messages.
func (d *Dialogue) AddBytesIn(n int64) { d.codec.AddBytesIn(n) }

// AddBytesOut adds n to the number of bytes in events for the client.
func (d *Dialogue) AddBytesOut(n int64) { d.call.record.BytesOut += n }

// ChargeTokens adds the tokens that the engine counted for one transcript, and charges the key
// immediately. It returns an error once the key has exceeded a limit.
func (d *Dialogue) ChargeTokens(prompt, completion int) *apierr.Error {
	c := d.call
	u := &c.tokens.usage
	u.Prompt, u.Completion, u.Known = u.Prompt+prompt, u.Completion+completion, true
	d.chargedPerTranscript = true
	used := limit.Cost{Tokens: int64(prompt + completion), Spend: c.config.model.Price.CallCost(prompt, 0, completion)}
	if over := c.limits.reservation.Charge(used, time.Now()); !over.OK {
		e := limitError(over)
		c.record.Code = e.Code
		return e
	}
	return nil
}

// RecordFirstText records that the first text has arrived. sent is the time at which the edge sent
// the audio for this text.
func (d *Dialogue) RecordFirstText(sent time.Time) {
	c, now := d.call, time.Now()
	if c.record.TTFT > 0 || c.attempt.Lease() == nil {
		return
	}
	c.record.UpstreamTTFT = max(now.Sub(sent), time.Nanosecond)
	c.record.TTFT = c.record.UpstreamTTFT
	c.callStatus.firstAt.Store(now.UnixNano())
	c.attempt.RecordFirstToken(c.record.UpstreamTTFT)
}

// RedactError removes the engine's API key and model name from an error.
func (d *Dialogue) RedactError(e *engineerror.Error) { _ = d.call.attempt.RedactError(e) }

// CancelCause returns why the call was canceled, or nil. It must not be called after End.
func (d *Dialogue) CancelCause() error { return d.call.abort.Cause() }

// EndClientGone ends the attempt because the client has disconnected.
func (d *Dialogue) EndClientGone() { _ = d.failDialogue(failure.FromAbort(failure.ErrClientGone)) }

// Dialogues that last maxMeasuredDialogueDuration or longer do not affect the measured times of the
// engine, because a client may speak for an hour.
const maxMeasuredDialogueDuration = time.Minute

// Complete ends the attempt successfully.
func (d *Dialogue) Complete() {
	c := d.call
	c.record.Outcome = observe.OutcomeOK
	if time.Since(c.record.Start) < maxMeasuredDialogueDuration && c.record.TTFT > 0 {
		c.endAttempt(upstreams.OutcomeOK)
		return
	}
	c.endAttempt(upstreams.OutcomeClientGone)
}

// End ends the call. It is called after Complete, EndClientGone or Reconnect, or after a panic. It
// may be called more than once.
func (d *Dialogue) End() {
	c := d.call
	if d.hasEnded {
		return
	}
	d.hasEnded = true
	if c.record.Outcome == "" {
		_ = d.failDialogue(failure.Internal(failure.ErrPanicked))
	}
	if d.chargedPerTranscript {
		c.limits.reservation.Cancel()
	}
	c.finish()
}
