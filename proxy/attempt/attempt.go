package attempt

import (
	"errors"
	"time"

	"penstock/proxy/endpoint"
	"penstock/proxy/failure"
	"penstock/proxy/guard"
	"penstock/proxy/observe"
	"penstock/proxy/snapshot"
	"penstock/routing"
	"penstock/translate/engineerror"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// Terms are what an attempt needs of its call.
type Terms struct {
	Request      endpoint.Request
	Model        *snapshot.Model
	PromptTokens int       // estimated
	Start        time.Time // of the call
	Asked        time.Time // when the attempt began
	RequestID    []byte
	Key          string // id of the client's key; empty: none
	Body         Hasher
	Traceparent  []byte            // the client's, without tracing
	Span         *observe.CallSpan // nil without tracing
	Number       int               // of the attempt; the first is 1
	Memory       *Memory
	Abort        *Abort
	Guard        *guard.Guard
}

// Hasher identifies the body of a call whose attempt has failed.
type Hasher interface {
	// BodyHash is 0 for a body that cannot be identified.
	BodyHash() uint64
}

// Attempt is one try of a call.
type Attempt struct {
	terms  Terms
	lease  *upstreams.Lease // nil: there is none, or it was released
	target *routing.Target
	span   *observe.AttemptSpan // nil without tracing
	ttft   time.Duration        // to the first token; 0: it has not come, or counts for nothing
	asked  bool                 // the engine was asked for a stream
	sends  int                  // requests that were written, by all attempts of the call
	reply  reply
}

// Begin takes over lease for a request to be sent in x, an exchange of it.
func (a *Attempt) Begin(t *Terms, lease *upstreams.Lease, target *routing.Target, x *http1.Exchange) {
	*a = Attempt{terms: *t, lease: lease, target: target, sends: a.sends}
	a.reply.x, a.reply.memory = x, t.Memory
	a.reply.clock = clock{limits: &t.Model.Clocks, start: t.Start}
	if t.Span != nil {
		up := lease.Upstream()
		a.span = t.Span.Attempt(t.Number, up.Name(), up.Engine().Name(), up.URL(), target.Served, time.Now())
	}
	t.Abort.Publish(x)
}

// Send writes the request. once: on no connection that may turn out to be dead.
func (a *Attempt) Send(s endpoint.Sending, asksStream, once bool) error {
	x, clocks := a.reply.x, a.reply.clock.limits
	a.reply.native = s.Native
	r := http1.Request{
		Method: "POST", Path: s.Path,
		ContentType: s.ContentType, Accept: s.Accept,
		RequestID: a.terms.RequestID, Traceparent: a.traceparent(),
		Body: s.Body, BodyReader: s.Reader, At: a.terms.Asked,
		ConnectTimeout: clocks.Connect.D(), WriteTimeout: clocks.FirstEvent.D(),
		NoReplay: once,
	}
	err := x.Send(&r)
	a.sends += x.Sends()
	sentAt := a.terms.Asked
	if !x.AtOnce() {
		sentAt = time.Now()
	}
	c := &a.reply.clock
	c.sentAt, c.readAt = sentAt, sentAt
	a.asked, c.streams = asksStream, a.terms.Request.Streams()
	if err == nil && a.terms.Request.Form() != nil { // its last field may have asked for events
		a.asked = c.streams
	}
	return err
}

// traceparent returns the W3C trace context for the engine; nil: there is none.
func (a *Attempt) traceparent() []byte {
	if a.span != nil {
		return a.span.Traceparent(nil)
	}
	return a.terms.Traceparent
}

// AwaitHead reads the reply's head. It returns nil for a usable reply, http1.ErrNotYet when until
// passes, and otherwise what FailureOf takes.
func (a *Attempt) AwaitHead(until time.Time) error {
	r := &a.reply
	if r.clock.headed {
		return nil
	}
	sends := r.x.Sends()
	err := r.await(until)
	a.sends += r.x.Sends() - sends
	if err != nil {
		return err
	}
	if r.x.Status() != 200 {
		return a.refusal()
	}
	switch form := a.terms.Request.Reads(r.x, a.asked); form { //nolint:exhaustive // the others are usable
	case endpoint.Complaint:
		return a.complaint()
	case endpoint.WrongType:
		return failure.BadResponse(endpoint.ErrWrongType)
	default:
		r.begin(form)
	}
	return nil
}

// Pull appends what the engine's next events become in the client's dialect. It returns with at
// least one byte, or with done at the end of the stream, or with an error: http1.ErrNotYet when
// until passes first (call again to go on), and otherwise what FailureOf takes.
func (a *Attempt) Pull(dst []byte, until time.Time, to endpoint.Stream) (out []byte, done bool, err error) {
	if err := a.AwaitHead(until); err != nil {
		return dst, false, err
	}
	a.reply.clock.until = until
	return a.reply.pull(dst, to)
}

// ReadWhole returns the engine's whole reply, as a completion where it is chat underneath. Its
// errors are those of AwaitHead, and ErrLarge for a reply that is to be passed on as it comes, if
// passesOn allows that. With http1.ErrNotYet it may be called again.
func (a *Attempt) ReadWhole(until time.Time, to endpoint.Unary, passesOn bool) ([]byte, error) {
	r := &a.reply
	r.clock.until = until
	r.wholeBuffer()
	var err error
	switch {
	case a.asked:
		err = r.assemble(to.Assembled())
	case passesOn:
		err = r.readWhole(to)
	default:
		err = r.readWhole(nil)
	}
	if err != nil {
		return nil, err
	}
	return r.completion()
}

// BeginsWhole reports whether ReadWhole has not been called yet.
func (a *Attempt) BeginsWhole() bool { return a.reply.whole == nil }

// BeginPassOn appends the part of a large reply that ReadWhole has read.
func (a *Attempt) BeginPassOn(dst []byte, to *endpoint.PassOn) ([]byte, error) {
	out, err := to.Append(dst, *a.reply.whole)
	if err == nil {
		a.reply.clock.begun = true
	}
	return out, err
}

// PullPassedOn is Pull for the rest of it.
func (a *Attempt) PullPassedOn(dst []byte, to *endpoint.PassOn) (out []byte, done bool, err error) {
	a.reply.clock.until = time.Time{}
	return a.reply.pullPassedOn(dst, to)
}

// Blocked notes that the client has held up an answer that is passed on until now. Its engine could
// not go on either, so that time is none of the engine's.
func (a *Attempt) Blocked(since, now time.Time) {
	a.reply.clock.blocked += now.Sub(since)
	a.reply.clock.readAt = now
}

// Rests reports whether nothing has come that Pull could take, so that it would wait.
func (a *Attempt) Rests() bool { return a.reply.rests() }

// Rest waits until something has come that Pull can take, until the given time or a failure, which
// Pull will return. While it waits the attempt holds no buffer; it is called with none of the
// caller's, either.
func (a *Attempt) Rest(until time.Time) {
	if r := &a.reply; r.rests() {
		r.events.Rest()
		r.x.Wait(earlier(until, r.clock.deadline()))
	}
}

// Progress is how far an attempt has come.
type Progress struct {
	Begun  bool // the first event has come
	Ended  bool // the reply has come to its framed end
	Events int  // that have come
	SentAt time.Time
	ReadAt time.Time // the last bytes of the reply
}

// Progress returns how far the attempt has come.
func (a *Attempt) Progress() Progress {
	r := &a.reply
	return Progress{Begun: r.clock.begun, Ended: r.ended, Events: r.count, SentAt: r.clock.sentAt, ReadAt: r.clock.readAt}
}

// Begun reports whether the first event has come.
func (a *Attempt) Begun() bool { return a.reply.clock.begun }

// Sends is how many requests this and the earlier attempts of the call have written.
func (a *Attempt) Sends() int { return a.sends }

// AsksStream reports whether the engine was asked for a stream.
func (a *Attempt) AsksStream() bool { return a.asked }

// Reply is the head of the reply, which has come.
func (a *Attempt) Reply() endpoint.Reply { return a.reply.x }

// Target is where it goes; nil: there was no attempt.
func (a *Attempt) Target() *routing.Target { return a.target }

// FirstToken notes that the first token came, ttft after the request was sent.
func (a *Attempt) FirstToken(ttft time.Duration) {
	a.ttft = ttft
	a.lease.FirstToken(ttft)
}

// FailureOf says what an error means that is not http1.ErrNotYet.
func (a *Attempt) FailureOf(err error) *failure.Failure {
	if cause := a.terms.Abort.Cause(); cause != nil {
		return failure.FromAbort(cause) // it is why the read failed, whatever it failed with
	}
	var (
		f *failure.Failure
		e *engineerror.Error
		u unsuited
	)
	switch {
	case errors.As(err, &u):
		f = a.FailureOf(u.error)
		if f.Outcome == upstreams.OutcomeBadResponse && f.Status == 0 {
			f.Outcome = upstreams.OutcomeRejected
		}
	case errors.As(err, &f):
	case errors.As(err, &e):
		a.redact(e)
		f = failure.FromStreamError(e)
	case errors.Is(err, errNoMemory):
		f = failure.NoReplyMemory()
	default:
		f = failure.FromExchange(err)
	}
	return f
}

// Blame reports a failure to the upstream's status and, with its client, to its breaker, unless the
// upstream is not to blame.
func (a *Attempt) Blame(f *failure.Failure) {
	switch f.Outcome {
	case upstreams.OutcomeTimeout, upstreams.OutcomeUnreachable, upstreams.OutcomeBadResponse, upstreams.OutcomeRefused:
	default:
		return
	}
	reason, sent := f.Outcome.String(), true
	if x := (*http1.Failure)(nil); errors.As(f.API.Cause, &x) && x.Reason != "" {
		reason, sent = x.Reason, x.Sent
	}
	a.lease.Upstream().Health.Note(reason, f.Status, time.Now())
	if f.Outcome != upstreams.OutcomeRefused {
		a.lease.FailedFor(a.source(sent))
	}
}

// source is the call as the breaker sees it when it has failed.
func (a *Attempt) source(sent bool) upstreams.FailureSource {
	return upstreams.FailureSource{
		Key: a.terms.Key, Body: a.terms.Body.BodyHash(), Served: a.target.Served,
		Sent: sent, Begun: a.reply.clock.headed, Limit: a.reply.clock.limits.FirstEvent.D(),
	}
}

// ReadTail gives an engine whose reply is complete a moment to end it in good order.
func (a *Attempt) ReadTail() { a.reply.readTail() }

// End releases the lease with the attempt's outcome and lets go of the connection. Only the first
// call counts. now may be zero: the clock is read then.
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

// Close ends the attempt's exchange and keeps its lease.
func (a *Attempt) Close(o upstreams.Outcome, now time.Time) {
	a.terms.Abort.Withdraw()
	defer a.reply.x.CloseAt(now)
	a.terms.Guard.Point("attempt.end")
	if a.span != nil {
		failed := o != upstreams.OutcomeOK && o != upstreams.OutcomeClientGone
		a.span.End(o.String(), failed, a.reply.x.Status(), a.ttft, time.Now())
		a.span = nil
	}
	a.reply.release()
}

// ContextOf returns the context in tokens that a target has for a request: the smaller one of the
// engine's and the configured one; 0: neither is known.
func ContextOf(m *snapshot.Model, limit endpoint.TokenLimit, t *routing.Target) int {
	configured, n := limit.Context(&m.Rules), t.Upstream.Models.MaxContext(t.Served)
	if n == 0 || configured > 0 && configured < n {
		return configured
	}
	return n
}
