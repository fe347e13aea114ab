package call

import (
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/observe"
)

// Handler returns the handler of a generation endpoint. The package comment lists the steps of a
// call.
func (s *Services) Handler(ep *endpoint.Endpoint) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		c := s.beginCall(ctx, ep)
		defer s.Guard.Catch(guard.PlaceHandler, c.handlePanic)
		if f := c.handleCall(); f != nil {
			c.answerError(f)
			c.finish()
		} else if c.record.Outcome == observe.OutcomeOK {
			c.finish() // relays finish their calls themselves
		}
	}
}

// handleCall handles the call. It returns nil once it has passed the answer to fasthttp.
func (c *Call) handleCall() *failure.Failure {
	if f := c.checkAndAdmit(); f != nil {
		return f
	}
	if c.ep.Local != nil {
		return c.answerWithTokenCount()
	}
	c.services.Retries.CountCall(c.record.Start)
	return c.obtainAnswer()
}

func (c *Call) checkAndAdmit() *failure.Failure {
	c.services.Guard.PanicIfInjected("call.run")
	if err := c.receiveRequest(); err != nil {
		return failure.FromRequestError(err)
	}
	if cause := c.beginWatch(); cause != nil {
		return failure.FromAbort(cause)
	}
	c.times.stepStart = time.Now()
	if err := c.reserveKeyLimits(); err != nil {
		return failure.FromRequestError(err)
	}
	c.joinParticipants()
	if len(c.config.snapshot.Config.Hooks) > 0 {
		if f := c.askHooks(); f != nil {
			return f
		}
	}
	c.setPhase(&phaseAwaitingEngine)
	return nil
}

// beginWatch makes the connection cancel the call if the client disconnects or the key is revoked. It
// returns the cause if this has already happened.
func (c *Call) beginWatch() (cause error) {
	c.callStatus.publishStatus(&c.record)
	if c.client.conn != nil && c.client.conn.WatchDisconnect(c) {
		return failure.ErrClientGone
	}
	// A reload cancels only the calls that are watched. The key of this call may have been revoked
	// while the body arrived.
	s, key := c.services.Current(), c.limits.key
	if s != c.config.snapshot && s.Config.OnRevoke == config.OnRevokeAbort && key != nil && !s.Keys.MayContinue(key, time.Now()) {
		return failure.ErrRevoked
	}
	return nil
}

// handlePanic responds to a call whose handler panicked, and finishes the call even if writing the
// response also panics. If the handler created a relay, the relay must not run.
func (c *Call) handlePanic() {
	defer c.finish()
	ctx := c.client.ctx
	if c.relay != nil {
		c.relay.call, c.relay = nil, nil
		ctx.HijackSetNoResponse(false)
		ctx.Hijack(nil)
	}
	ctx.SetStatusCode(fasthttp.StatusInternalServerError)
	ctx.SetConnectionClose()
	c.answerError(failure.Internal(failure.ErrPanicked))
}
