package attempt

import (
	"errors"
	"time"

	"penstock/config"
	"penstock/config/instant"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/observe"
	"penstock/routing"
	"penstock/translate/chat"
	"penstock/translate/engineerror"
	"penstock/translate/sse"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// Params are the inputs of an attempt. They do not change during the attempt.
type Params struct {
	Request      ClientRequest
	Model        *snapshot.Model
	PromptTokens int    // estimated
	Key          string // id of the client's key, or empty
	Tiers        routing.TierSet
	Body         BodyHasher
	Memory       *ReplyMemory
	Abort        *Canceler
	Guard        *guard.Guard
}

// SendParams are the inputs of Begin and Send, which an attempt does not store.
type SendParams struct {
	Start       time.Time // when the call began
	Begun       time.Time // when this attempt began
	RequestID   []byte
	Traceparent []byte // client's traceparent header, which is used if tracing is off
	Tracestate  []byte
	Span        *observe.CallSpan // nil if tracing is off
	Number      int               // 1 for the first attempt
	Mover       CallMover
}

// ClientRequest is the part of the client's request that an attempt reads.
type ClientRequest interface {
	endpoint.PromptInfo
	endpoint.ReplyDecoder
	ClientWantsStream() bool
}

// BodyHasher hashes the request body of a call whose attempt has failed.
type BodyHasher interface {
	// BodyHash returns a hash of the body, or 0 if the body cannot be hashed.
	BodyHash() uint64
}

// Attempt is one attempt of a call at one upstream.
type Attempt struct {
	params          Params
	lease           *upstreams.Lease // nil if the attempt has no lease or has released it
	target          *routing.Target
	span            *observe.AttemptSpan // nil if tracing is off
	ttft            time.Duration        // time to the first token; 0 if unknown or not measured
	requestedStream bool                 // whether the request asked the engine for a stream
	sendCount       int32                // number of requests sent by all attempts of the call
	Reply           Reply
}

// Prepare starts an attempt. The attempt owns the lease. Send will write the request to the exchange
// x.
func (a *Attempt) Prepare(t *Params, p *SendParams, lease *upstreams.Lease, target *routing.Target, x *http1.Exchange) {
	if sends := a.sendCount; a.params.Model != nil { // not the call's first attempt
		*a = Attempt{}
		a.sendCount = sends
	}
	a.params, a.lease, a.target = *t, lease, target
	a.Reply.x, a.Reply.memory = x, t.Memory
	a.Reply.timeouts = responseTimeouts{limits: &t.Model.Clocks, callStart: instant.FromTime(p.Start), upstream: lease.Upstream(), lease: lease, mover: p.Mover}
	if p.Span != nil {
		up := lease.Upstream()
		a.span = p.Span.StartAttempt(p.Number, up.Name(), up.Engine().Name(), up.URL(), target.Served, time.Now())
	}
	t.Abort.SetExchange(x)
}

// Send writes the request. If once is true, the request must not be sent twice, so Send uses only a
// connection that is known to be open.
func (a *Attempt) Send(p *SendParams, s endpoint.EngineRequest, streamed, once bool) error {
	x, clocks := a.Reply.x, a.Reply.timeouts.limits
	r := http1.Request{
		Method: "POST", Path: s.Path,
		ContentType: s.ContentType, Accept: s.Accept,
		RequestID: p.RequestID, Traceparent: a.traceparent(p), Tracestate: p.Tracestate,
		Body: s.Body, BodyReader: s.Reader, At: p.Begun,
		ConnectTimeout: clocks.Connect.D(), WriteTimeout: a.Reply.timeouts.firstEventTimeout(),
		NoReplay: once,
	}
	err := x.Send(&r)
	a.sendCount += int32(x.SendCount())
	sentAt := instant.FromTime(p.Begun)
	if !x.WasSentAtOnce() {
		sentAt = instant.Now()
	}
	c := &a.Reply.timeouts
	c.sentAt, c.readAt = sentAt, sentAt
	a.requestedStream, c.isStream = streamed, a.params.Request.ClientWantsStream()
	if tools, _ := a.params.Request.PromptPrefix(); tools != nil {
		c.mayBuffer = a.lease.Upstream().Engine().HasQuirk(config.QuirkBuffersCalls)
	}
	if c.mayBuffer || !streamed {
		a.lease.MarkBuffering()
	}
	// The last field of the form may be the one that requests a stream.
	if err == nil && s.Reader != nil {
		a.requestedStream = c.isStream
	}
	return err
}

func (a *Attempt) traceparent(p *SendParams) []byte {
	if a.span != nil {
		return a.span.AppendTraceparent(nil)
	}
	return p.Traceparent
}

// AwaitHead waits for the response headers until the given time. It returns nil for a usable
// response and http1.ErrNoBytesYet after a timeout. ClassifyError classifies all other errors.
func (a *Attempt) AwaitHead(until time.Time) error {
	r := &a.Reply
	if r.timeouts.headArrived {
		return nil
	}
	if r.form == endpoint.ReplyMismatch {
		return a.sniffResponse(until)
	}
	sends := r.x.SendCount()
	err := r.awaitHead(instant.FromTime(until))
	a.sendCount += int32(r.x.SendCount() - sends)
	if err != nil {
		return err
	}
	if r.x.Status() != 200 {
		return a.statusFailure()
	}
	switch form := a.params.Request.DetectReplyForm(r.x, a.requestedStream); form {
	case endpoint.ReplyUnexpected:
		return a.unexpectedTypeFailure(string(r.x.Header("Content-Type")), readErrorBody(r.x, a.params.Memory))
	case endpoint.ReplyMismatch:
		// The media type is copied now, because reading the body moves the headers.
		r.form, r.sniffed = form, &sniffedResponse{mediaType: string(r.x.Header("Content-Type"))}
		return a.sniffResponse(until)
	case endpoint.ReplyWrongType:
		return failure.WrongReplyContentType(endpoint.ErrWrongReplyMediaType)
	default:
		r.form, r.timeouts.headArrived = form, true
		if form == endpoint.ReplyEvents {
			r.eventReader = eventReaderPool.Get().(*sse.Reader)
			r.eventReader.Reset(r, maxEventBytes)
		}
	}
	return nil
}

// PullStream translates the engine's next events into the client's dialect and appends them to dst.
// It appends at least one byte, sets done at the end of the stream, or returns an error. If the
// time until passes first, PullStream returns http1.ErrNoBytesYet and may be called again.
// ClassifyError classifies all other errors.
func (a *Attempt) PullStream(dst []byte, until instant.Time, to endpoint.Stream) (out []byte, done bool, err error) {
	if !a.Reply.timeouts.headArrived {
		if err := a.AwaitHead(until.StdTime()); err != nil {
			return dst, false, err
		}
	}
	a.Reply.timeouts.readDeadline = until
	return a.Reply.pullStream(dst, to)
}

// ReadFullResponse returns the engine's complete response. If the request asked for a stream,
// ReadFullResponse assembles the completion from the stream.
//
// ReadFullResponse returns the same errors as AwaitHead, and may be called again after
// http1.ErrNoBytesYet. If passesOn is true, ReadFullResponse returns ErrLargeReply for a large
// response, which the caller can then relay while it arrives.
func (a *Attempt) ReadFullResponse(until time.Time, to endpoint.UnaryAnswer, passesOn bool) ([]byte, error) {
	r := &a.Reply
	r.timeouts.readDeadline = instant.FromTime(until)
	r.full.ensureBuffer()
	var err error
	switch {
	case a.requestedStream:
		err = r.full.assembleStream(r, to.AssemblyOptions())
	case passesOn:
		err = r.full.readBody(r, to)
	default:
		err = r.full.readBody(r, nil)
	}
	if err != nil {
		return nil, err
	}
	return *r.full.body, nil
}

// SendCount returns how many requests the attempts of the call have written so far.
func (a *Attempt) SendCount() int { return int(a.sendCount) }

// RequestedStream reports whether the request to the engine asked for a stream.
func (a *Attempt) RequestedStream() bool { return a.requestedStream }

// Target returns the target of the attempt, or nil if no attempt was made.
func (a *Attempt) Target() *routing.Target { return a.target }

// Lease returns the lease of the attempt. If it was released, or the attempt has none, Lease
// returns nil.
func (a *Attempt) Lease() *upstreams.Lease { return a.lease }

// RecordFirstToken records the time between the request and the first token.
func (a *Attempt) RecordFirstToken(ttft time.Duration) {
	a.ttft = ttft
	a.lease.RecordFirstToken(ttft)
}

// RecordPromptTokens records how many prompt tokens the engine counted, and how many of them were
// cached. It must be called before RecordAnswerTokens.
func (a *Attempt) RecordPromptTokens(tokens, cached int) {
	if a.lease != nil {
		a.target.RecordPromptTokens(a.lease, tokens, cached)
	}
}

// RecordAnswerTokens records the number of tokens in the complete answer.
func (a *Attempt) RecordAnswerTokens(tokens int) {
	if p := a.Reply.Progress(); a.lease != nil && a.ttft > 0 {
		a.lease.RecordResponse(tokens, p.readAt.Sub(p.sentAt)-a.ttft, p.readAt.StdTime())
	}
}

// ClassifyError converts an error into a failure. err must not be http1.ErrNoBytesYet.
func (a *Attempt) ClassifyError(err error) *failure.Failure {
	if cause := a.params.Abort.Cause(); cause != nil {
		return failure.FromAbort(cause) // the error is only a consequence of the cancellation
	}
	var (
		f *failure.Failure
		e *engineerror.Error
		u unsupportedFormatError
	)
	switch {
	case errors.As(err, &u):
		f = a.ClassifyError(u.error)
		if f.Outcome == upstreams.OutcomeBadResponse && f.Cause != upstreams.CauseErrorEvent {
			f.Outcome = upstreams.OutcomeRejected
		}
	case errors.As(err, &f):
	case errors.As(err, &e):
		a.redactError(e)
		f = failure.FromStreamError(e)
		if a.lease != nil {
			a.recordDoubtfulRejection(f, e, e.Status)
		}
	case errors.Is(err, errNoMemory):
		f = failure.NoReplyMemory()
	case errors.Is(err, endpoint.ErrWrongReplyMediaType):
		f = failure.WrongReplyContentType(err)
	default:
		f = failure.FromExchange(err)
	}
	if f.Status == 0 && f.Cause != "" && a.Reply.x != nil {
		f.Status = a.Reply.x.Status()
	}
	return f
}

// BlameUpstream reports a failure to the upstream's health tracking and circuit breaker. It does
// nothing if the upstream is not at fault or the attempt has ended.
func (a *Attempt) BlameUpstream(f *failure.Failure) {
	if a.lease == nil {
		return
	}
	switch f.Outcome {
	case upstreams.OutcomeTimeout, upstreams.OutcomeUnreachable, upstreams.OutcomeBadResponse, upstreams.OutcomeRefused:
	default:
		return
	}
	detail, sent := "", true
	if x := (*http1.Failure)(nil); errors.As(f.API.Cause, &x) {
		detail, sent = x.Detail(), x.Sent
	}
	a.lease.Upstream().Health.RecordFailure(f.Cause, detail, f.Status, time.Now())
	if f.Outcome != upstreams.OutcomeRefused {
		source := a.failureSource(sent)
		source.NotFound = f.IsBareNotFound()
		a.lease.SetFailureSource(source)
	}
}

func (a *Attempt) failureSource(sent bool) upstreams.FailureSource {
	return upstreams.FailureSource{
		Key: a.params.Key, Body: a.params.Body.BodyHash(), Served: a.target.Served,
		Kind: a.params.Model.Config.Kind, Sent: sent, Begun: a.Reply.timeouts.headArrived, Limit: a.Reply.timeouts.firstEventTimeout(),
	}
}

// End closes the exchange and releases the lease with the outcome. Only the first call to End has
// an effect. If now is zero, End reads the clock.
func (a *Attempt) End(o upstreams.Outcome, now time.Time) {
	lease := a.lease
	if lease == nil {
		return
	}
	a.lease = nil
	if now.IsZero() {
		now = time.Now()
	}
	defer lease.ReleaseAt(o, now)
	a.CloseExchange(o, now)
}

// CloseExchange closes the exchange but does not release the lease.
func (a *Attempt) CloseExchange(o upstreams.Outcome, now time.Time) {
	a.params.Abort.ClearExchange()
	defer a.Reply.x.CloseWithNow(now)
	a.params.Guard.PanicIfInjected("attempt.end")
	if a.span != nil {
		failed := o != upstreams.OutcomeOK && o != upstreams.OutcomeClientGone
		a.span.End(o.String(), failed, a.Reply.x.Status(), a.ttft, time.Now())
		a.span = nil
	}
	a.Reply.release()
}

// LowerTokenLimit lowers the token limit of a request so that the prompt and the answer fit into
// the target's context. It does nothing if the context length is unknown.
func LowerTokenLimit(m *snapshot.Model, l endpoint.TokenLimit, prompt func() int, t *routing.Target) {
	l.LowerTo(-1)
	requested := l.TokenLimit()
	if requested <= 0 {
		return
	}
	context := ContextLength(m, l, t)
	if context == 0 {
		return
	}
	if limit := chat.FitLimit(requested, context, prompt()); limit < requested {
		l.LowerTo(limit)
	}
}

// ContextLength returns the context length of a target in tokens. If both the engine and the
// configuration state a length, it returns the smaller one. If neither does, it returns 0.
func ContextLength(m *snapshot.Model, limit endpoint.TokenLimit, t *routing.Target) int {
	configured, n := limit.ContextLength(&m.Rules), t.Upstream.Models.MaxContext(t.Served)
	if n == 0 || configured > 0 && configured < n {
		return configured
	}
	return n
}
