package proxy

import (
	"errors"
	"io"
	"sync"
	"time"

	"penstock/config"
	"penstock/proxy/observe"
	"penstock/routing"
	"penstock/translate"
	"penstock/translate/chat/answer"
	"penstock/translate/engineerror"
	"penstock/translate/forward"
	"penstock/translate/sse"
	"penstock/upstreams"
	"penstock/upstreams/http1"
	"penstock/upstreams/http1/httptoken"
)

// attempt is one try of a call: a lease, one exchange under it, and the reading of its reply. The
// zero value is no attempt. It is owned by the call's goroutine.
type attempt struct {
	call      *Call
	lease     *upstreams.Lease
	target    *routing.Target
	x         *http1.Exchange
	events    *sse.Reader            // of a streamed reply
	unaryBody *[]byte                // of one that is read whole: what has come of it, or the completion that it amounts to
	native    translate.NativeReader // of a reply in the endpoint's own dialect; nil: it is chat

	assembler *answer.Assembler // puts a streamed reply together for a client that wants it whole

	count    int                  // events that have come
	streamed bool                 // the engine was asked for a stream
	headed   bool                 // the reply's head has come and is a 200
	atOnce   bool                 // a transcript that is no stream although one was asked for
	begun    bool                 // the first event has come
	ended    bool                 // the reply has come to its framed end
	span     *observe.AttemptSpan // nil without tracing
	bad      error                // what the event after the last one delivered was; told by the next pull

	sentAt     time.Time     // request written
	readAt     time.Time     // last bytes of the reply
	completeAt time.Time     // every choice had its finish reason
	blocked    time.Duration // the client held up an answer that is passed on
	until      time.Time     // the patience of a stream's reader, for Read; zero: the clocks decide
}

const (
	maxEvent      = 8 << 20         // of one event: more than engines send, and little enough to hold
	maxErrorBody  = 8 << 20         // engines repeat the request in their complaint about it, before the reason or behind it
	errorPatience = 5 * time.Second // for the body of an engine's refusal
	// afterFinish is how long a stream whose choices are all finished may still bring usage and
	// [DONE].
	afterFinish = 2 * time.Second
	coalesce    = 16 << 10 // events that are there already go out in one write up to this size
)

var readerPool = sync.Pool{New: func() any { return sse.NewReader(nil, maxEvent) }}

// open takes over lease and sends the call's request in x, an exchange of it.
func (a *attempt) open(c *Call, lease *upstreams.Lease, target *routing.Target, x *http1.Exchange, streamed bool) error {
	*a = attempt{call: c, lease: lease, target: target, streamed: streamed, x: x}
	if c.span != nil {
		up := lease.Upstream()
		a.span = c.span.Attempt(c.targets, up.Name(), up.Engine().Name(), up.URL(), target.Served, time.Now())
	}
	c.publish(a.x)
	if c.payload != nil {
		return a.openPayload()
	}
	if n := c.nativeAt(lease.Upstream()); n != nil {
		return a.openNative(n)
	}
	wanted := c.shared.engineFormat(lease.Upstream().Engine())
	wanted.Served, wanted.Stream = target.Served, streamed
	wanted.Salt = c.saltAt(lease.Upstream())
	// Usage in every chunk costs a full parse of each; only Messages tells counts at the start of a
	// stream.
	wanted.ContinuousUsage = wanted.ContinuousUsage && c.ep.dialect == dialectMessages
	c.segments, c.room = c.chat.Segments(c.segments[:0], c.room[:0], &wanted)
	return a.send(lease.Upstream().Engine().Path(config.OpChat), c.segments) // all dialects here are chat underneath
}

// send writes a request whose body is JSON.
func (a *attempt) send(path string, segments [][]byte) error {
	c := a.call
	clocks := &c.model.Clocks
	accept := "application/json"
	if a.streamed {
		accept = "text/event-stream"
	}
	err := a.x.Send(&http1.Request{
		Method: "POST", Path: path,
		ContentType: "application/json", Accept: accept,
		RequestID: c.id, Traceparent: c.traceparent(),
		Body: segments, At: c.asked,
		ConnectTimeout: clocks.Connect.D(), WriteTimeout: clocks.FirstEvent.D(),
		NoReplay: c.sends > c.refits,
	})
	a.sent()
	return err
}

