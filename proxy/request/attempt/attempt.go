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

// Terms are the inputs of an attempt. They do not change during the attempt.
type Terms struct {
	Request      Request
	Model        *snapshot.Model
	PromptTokens int // estimated
	Start        time.Time
	Begun        time.Time // when this attempt began
	RequestID    []byte
	Key          string // id of the client's key, or empty
	Tiers        uint8
	Body         Hasher
	Traceparent  []byte // client's traceparent header, which is used if tracing is off
	Tracestate   []byte
	Span         *observe.CallSpan // nil if tracing is off
	Number       int               // 1 for the first attempt
	Memory       *Memory
	Abort        *Abort
	Mover        Mover
	Guard        *guard.Guard
}

// Request is the part of the client's request that an attempt reads.
type Request interface {
	endpoint.Prompt
	endpoint.Replies
	Streams() bool
}

// Hasher hashes the request body of a call whose attempt has failed.
type Hasher interface {
	// BodyHash returns a hash of the body, or 0 if the body cannot be hashed.
	BodyHash() uint64
}

// Attempt is one attempt of a call at one upstream.
type Attempt struct {
	terms    Terms
	lease    *upstreams.Lease // nil if the attempt has no lease or has released it
	target   *routing.Target
	span     *observe.AttemptSpan // nil if tracing is off
	ttft     time.Duration        // time to the first token; 0 if unknown or not measured
	streamed bool                 // whether the request asked the engine for a stream
	sends    int                  // number of requests written so far by all attempts of the call
	Reply    Reply
}

// Begin starts an attempt. It takes ownership of the lease. Send will write the request to the
// exchange x.
func (a *Attempt) Begin(t *Terms, lease *upstreams.Lease, target *routing.Target, x *http1.Exchange) {
	if sends := a.sends; a.terms.Model != nil { // not the call's first attempt
		*a = Attempt{}
		a.sends = sends
	}
	a.terms, a.lease, a.target = *t, lease, target
	a.Reply.x, a.Reply.memory = x, t.Memory
	a.Reply.clock = clock{limits: &t.Model.Clocks, start: instant.Of(t.Start), up: lease.Upstream(), lease: lease, mover: t.Mover}
	if t.Span != nil {
		up := lease.Upstream()
		a.span = t.Span.Attempt(t.Number, up.Name(), up.Engine().Name(), up.URL(), target.Served, time.Now())
	}
	t.Abort.Publish(x)
}

// Send writes the request. If once is true, the request must not be sent twice, so Send uses only a
// connection that is known to be open.
func (a *Attempt) Send(s endpoint.Sending, streamed, once bool) error {
	x, clocks := a.Reply.x, a.Reply.clock.limits
	r := http1.Request{
		Method: "POST", Path: s.Path,
		ContentType: s.ContentType, Accept: s.Accept,
		RequestID: a.terms.RequestID, Traceparent: a.traceparent(), Tracestate: a.terms.Tracestate,
		Body: s.Body, BodyReader: s.Reader, At: a.terms.Begun,
		ConnectTimeout: clocks.Connect.D(), WriteTimeout: a.Reply.clock.firstEvent(),
		NoReplay: once,
	}
	err := x.Send(&r)
	a.sends += x.Sends()
	sentAt := instant.Of(a.terms.Begun)
	if !x.AtOnce() {
		sentAt = instant.Now()
	}
	c := &a.Reply.clock
	c.sentAt, c.readAt = sentAt, sentAt
	a.streamed, c.streams = streamed, a.terms.Request.Streams()
	if tools, _ := a.terms.Request.Prefix(); tools != nil {
		c.buffered = a.lease.Upstream().Engine().Has(config.QuirkBuffersCalls)
	}
	if c.buffered || !streamed {
		a.lease.Buffers()
	}
	// The last field of the form may be the one that requests a stream.
	if err == nil && s.Reader != nil {
		a.streamed = c.streams
	}
	return err
}

