package call

import (
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/access/auth"
	"penstock/proxy/access/limit"
	"penstock/proxy/front/listen"
	"penstock/proxy/request/attempt"
	"penstock/proxy/request/body"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/observe"
	"penstock/upstreams"
)

// Call holds everything that belongs to one client request, from the start of the handler to the
// last byte of the answer. The connection's goroutine owns it. Other goroutines may call only the
// methods that end the call from outside. Calls are pooled: do not keep a reference after finish.
type Call struct {
	shared       *Services
	ep           *endpoint.Endpoint
	client       client
	config       configuration
	rates        allowance
	body         body.Body // a JSON body; the codec holds a form
	request      endpoint.Request
	tokens       tokens
	memory       attempt.Memory // memory for engines' replies
	abort        attempt.Abort
	tries        tries
	attempt      attempt.Attempt // the running attempt, or the one that answers
	relay        *relay          // the relay of a committed answer
	poison       fingerprint
	public       publicState
	times        times
	trace        trace
	meter        observe.Meter
	record       observe.Record
	participants participants // nil: no feature takes part in the call

	finished bool
}

var pool = sync.Pool{New: func() any { return new(Call) }}

// begin starts the call for one request to ep.
func (s *Services) begin(ctx *fasthttp.RequestCtx, ep *endpoint.Endpoint) *Call {
	c := pool.Get().(*Call)
	now := time.Now()
	c.shared, c.ep = s, ep
	c.client.begin(ctx)
	c.config.begin(s.Current())
	c.body.Begin(s.Bodies)
	c.memory.Budget = s.Replies
	c.poison.begin(s.Poison, &c.body)
	c.record.Dialect, c.record.Start, c.record.Phase = ep.Dialect.Name, now, observe.PhaseBody
	if c.config.snapshot.Config.Log.Client {
		c.record.Client = clientAddress(ctx.RemoteAddr())
	}
	if c.config.snapshot.Config.TrustRequestID {
		c.record.ProxyRequestID = c.client.proxyRequestID()
	}
	if s.Tracer != nil {
		c.trace.span = s.Tracer.Call(ep.Traced, clientTraceparent(&ctx.Request.Header), now)
	}
	s.Calls.Begin()
	return c
}

// ClientGone implements listen.Waiter: the client's side of the connection was closed.
func (c *Call) ClientGone() { c.abort.End(failure.ErrClientGone) }

// Drain ends the call because the edge is shutting down.
func (c *Call) Drain() { c.abort.End(failure.ErrDrained) }

// Revoke ends the call if its key is no longer in the ring, or if the key's hash with which it was
// authenticated was removed.
func (c *Call) Revoke(keys *auth.Ring) {
	if key := c.rates.key; key != nil && !keys.Holds(key, time.Now()) {
		c.abort.End(failure.ErrRevoked)
	}
}

// fail records how the call ended.
func (c *Call) fail(f *failure.Failure) {
	c.record.Outcome = f.Result
	c.record.Code = f.API.Code
	if f.Label != "" {
		c.record.Code = f.Label
	}
	c.record.Cause, c.record.EngineStatus = string(f.Cause), f.Status
	if f.Result == observe.ClientGone {
		c.record.Status = failure.StatusClientGone
	}
}

// attempts returns how many attempts the call made, for the log. A failed dial counts, although
// nothing was sent. A request that was sent again because its connection was dead counts as one
// more attempt at the same engine.
func (c *Call) attempts() int { return max(c.attempt.Sends()+c.tries.counts, c.tries.targets) }

// learnChange remembers a change to the request once the engine's answer shows that the engine
// accepts it.
func (c *Call) learnChange() {
	if c.record.TTFT > 0 {
		changer{c}.learn()
	}
}

// clearPoison clears a body that is suspected of having brought down an engine, once another engine
// has answered the body.
func (c *Call) clearPoison() {
	if c.record.TTFT > 0 {
		c.poison.answered()
	}
}

// releaseRequest releases the client's request. It is not sent again once the client has received
// some of the answer.
func (c *Call) releaseRequest() {
	c.poison.keepHash(c.tries.upstream)
	c.request.Release()
	c.body.Release()
}

// finish ends the call. It releases what the call still holds, counts and logs it, and returns it
// to the pool. The caller must not touch the call afterwards. finish panics only if it is called
// twice: a panic in one of its steps skips only that step.
func (c *Call) finish() {
	if c.finished {
		panic("BUG: call finished twice")
	}
	c.finished = true
	if c.end() {
		recycle(c)
	}
}

// end does the work of finish except for recycling. It returns false after a panic, because such a
// call must not be reused.
func (c *Call) end() (whole bool) {
	g := c.shared.Guard
	defer g.Catch(guard.End, func() { whole = false })
	defer c.account()
	c.release()
	g.Point("call.end")
	return true
}

