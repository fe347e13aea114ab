package proxy

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/auth"
	"penstock/proxy/guard"
	"penstock/proxy/limit"
	"penstock/proxy/listen"
	"penstock/proxy/observe"
	"penstock/proxy/snapshot"
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/forward"
	"penstock/translate/responses"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// Call is everything that one client request holds, from the first line of the handler to the last
// byte of the answer. It is owned by the connection's goroutine; only abort may be called from
// others. Calls are pooled: nothing may keep one past finish.
type Call struct {
	shared *Services
	snap   *snapshot.Snapshot
	ep     *endpoint
	ctx    *fasthttp.RequestCtx
	conn   *listen.Conn // nil when the connection is not one of ours (tests)
	id     []byte       // request id

	key       *auth.Key // nil with auth: none
	model     *snapshot.Model
	allowance *limit.Key        // of the key; nil without one
	held      limit.Reservation // what the key's limits have set aside for this call

	body     *[]byte       // the request's bytes, until no attempt can need them
	native   *[]byte       // the client's own, where body is a translation and an engine of the model speaks the dialect
	reserved int64         // of the body-memory budget
	reply    replyHold     // of the reply-memory budget
	chat     *chat.Request // nil on endpoints that are not chat underneath
	payload  payload       // on those
	upload   *upload       // the payload of a multipart endpoint
	media    string        // type of a whole or raw answer; empty: JSON
	pool     upstreams.Pool

	promptTokens int                 // estimated
	counted      int                 // of the prompt, by an engine that it was too long for; 0: not known
	outputTokens int                 // expected
	promptBytes  int                 // of a prompt that is text alone; 0 otherwise
	upstream     *upstreams.Upstream // of the last attempt

	form        answerForm
	stream      translate.Stream
	forward     *forward.Relay     // of a large answer that is passed on; nil where it is no JSON
	passed      int                // bytes of it
	passthrough *answer.Stream     // of a stream of the chat dialect
	completion  *answer.Completion // of a whole answer
	responses   *responses.Stream  // of a Responses call
	messages    *messagesCall      // of a Messages call
	answer      answer.Options
	usage       translate.Usage

	relay        *relay  // of a committed stream that fasthttp has been given
	attempt      attempt // the one that is running or that the answer comes from
	tried        []upstreams.ID
	prefix       []uint64                // hashes of the prompt's beginning, for prefix affinity
	segments     [][]byte                // memory for the pieces of what is sent
	room         []byte                  // and for those that the edge writes itself
	limits       chat.ModelRules         // the model's, with the context length of its engines
	targets      int                     // engines that were tried
	sends        int                     // requests that were written
	refits       int                     // of those, the ones that an engine had too little room for and that were sent again
	moves        int                     // of the engines that were tried, those that were left for one with more room
	failovers    int                     // of those, too, the ones whose host vanished and that were left for another
	poisonHash   uint64                  // hash of a body that has cost an engine; 0: none
	releasedHash uint64                  // hash of a body that was released; 0: not known
	begun        *snapshot.ConfigVersion // of the configuration it began with
	public       publicState             // what the status page reads while it runs
	phase        atomic.Pointer[observe.Phase]
	firstAt      atomic.Int64                       // when the first event came, Unix nanoseconds
	target       atomic.Pointer[upstreams.Upstream] // current upstream, read by the status page
	meter        observe.Meter
	offered      translate.Offered
	span         *observe.CallSpan // nil without tracing
	bodyWait     time.Duration     // for bytes of the body that had not come yet
	parent       []byte            // the client's trace context, where an engine may be asked after the context is gone
	asked        time.Time         // when the running attempt began
	awaited      time.Duration     // what earlier attempts waited for their engines
	endAt        time.Time         // when a whole answer was ready: from there on the call waits for nothing
	cause        atomic.Pointer[abortCause]
	left         atomic.Pointer[chan struct{}] // closed by abort while the call waits in a queue
	exchange     atomic.Pointer[http1.Exchange]

	record   observe.Record
	finished bool
}

// abortCause says why a call was ended from outside.
type abortCause struct{ err error }

var callPool = sync.Pool{New: func() any { return new(Call) }}

// begin makes the call for one request of ep.
func (s *Services) begin(ctx *fasthttp.RequestCtx, ep *endpoint) *Call {
	c := callPool.Get().(*Call)
	c.shared, c.ep, c.ctx = s, ep, ctx
	c.snap = s.Current()
	c.reply.budget = s.Replies
	c.begun = c.snap.ConfigVersion
	c.begun.BeginCall()
	c.conn = listen.ConnOf(ctx.Conn())
	c.id = appendRequestID(c.id[:0])
	c.record = observe.Record{Dialect: ep.dialect.name, Start: time.Now(), Phase: observe.PhaseBody}
	if c.snap.Config.Log.Client {
		c.record.Client = ctx.RemoteIP().String()
	}
	if s.Tracer != nil {
		c.span = s.Tracer.Call(ep.traced(), clientTraceparent(&ctx.Request.Header), c.record.Start)
	}
	s.Calls.Begin()
	return c
}

// ClientGone implements listen.Waiter: the client's side of the connection was closed.
func (c *Call) ClientGone() { c.abort(errClientGone) }