func (a *Attempt) traceparent() []byte {
	if a.span != nil {
		return a.span.Traceparent(nil)
	}
	return a.terms.Traceparent
}

// AwaitHead waits until the given time for the response headers. It returns nil for a usable
// response and http1.ErrNotYet after a timeout. FailureOf converts other errors.
func (a *Attempt) AwaitHead(until time.Time) error {
	r := &a.Reply
	if r.clock.headed {
		return nil
	}
	if r.form == endpoint.Document {
		return a.document(until)
	}
	sends := r.x.Sends()
	err := r.await(instant.Of(until))
	a.sends += r.x.Sends() - sends
	if err != nil {
		return err
	}
	if r.x.Status() != 200 {
		return a.refusal()
	}
	switch form := a.terms.Request.Reads(r.x, a.streamed); form {
	case endpoint.Complaint:
		return a.complaint(string(r.x.Header("Content-Type")), errorBody(r.x, a.terms.Memory))
	case endpoint.Document:
		// The media type is copied now, because reading the body moves the headers.
		r.form, r.document.mediaType = form, string(r.x.Header("Content-Type"))
		return a.document(until)
	case endpoint.WrongType:
		return failure.WrongType(endpoint.ErrWrongType)
	default:
		r.form, r.clock.headed = form, true
		if form == endpoint.Events {
			r.events = readerPool.Get().(*sse.Reader)
			r.events.Reset(r, maxEvent)
		}
	}
	return nil
}

// Pull translates the engine's next events into the client's dialect and appends them to dst. It
// appends at least one byte, sets done at the end of the stream, or returns an error. If until
// passes first, Pull returns http1.ErrNotYet and may be called again. FailureOf converts other
// errors.
func (a *Attempt) Pull(dst []byte, until instant.Time, to endpoint.Stream) (out []byte, done bool, err error) {
	if !a.Reply.clock.headed {
		if err := a.AwaitHead(until.Std()); err != nil {
			return dst, false, err
		}
	}
	a.Reply.clock.until = until
	return a.Reply.pull(dst, to)
}

// ReadWhole returns the engine's complete response. If the request asked for a stream, ReadWhole
// assembles the completion from the stream.
//
// ReadWhole returns the same errors as AwaitHead, and may be called again after http1.ErrNotYet. If
// passesOn is true, ReadWhole returns ErrLarge for a large response, which the caller can relay
// while it arrives.
func (a *Attempt) ReadWhole(until time.Time, to endpoint.Unary, passesOn bool) ([]byte, error) {
	r := &a.Reply
	r.clock.until = instant.Of(until)
	r.whole.begin()
	var err error
	switch {
	case a.streamed:
		err = r.whole.assemble(r, to.Assembled())
	case passesOn:
		err = r.whole.read(r, to)
	default:
		err = r.whole.read(r, nil)
	}
	if err != nil {
		return nil, err
	}
	return *r.whole.body, nil
}

// Sends returns how many requests the attempts of the call have written so far.
func (a *Attempt) Sends() int { return a.sends }

// RequestedStream reports whether the request to the engine asked for a stream.
func (a *Attempt) RequestedStream() bool { return a.streamed }

// Target returns the target of the attempt, or nil if no attempt was made.
func (a *Attempt) Target() *routing.Target { return a.target }

// Lease returns the lease of the attempt. If it was released, or the attempt has none, Lease
// returns nil.
func (a *Attempt) Lease() *upstreams.Lease { return a.lease }

// FirstToken records the time between the request and the first token.
func (a *Attempt) FirstToken(ttft time.Duration) {
	a.ttft = ttft
	a.lease.FirstToken(ttft)
}

// Counted records how many prompt tokens the engine counted, and how many of them were cached. It
// must be called before Answered.
func (a *Attempt) Counted(tokens, cached int) {
	if a.lease != nil {
		a.target.Counted(a.lease, tokens, cached)
	}
}

