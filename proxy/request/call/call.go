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

// Call is the state of one client request, from the start of the handler until the last byte of the
// response is written. It belongs to the goroutine of the connection. Other goroutines may call
// only OnDisconnect, CancelForShutdown and CancelIfRevoked. Calls are pooled, so a reference must
// not be used after finish.
type Call struct {
	services     *Services
	ep           *endpoint.Endpoint
	client       callClient
	config       callConfig
	limits       callLimits
	body         body.Body // body of a JSON request; a form is stored in the codec
	request      endpoint.Request
	tokens       callTokens
	memory       attempt.ReplyMemory // memory for engine replies
	abort        attempt.Canceler
	search       engineSearch
	slots        callSlots
	attemptState callAttempts
	attempt      attempt.Attempt // the current attempt, or the attempt that delivered the answer
	relay        *relay          // writes a committed answer
	fingerprint  bodyFingerprint
	callStatus   callStatus
	times        callTimes
	trace        traceContext
	meter        observe.StreamMeter
	record       observe.Record
	participants participants // nil if no feature takes part in the call

	isFinished bool
}

var callPool = sync.Pool{New: func() any { return new(Call) }}

func (s *Services) beginCall(ctx *fasthttp.RequestCtx, ep *endpoint.Endpoint) *Call {
	c := callPool.Get().(*Call)
	now := time.Now()
	c.services, c.ep = s, ep
	c.client.initFromRequest(ctx)
	endpoint.AppendNewRequestID(c.record.RequestID[:0])
	c.config.initFromSnapshot(s.Current())
	c.body.Reset(s.Bodies)
	c.memory.Budget = s.Replies
	c.fingerprint.initForBody(s.Poison, &c.body)
	c.record.Dialect, c.record.Start, c.record.Phase = ep.Dialect.Name, now, observe.PhaseBody
	if c.config.snapshot.Config.Log.Client {
		c.record.Client = clientAddress(ctx.RemoteAddr())
	}
	if c.config.snapshot.Config.TrustRequestID {
		c.record.ProxyRequestID = c.client.proxyRequestID()
	}
	if s.Tracer != nil {
		c.trace.span = s.Tracer.StartCall(ep.Traced, clientTraceparent(&ctx.Request.Header), now)
	}
	s.Calls.BeginCall()
	return c
}

// OnDisconnect implements listen.DisconnectWaiter. It cancels the call because the client has
// disconnected.
func (c *Call) OnDisconnect() { c.abort.Cancel(failure.ErrClientGone) }

// CancelForShutdown cancels the call because the edge is shutting down.
func (c *Call) CancelForShutdown() { c.abort.Cancel(failure.ErrShuttingDown) }

// CancelIfRevoked cancels the call if keys no longer contains its key (see
// auth.KeyRing.MayContinue).
func (c *Call) CancelIfRevoked(keys *auth.KeyRing) {
	if key := c.limits.key; key != nil && !keys.MayContinue(key, time.Now()) {
		c.abort.Cancel(failure.ErrRevoked)
	}
}

// requestID returns the request id, which does not change during the call.
func (c *Call) requestID() []byte { return c.record.RequestID[:] }

// attemptCount returns the number of attempts for the log. A failed dial counts even though no
// request was sent. If a request was sent again because a reused connection was closed, the second
// request counts as another attempt at the same engine.
func (c *Call) attemptCount() int {
	return max(c.attempt.SendCount()+c.attemptState.countRequests, c.attemptState.targetCount)
}

// learnAcceptedChange calls learnNeededChange if the engine has answered, because the engine then
// accepted the changed request.
func (c *Call) learnAcceptedChange() {
	if c.record.TTFT > 0 {
		c.learnNeededChange()
	}
}

// clearPoison clears the suspicion that the body kills engines, if an engine has answered the
// request.
func (c *Call) clearPoison() {
	if c.record.TTFT > 0 {
		c.fingerprint.clearSuspicion()
	}
}

// releaseRequest releases the client's request, which will not be sent again. No exchange may still
// refer to it (see http1.Request).
func (c *Call) releaseRequest() {
	c.fingerprint.storeHash(c.attemptState.upstream)
	c.request.Release()
	c.body.Release()
}

// finish ends the call. It releases the call's resources, counts and logs the call, and returns it
// to the pool. The call must not be used afterwards. finish panics only if it is called twice. A
// panic in one of its steps skips only that step.
func (c *Call) finish() {
	if c.isFinished {
		panic("BUG: call finished twice")
	}
	c.isFinished = true
	if c.releaseAndReport() {
		recycleCall(c)
	}
}