// Drain ends the call because the edge is shutting down.
func (c *Call) Drain() { c.abort(errDrained) }

// Revoke ends the call if it began with a key that keys does not hold, or under a hash that was
// removed.
func (c *Call) Revoke(keys *auth.Ring) {
	if c.key != nil && !keys.Holds(c.key, time.Now()) {
		c.abort(errRevoked)
	}
}

// abort ends the call for the given reason, from any goroutine: the engine's connection is closed
// at once and whatever the call is waiting for returns. The first reason wins.
func (c *Call) abort(err error) {
	if !c.cause.CompareAndSwap(nil, &abortCause{err}) {
		return
	}
	if x := c.exchange.Load(); x != nil {
		x.Abort(err)
	}
	if left := c.left.Load(); left != nil {
		close(*left)
	}
}

// aborted returns why the call was ended from outside, or nil.
func (c *Call) aborted() error {
	if a := c.cause.Load(); a != nil {
		return a.err
	}
	return nil
}

// publish makes x what abort has to close. The order (publish, then look at the cause) leaves no
// gap: an abort before the publication is seen here, one after it finds x.
func (c *Call) publish(x *http1.Exchange) {
	c.exchange.Store(x)
	if err := c.aborted(); err != nil {
		x.Abort(err)
	}
}

// finish ends the call: whatever it still holds is released, it is counted and logged, and it goes
// back to the pool. The caller must not touch it afterwards. It does not panic but when it is
// called twice: a panic of a part of it costs that part.
func (c *Call) finish() {
	if c.finished {
		panic("BUG: call finished twice")
	}
	c.finished = true
	if c.end() {
		c.recycle()
	}
}

// end is finish without the recycling. It returns false after a panic: such a call is in no state
// to be used again.
func (c *Call) end() (whole bool) {
	g := c.shared.Guard
	defer g.Catch(guard.End, func() { whole = false })
	defer c.account()
	c.release()
	g.Point("call.end")
	return true
}

// release gives back what others wait for. Each step is taken whatever the steps before it come to.
func (c *Call) release() {
	defer c.begun.EndCall()
	defer c.settle()
	defer c.reply.release()
	defer c.releaseChat()
	defer c.releaseBody()
	defer c.learn()
	defer c.attempt.end(upstreams.OutcomeClientGone) // a no-op but after a panic
	if c.conn != nil {
		c.conn.Unwatch(c)
	}
	c.shared.Guard.Point("call.release")
}

// account counts and logs the call.
func (c *Call) account() {
	now := c.ended()
	copy(c.record.RequestID[:], c.id)
	c.record.Attempts = c.attempts()
	c.meter.End(&c.record)
	if c.usage.Known || c.usage.Estimated {
		c.record.PromptTokens, c.record.CompletionTokens, c.record.CachedTokens = c.usage.Prompt, c.usage.Completion, c.usage.Cached
		c.record.TokensEstimated = c.usage.Estimated
	}
	c.shared.Calls.Finish(&c.record, now)
	c.span.End(&c.record, now)
	c.releaseAnswer()
}

// ended is the time at which the call ends, for what is still to be noted. Reading the clock costs
// as much as a small step of a call, and behind a whole answer each step would read the same.
func (c *Call) ended() time.Time {
	if c.endAt.IsZero() {
		return time.Now()
	}
	return c.endAt
}

// learn keeps the model's bytes per token up to date from what the engine counted.
func (c *Call) learn() {
	if c.usage.Known && c.promptBytes > 0 && c.upstream != nil {
		c.upstream.Averages.LearnTokens(c.promptBytes, c.usage.Prompt)
	}
}

// recycle returns the call to the pool with what is worth keeping.
func (c *Call) recycle() {
	clear(c.segments[:cap(c.segments)]) // they point into requests
	*c = Call{id: c.id, tried: c.tried[:0], prefix: c.prefix[:0], segments: c.segments[:0], room: c.room[:0]}
	callPool.Put(c)
}

// releaseChat gives the decoded request back once nothing of it is needed.
func (c *Call) releaseChat() {
	if c.chat != nil {
		c.chat.Reset()
		requestPool.Put(c.chat)
		c.chat = nil
	}
}

var requestPool = sync.Pool{New: func() any { return new(chat.Request) }}

// fail notes in the record how the call ended.
func (c *Call) fail(f *failure) {
	c.record.Outcome = f.result
	c.record.Code = f.api.Code
	if f.label != "" {
		c.record.Code = f.label
	}
	if f.result == observe.ClientGone {
		c.record.Status = statusClientGone
	}
}

// appendRequestID appends a fresh request id: "req_" and 26 characters of base 32, 128 random bits.
// The generator is seeded by the operating system; ids must not repeat, but they are no secret.
func appendRequestID(dst []byte) []byte {
	const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
	dst = append(dst, "req_"...)
	for _, word := range [2]uint64{rand.Uint64(), rand.Uint64()} {
		for range 13 {
			dst = append(dst, alphabet[word&31])
			word >>= 5
		}
	}
	return dst
}

// jitter lengthens d by none, one or two seconds, so that clients told to come back do not come
// back together. Clients are told whole seconds, so a finer spread would be rounded away.
func jitter(d time.Duration) time.Duration { return d + time.Duration(rand.IntN(3))*time.Second }