// sent notes that the request has been written, or as much of it as could be.
func (a *attempt) sent() {
	a.call.sends += a.x.Sends()
	a.sentAt = a.call.asked
	if !a.x.AtOnce() {
		a.sentAt = time.Now()
	}
	a.readAt = a.sentAt
}

// awaitHead reads the reply's head. It returns nil for a usable reply, http1.ErrNotYet when
// until passes, and otherwise a *failure or what the exchange says.
func (a *attempt) awaitHead(until time.Time) error {
	if a.headed {
		return nil
	}
	own := a.deadline()
	sends := a.x.Sends()
	err := a.x.Await(earlier(until, own))
	a.call.sends += a.x.Sends() - sends
	now := time.Now()
	switch {
	case errors.Is(err, http1.ErrNotYet):
		if !own.IsZero() && !now.Before(own) {
			return generationTimeout(err)
		}
		return err
	case err != nil:
		return err
	}
	a.readAt = now
	if a.x.Status() != 200 {
		return a.refusal()
	}
	if a.call.ep.binaryResponse {
		return a.awaitBinary()
	}
	isStream := httptoken.EqualFold(bareType(a.x.Header("Content-Type")), "text/event-stream")
	if isStream != a.streamed {
		switch {
		case a.streamed && a.call.ep == endpointTranscriptions:
			a.headed, a.atOnce = true, true
			return nil
		case a.streamed:
			return a.plainReply()
		}
		return badResponse(errWrongType)
	}
	a.headed = true
	if a.streamed {
		a.events = readerPool.Get().(*sse.Reader)
		a.events.Reset(a, maxEvent)
	}
	return nil
}

var errWrongType = errors.New("reply of another media type than asked for")

// refusal reads the body of a reply whose status is not 200 and says what it means.
func (a *attempt) refusal() *failure {
	status := a.x.Status()
	contentType := string(a.x.Header("Content-Type")) // copied first: reading the body moves the header values
	e := engineerror.Parse(status, contentType, a.errorBody())
	profile := a.lease.Upstream().Engine()
	notNow := profile.NotNow(status, e.Type, e.Message)
	switch {
	case notNow && status >= 500:
		status = 503
	case profile.ClientFault(status, e.Type, e.Message):
		e.ClientFault = true
	case profile.Overload(status, e.Type, e.Message):
		status = 503
	}
	a.rename(&e)
	if e.ContextAtLeast { // agents lower max_tokens by it, and would take a dozen steps
		e.ContextPrompt = max(e.ContextPrompt, min(a.call.promptTokens, e.ContextMax-1))
	}
	if longest := a.call.contextOf(a.target); e.ContextExcess > 0 && longest > 0 { // agents look for both sizes
		e.ContextPrompt, e.ContextMax = longest+e.ContextExcess, longest
	}
	now := time.Now()
	after := retryAfter(a.x.Header("Retry-After"), now)
	if status == 404 && !e.ClientFault && e.Absent == engineerror.AbsentModel {
		a.lease.Upstream().ModelGone(a.failureSource(true))
		f := fromStatus(status, &e, max(after, a.call.model.Route.NextChance(now)))
		f.outcome = upstreams.OutcomeModelGone
		return f
	}
	f := fromStatus(status, &e, after)
	f.notNow = notNow
	return f
}

// plainReply is a 200 that is no stream although one was asked for: an engine's error in disguise,
// or nonsense.
func (a *attempt) plainReply() *failure {
	contentType := string(a.x.Header("Content-Type"))
	e := engineerror.Parse(200, contentType, a.errorBody())
	if e.Status != 0 {
		a.rename(&e)
		return fromStreamError(&e)
	}
	return badResponse(errWrongType)
}

// rename has the engine's complaint name the model as the client knows it, and the engine's own key not
// at all.
func (a *attempt) rename(e *engineerror.Error) {
	if a.lease != nil {
		e.RedactSecret(a.lease.Upstream().APIKey())
	}
	if a.target != nil {
		e.Rename(a.target.Served, a.call.model.Config.ID)
	}
}

