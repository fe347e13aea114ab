package call

import (
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/observe"
)

// Handler returns the handler of a generation endpoint. The package comment lists the steps of a
// call.
func (s *Services) Handler(ep *endpoint.Endpoint) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		c := s.begin(ctx, ep)
		defer s.Guard.Catch(guard.Handler, c.panicked)
		if f := c.run(); f != nil {
			c.answerError(f)
			c.finish()
		} else if c.record.Outcome == observe.OK {
			c.finish() // relays finish their calls themselves
		}
	}
}

// run handles the call. It returns nil once it has passed the answer to fasthttp.
func (c *Call) run() *failure.Failure {
	if f := c.enter(); f != nil {
		return f
	}
	if c.ep.Local != nil {
		return c.answerCount()
	}
	c.shared.Retries.Call(c.record.Start)
	return c.serve()
}

func (c *Call) enter() *failure.Failure {
	c.shared.Guard.Point("call.run")
	if err := c.passGate(); err != nil {
		return failure.FromClient(err)
	}
	c.public.publish(c.client.requestID, &c.record)
	if c.client.conn != nil && c.client.conn.Watch(c) {
		return failure.FromAbort(failure.ErrClientGone)
	}
	c.times.begun = time.Now()
	if err := c.admit(); err != nil {
		return failure.FromClient(err)
	}
	c.join()
	if len(c.config.snapshot.Config.Hooks) > 0 {
		if f := c.askHooks(); f != nil {
			return f
		}
	}
	c.setPhase(&phaseWaiting)
	return nil
}

// panicked responds to a call whose handler panicked, and finishes the call even if the response
// panics too. If the handler created a relay, the relay must not run.
func (c *Call) panicked() {
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