// release releases what other calls wait for. A step that fails does not prevent the next ones.
// release has at most eight defers: with more, the compiler puts them on the heap.
func (c *Call) release() {
	if c.record.Outcome == observe.ClientGone {
		c.ClientGone() // a write may have noticed that the client left; a copy of the call ends as well
	}
	defer c.config.begun.EndCall()
	defer c.charge()
	defer c.memory.Release()
	defer c.releaseSent()
	defer c.tokens.learn(c.tries.upstream)
	defer c.learnChange()
	defer picker{c}.leaveQueue()
	defer c.endAttempt(upstreams.OutcomeClientGone) // does nothing except after a panic
	if n := c.tries.takeNext(); n.lease != nil {    // the client left before the call moved
		n.turn.Book(0)
		n.lease.Release(upstreams.OutcomeClientGone)
	}
	if c.client.conn != nil {
		c.client.conn.Unwatch(c)
	}
	c.shared.Guard.Point("call.release")
}

// releaseSent releases the client's request when the call ends.
func (c *Call) releaseSent() {
	defer func() {
		if c.request != nil {
			c.request.Release()
		}
	}()
	c.body.Release()
}

// endAttempt ends the attempt, if any.
func (c *Call) endAttempt(o upstreams.Outcome) { c.attempt.End(o, c.times.endAt) }

// failAttempt ends the attempt, if any, because of f.
func (c *Call) failAttempt(f *failure.Failure, now time.Time) {
	if c.attempt.Lease() == nil {
		return
	}
	c.noteFailed(f, now)
	c.attempt.Blame(f)
	c.endAttempt(f.Outcome)
}

// noteFailed records that the attempt has failed. An attempt has not failed if it ended because the
// client left or because the edge gave it up.
func (c *Call) noteFailed(f *failure.Failure, now time.Time) {
	if f.Cause == "" {
		return
	}
	c.record.Failed = append(c.record.Failed, observe.FailedAttempt{
		Upstream: c.record.Upstream, Cause: string(f.Cause), EngineStatus: f.Status, Arm: c.record.Arm,
		Rejected: f.Cause == upstreams.CauseRejected, Fault: f.Outcome.Failed(),
		After: c.times.asked.Sub(c.record.Start), Took: now.Sub(c.times.asked),
	})
}

// charge charges the key exactly once for what the call used, however the call ended, and adds the
// usage to the key's turn.
func (c *Call) charge() {
	if c.ep.Local == nil { // counting a prompt costs no tokens
		c.tokens.estimate(c.record.Stream, c.record.Outcome == observe.ClientGone && c.attempts() > 0)
	}
	u := &c.tokens.usage
	c.tries.turn.End(u.Prompt-u.Cached, u.Completion, u.Known)
	if m := c.config.model; m != nil {
		c.record.Spend = m.Price.Of(u.Prompt, u.Cached, u.Completion)
	}
	c.rates.held.Settle(limit.Cost{Tokens: int64(u.Prompt + u.Completion), Spend: c.record.Spend}, c.times.ended())
}

// account counts and logs the call.
func (c *Call) account() {
	now := c.times.ended()
	copy(c.record.RequestID[:], c.client.requestID)
	c.record.Attempts = c.attempts()
	if n := c.tries.sends.Resumes; n > 0 {
		c.record.Resumed = n
		c.shared.Counters.ResumedPrompt.Add(c.tokens.usage.ResumedPrompt)
	}
	c.record.BytesIn = c.body.Came()
	c.meter.End(&c.record)
	if u := &c.tokens.usage; u.Known || u.Estimated {
		c.record.SetTokens(u.Prompt, u.Completion, u.Cached, u.Estimated)
	}
	if c.request != nil {
		c.record.BytesIn += c.request.Came()
	}
	c.shared.Calls.Finish(&c.record, now)
	c.trace.span.End(&c.record, now)
	c.endParticipants(now)
	if c.request != nil {
		c.request.Recycle()
		c.request = nil
	}
}

// recycle returns the call to the pool and keeps its reusable buffers.
func recycle(c *Call) {
	id, lines, why := c.client.requestID, c.client.lines[:0], c.tries.why
	excluded, prefix := c.tries.excluded[:0], c.tries.talk.prefix[:0]
	*c = Call{} // in place: a new value with the kept fields would be built first and then copied
	c.client.requestID, c.client.lines, c.tries.why = id, lines, why
	c.tries.excluded, c.tries.talk.prefix = excluded, prefix
	pool.Put(c)
}

var _ listen.Waiter = (*Call)(nil)