// errorBody reads what an engine says of its refusal: bounded, and without patience. Of what it
// repeats only the beginning is held.
func (a *attempt) errorBody() []byte {
	until := time.Now().Add(errorPatience)
	defer a.call.reply.give(replyBody)
	in := outPool.Get().(*[]byte)
	defer recycleOut(in)
	piece := (*in)[:cap(*in)]
	var short engineerror.Shortener
	body := make([]byte, 0, 1<<10)
	for read := 0; read < maxErrorBody && len(body) < engineerror.MaxBody; {
		n, err := a.x.Read(piece, until)
		for len(body)+n > cap(body) && err == nil {
			body, err = a.call.growReply(body, engineerror.MaxBody+len(piece))
		}
		if err != nil { // without memory what has come has to do
			break
		}
		body = short.Append(body, piece[:n])
		read += n
	}
	return body[:min(len(body), engineerror.MaxBody)]
}

// pull appends what the engine's next events become in the client's dialect. It returns with at
// least one byte, or with done at the end of the stream, or with an error: http1.ErrNotYet when
// until passes first (call again to go on), a *failure otherwise.
func (a *attempt) pull(dst []byte, until time.Time) (out []byte, done bool, err error) {
	if err := a.awaitHead(until); err != nil {
		return dst, false, a.classify(err)
	}
	if a.bad != nil {
		return dst, false, a.classify(a.bad)
	}
	a.until = until
	if a.call.ep.binaryResponse {
		return a.pullBinary(dst)
	}
	if a.call.form == formForward {
		return a.pullForward(dst)
	}
	if a.atOnce {
		return a.pullTranscript(dst)
	}
	before := len(dst)
	for {
		ev, err := a.events.Next()
		switch {
		case err == nil:
		case err == io.EOF: //nolint:errorlint // only the bare value ends a reply; wrapped, it is a failure's cause
			a.ended = true
			if t, ok := a.call.stream.(*forward.Stream); ok && a.x.Framed() {
				t.Ended()
			}
			out, err = a.finish(dst)
			return out, true, a.classify(err)
		case errors.Is(err, http1.ErrNotYet) && !a.completeAt.IsZero() && a.late(a.completeAt.Add(afterFinish)):
			out, err = a.finish(dst)
			return out, true, a.classify(err)
		default:
			return dst, false, a.classify(err)
		}
		blank := ev.Blank()
		if a.native != nil {
			ev, err = a.native.Read(ev)
		}
		if err == nil {
			dst, err = a.append(dst, ev)
		}
		if err != nil {
			return a.failed(dst, before, err)
		}
		if !blank { // which is no sign that the engine has begun
			a.begun = true
			a.count++
		}
		if a.call.stream.Done() || a.native != nil && a.native.Done() {
			if out, err = a.finish(dst); err != nil {
				return a.failed(dst, before, err)
			}
			return out, true, nil
		}
		if a.completeAt.IsZero() && a.call.stream.Finished() {
			a.completeAt = a.readAt
		}
		if len(dst) > before && (len(dst) >= coalesce || !a.events.Ready()) {
			return dst, false, nil
		}
	}
}

// append appends what an event becomes. Memory for a large one is reserved before, by its size, and
// then by what it took.
func (a *attempt) append(dst []byte, ev sse.Event) ([]byte, error) {
	c := a.call
	if err := c.holdOut(max(cap(dst), len(dst)+len(ev.Data))); err != nil {
		return dst, err
	}
	dst, err := c.stream.Append(dst, ev)
	if err != nil {
		return dst, err
	}
	if err := c.holdOut(cap(dst)); err != nil {
		return dst, err
	}
	return dst, c.holdState(c.stream.Held())
}

// finish appends what ends the stream well, which in some dialects is all of it once more.
func (a *attempt) finish(dst []byte) ([]byte, error) {
	c := a.call
	if err := c.holdOut(max(cap(dst), len(dst)+c.stream.Held())); err != nil {
		return dst, err
	}
	dst, err := c.stream.Finish(dst)
	if err != nil {
		return dst, err
	}
	return dst, c.holdOut(cap(dst))
}

// rests reports whether nothing has come that pull could take, so that it would wait.
func (a *attempt) rests() bool {
	return a.headed && a.events != nil && a.bad == nil && !a.events.Ready()
}