// Answered records the number of tokens in the complete answer.
func (a *Attempt) Answered(tokens int) {
	if p := a.Reply.Progress(); a.lease != nil && a.ttft > 0 {
		a.lease.Answered(tokens, p.readAt.Since(p.sentAt)-a.ttft, p.readAt.Std())
	}
}

// FailureOf converts an error into a failure. err must not be http1.ErrNotYet.
func (a *Attempt) FailureOf(err error) *failure.Failure {
	if cause := a.terms.Abort.Cause(); cause != nil {
		return failure.FromAbort(cause) // the error is only a consequence of the cancellation
	}
	var (
		f *failure.Failure
		e *engineerror.Error
		u unsuited
	)
	switch {
	case errors.As(err, &u):
		f = a.FailureOf(u.error)
		if f.Outcome == upstreams.OutcomeBadResponse && f.Cause != upstreams.CauseErrorEvent {
			f.Outcome = upstreams.OutcomeRejected
		}
	case errors.As(err, &f):
	case errors.As(err, &e):
		a.redact(e)
		f = failure.FromStreamError(e)
		if a.lease != nil {
			a.doubt(f, e, e.Status)
		}
	case errors.Is(err, errNoMemory):
		f = failure.NoReplyMemory()
	case errors.Is(err, endpoint.ErrWrongType):
		f = failure.WrongType(err)
	default:
		f = failure.FromExchange(err)
	}
	if f.Status == 0 && f.Cause != "" && a.Reply.x != nil {
		f.Status = a.Reply.x.Status()
	}
	return f
}

// Blame reports a failure to the health and the breaker of the upstream. Blame does nothing if the
// upstream is not at fault or the attempt has ended.
func (a *Attempt) Blame(f *failure.Failure) {
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
	a.lease.Upstream().Health.Note(f.Cause, detail, f.Status, time.Now())
	if f.Outcome != upstreams.OutcomeRefused {
		source := a.source(sent)
		source.NotFound = f.NotFound()
		a.lease.FailedFor(source)
	}
}

func (a *Attempt) source(sent bool) upstreams.FailureSource {
	return upstreams.FailureSource{
		Key: a.terms.Key, Body: a.terms.Body.BodyHash(), Served: a.target.Served,
		Kind: a.terms.Model.Config.Kind, Sent: sent, Begun: a.Reply.clock.headed, Limit: a.Reply.clock.firstEvent(),
	}
}

// End closes the exchange and releases the lease with the outcome. Only the first call has an
// effect. If now is zero, End reads the clock.
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
	a.Close(o, now)
}

// Close closes the exchange but does not release the lease.
func (a *Attempt) Close(o upstreams.Outcome, now time.Time) {
	a.terms.Abort.Withdraw()
	defer a.Reply.x.CloseAt(now)
	a.terms.Guard.Point("attempt.end")
	if a.span != nil {
		failed := o != upstreams.OutcomeOK && o != upstreams.OutcomeClientGone
		a.span.End(o.String(), failed, a.Reply.x.Status(), a.ttft, time.Now())
		a.span = nil
	}
	a.Reply.release()
}

// LowerLimit lowers the token limit of a request to the number of tokens that remain after the
// prompt in the target's context. LowerLimit does nothing if the context length is unknown.
func LowerLimit(m *snapshot.Model, l endpoint.TokenLimit, prompt func() int, t *routing.Target) {
	l.Fit(-1)
	requested := l.TokenLimit()
	if requested <= 0 {
		return
	}
	if limit := chat.FitLimit(requested, ContextOf(m, l, t), prompt()); limit < requested {
		l.Fit(limit)
	}
}

// ContextOf returns the context length of a target in tokens. If both the engine's reported length
// and the configured length are known, it returns the smaller one; if neither is known, it returns
// 0.
func ContextOf(m *snapshot.Model, limit endpoint.TokenLimit, t *routing.Target) int {
	configured, n := limit.Context(&m.Rules), t.Upstream.Models.MaxContext(t.Served)
	if n == 0 || configured > 0 && configured < n {
		return configured
	}
	return n
}
