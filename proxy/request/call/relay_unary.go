package call

import (
	"errors"
	"time"

	"penstock/proxy/request/attempt"
	"penstock/proxy/request/endpoint"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// Two kinds of whole answers are relayed before they are complete: large answers that need no
// translation, and slow answers. A slow answer starts with white space. Otherwise, a client or a
// load balancer would time out while waiting for it.

// keepaliveWhitespace is sent before a slow answer, because JSON may start with white space.
const keepaliveWhitespace = ' '

// commitWhitespace commits an incomplete answer by sending white space. A later error is sent as
// the JSON body.
func commitWhitespace(c *Call, codec endpoint.UnaryAnswer) {
	c.trace.saveClientContext(&c.client)
	out := newOutBuffer()
	*out = append(*out, keepaliveWhitespace)
	commitRelay(relay{call: c, form: answerKindWhitespace, out: out, unaryCodec: codec}, jsonType)
}

func (r *relay) fillPassthrough() {
	out, done, err := r.call.attempt.Reply.PullPassthrough(*r.out, r.passthrough)
	*r.out, r.isDone = out, done
	if c := r.call; c.body.HasBytes() { // the answer has started with white space
		c.clearPoison()
		c.releaseRequest()
	}
	if err != nil {
		r.handleFailure(err)
	}
}

func (r *relay) fillWhitespace() {
	c := r.call
	r.recycleOutBuffer()
	out, err := c.awaitUnary(time.Now().Add(c.config.snapshot.Config.Stream.WholeKeepalive.D()), &r.unaryCodec)
	if errors.Is(err, attempt.ErrLargeReply) {
		if r.passthrough, out, err = beginPassthrough(&c.attempt.Reply, r.unaryCodec); err == nil {
			c.record.TTFT = time.Since(c.record.Start)
			r.form, r.out = answerKindPassthrough, out
			return
		}
	}
	if err == nil {
		now := time.Now()
		c.record.TTFT = now.Sub(c.record.Start)
		c.recordOverhead(now)
		c.recordEnginePromptTokens()
		// The attempt ends here, so that a slow client does not occupy the engine.
		c.endAttempt(upstreams.OutcomeOK)
		c.clearPoison()
		c.releaseRequest()
		r.out, r.isDone = out, true
		return
	}
	r.out = newOutBuffer()
	if errors.Is(err, http1.ErrNoBytesYet) {
		*r.out = append(*r.out, keepaliveWhitespace)
		return
	}
	r.handleFailure(err)
}