// rest waits until something has come that pull can take, until the given time or a failure, which
// pull will tell. While it waits the attempt holds no buffer; it is called with none of the
// caller's, either.
func (a *attempt) rest(until time.Time) {
	if a.rests() {
		a.events.Rest()
		a.x.Wait(earlier(until, a.deadline()))
	}
}

// failed ends pull at an event that cannot be delivered. What came before it goes out first, as it
// would have if the bytes had come in other reads: how they are cut must not decide between a clean
// status and an error in the stream.
func (a *attempt) failed(dst []byte, before int, err error) ([]byte, bool, error) {
	if len(dst) > before {
		a.bad = err
		return dst, false, nil
	}
	return dst, false, a.classify(err)
}

// Read implements io.Reader for the event reader: it waits as long as the caller of pull and the
// clocks allow.
func (a *attempt) Read(p []byte) (int, error) {
	own := a.deadline()
	n, err := a.x.Read(p, earlier(a.until, own))
	if n > 0 && a.x.Fresh() { // what came with the head came when it did
		a.readAt = time.Now()
	}
	if err != nil && errors.Is(err, http1.ErrNotYet) && a.completeAt.IsZero() && a.late(own) {
		return n, generationTimeout(err)
	}
	return n, err
}

// deadline is when the engine's silence has lasted too long, by the clock that runs now; zero:
// never.
func (a *attempt) deadline() time.Time {
	clocks := &a.call.model.Clocks
	var d time.Time
	switch {
	case !a.completeAt.IsZero():
		d = a.completeAt.Add(afterFinish)
	case a.call.record.Stream && !a.begun:
		d = a.sentAt.Add(clocks.FirstEvent.D())
	case a.headed:
		d = a.readAt.Add(clocks.Idle.D())
	}
	if !a.call.record.Stream {
		d = earlier(d, a.sentAt.Add(clocks.Answer.D()+a.blocked))
	}
	if total := clocks.Total.D(); total > 0 {
		d = earlier(d, a.call.record.Start.Add(total))
	}
	return d
}

func (a *attempt) late(deadline time.Time) bool {
	return !deadline.IsZero() && !time.Now().Before(deadline)
}

// earlier returns the earlier of two deadlines, where zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// classify turns whatever pull met into nil, http1.ErrNotYet or a *failure.
func (a *attempt) classify(err error) error {
	var (
		f *failure
		e *engineerror.Error
	)
	switch {
	case err == nil, errors.Is(err, http1.ErrNotYet):
		return err
	case errors.As(err, &f):
	case errors.As(err, &e):
		a.rename(e)
		f = fromStreamError(e)
	case errors.Is(err, errNoReplyMemory):
		f = replyMemoryFull()
	default:
		f = fromExchange(err)
	}
	if cause := a.call.aborted(); cause != nil {
		// The abort is why the read failed, whatever it failed with.
		f = fromAbort(cause)
	}
	return f
}

// drain gives the engine a moment to end its reply in good order, so that the connection can be
// used again.
func (a *attempt) drain() {
	if a.ended || a.x == nil {
		return
	}
	until := time.Now().Add(drainPatience)
	var scrap [512]byte
	for range 8 {
		if _, err := a.x.Read(scrap[:], until); err != nil {
			return
		}
	}
}

// drainPatience is short: what follows [DONE] is one chunk of five bytes that is nearly always
// there already.
const drainPatience = 20 * time.Millisecond

// end releases the lease with the attempt's outcome and lets go of the connection. Only the first
// call counts.
func (a *attempt) end(o upstreams.Outcome) {
	lease := a.lease
	if lease == nil {
		return
	}
	a.lease = nil
	now := a.call.ended()
	defer lease.ReleaseAt(o, now)
	a.close(o, now)
}

// close ends the attempt's exchange and keeps its lease.
func (a *attempt) close(o upstreams.Outcome, now time.Time) {
	a.call.exchange.Store(nil)
	defer a.x.CloseAt(now)
	a.call.shared.Guard.Point("attempt.end")
	a.trace(o)
	if a.events != nil {
		a.events.Reset(nil, maxEvent)
		readerPool.Put(a.events)
		a.events = nil
	}
	a.releaseUnary()
	for _, part := range [...]replyPart{replyBody, replyEvent, replyState} {
		a.call.reply.give(part)
	}
}