// releaseAndReport does all work of finish except returning the call to the pool. whole is false
// after a panic, because the call must not be reused then.
func (c *Call) releaseAndReport() (whole bool) {
	g := c.services.Guard
	defer g.Catch(guard.PlaceEnd, func() { whole = false })
	defer c.reportCall()
	c.releaseSharedResources()
	g.PanicIfInjected("call.end")
	return true
}

// releaseSharedResources releases resources for which other calls may be waiting. Each step is
// deferred, so that a panic in one step does not skip the others. If a function has more than eight
// defers, the compiler allocates them on the heap.
func (c *Call) releaseSharedResources() {
	if c.record.Outcome == observe.OutcomeClientGone {
		// A write failed because the client disconnected. OnDisconnect also cancels the shadow.
		c.OnDisconnect()
	}
	defer c.config.startVersion.EndCall()
	defer c.chargeTokens()
	defer c.memory.Release()
	defer c.releaseBodies()
	defer c.tokens.learnBytesPerToken(c.attemptState.upstream)
	defer c.learnAcceptedChange()
	defer c.slots.leaveQueue()
	defer c.endAttempt(upstreams.OutcomeClientGone) // the attempt is still open only after a panic
	// The client may have disconnected after the call acquired a new slot and before it moved
	// there.
	if n := c.slots.takeReservedSlot(); n.lease != nil {
		n.lease.Release(upstreams.OutcomeClientGone)
	}
	if c.client.conn != nil {
		c.client.conn.UnwatchDisconnect(c)
	}
	c.services.Guard.PanicIfInjected("call.release")
}

func (c *Call) releaseBodies() {
	defer func() {
		if c.request != nil {
			c.request.Release()
		}
	}()
	c.body.Release()
}

func (c *Call) endAttempt(o upstreams.Outcome) {
	if o == upstreams.OutcomeClientGone && c.attempt.Lease() != nil {
		c.attemptState.leftEngine = c.attempt.SendCount() > 0
	}
	c.attempt.End(o, c.times.endAt)
}

func (c *Call) endAndBlameAttempt(f *failure.Failure, now time.Time) {
	if c.attempt.Lease() == nil {
		return
	}
	recordFailedAttempt(&c.record, f, c.times.stepStart, now)
	c.attempt.BlameUpstream(f)
	c.endAttempt(f.Outcome)
}

// chargeTokens charges the tokens used by the call to its key and to the key's turn, no matter how
// the call ended.
func (c *Call) chargeTokens() {
	if c.ep.Local == nil { // counting tokens is free
		c.tokens.estimateUsage(c.record.Stream, c.record.Outcome == observe.OutcomeClientGone && c.attemptState.leftEngine)
	}
	u := &c.tokens.usage
	c.attemptState.turn.ChargeFinal(u.Prompt-u.Cached, u.Completion, u.Known)
	if m := c.config.model; m != nil {
		c.record.Spend = m.Price.CallCost(u.Prompt, u.Cached, u.Completion)
	}
	c.limits.reservation.Settle(limit.Cost{Tokens: int64(u.Prompt + u.Completion), Spend: c.record.Spend}, c.times.endTimeOrNow())
}

func (c *Call) reportCall() {
	now := c.times.endTimeOrNow()
	c.record.Attempts = c.attemptCount()
	if n := c.attemptState.stepCounts.Resumes; n > 0 {
		c.record.Resumed = int(n)
		c.services.Counters.ResumedPrompt.Add(c.tokens.usage.ResumedPrompt)
	}
	c.record.BytesIn = c.body.Size()
	c.meter.End(&c.record)
	if u := &c.tokens.usage; u.Known || u.Estimated {
		c.record.SetTokens(u.Prompt, u.Completion, u.Cached, u.Estimated)
	}
	if c.request != nil {
		c.record.BytesIn += c.request.BytesRead()
	}
	c.services.Calls.FinishCall(&c.record, now)
	c.trace.span.End(&c.record, now)
	c.endParticipants(now)
	if c.request != nil {
		c.request.Recycle()
		c.request = nil
	}
}

func recycleCall(c *Call) {
	why := c.search.pickReason
	excluded, prefix := c.search.excluded[:0], c.search.conversation.hashes[:0]
	*c = Call{} // in place, because a new value would first be built and then copied
	c.search.pickReason, c.search.excluded, c.search.conversation.hashes = why, excluded, prefix
	callPool.Put(c)
}

var _ listen.DisconnectWaiter = (*Call)(nil)
