package call

import (
	"errors"
	"time"

	"penstock/proxy/request/attempt"
	"penstock/proxy/request/endpoint"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// Two kinds of answers that are not streams are relayed before they are complete: large answers
// that need no translation, and slow answers. Without white space, a client or a load balancer
// would time out while waiting for a slow answer.

// whitespace is sent before a slow answer, because JSON may start with white space.
const whitespace = ' '

// commitWhitespace commits an incomplete answer by sending white space. A later error is sent as
// the JSON body.
func commitWhitespace(c *Call, codec endpoint.Unary) {
	c.trace.keep(&c.client)
	out := newOut()
	*out = append(*out, whitespace)
	commit(relay{call: c, form: formWhitespace, out: out, whole: codec}, jsonType)
}

func (r *relay) fillPassedOn() {
	out, done, err := r.call.attempt.Reply.PullPassedOn(*r.out, r.passOn)
	*r.out, r.done = out, done
	if c := r.call; c.body.Held() { // the answer has started with white space
		c.clearPoison()
		c.releaseRequest()
	}
	if err != nil {
		r.failed(err)
	}
}

func (r *relay) fillWhitespace() {
	c := r.call
	r.recycleOut()
	out, err := c.awaitWhole(time.Now().Add(c.config.snapshot.Config.Stream.WholeKeepalive.D()), &r.whole)
	if errors.Is(err, attempt.ErrLarge) {
		if r.passOn, out, err = c.beginPassOn(r.whole); err == nil {
			c.record.TTFT = time.Since(c.record.Start)
			r.form, r.out = formPassedOn, out
			return
		}
	}
	if err == nil {
		now := time.Now()
		c.record.TTFT = now.Sub(c.record.Start)
		c.noteOverhead(now)
		c.noteCounted()
		// The attempt ends here, so that a slow client does not occupy the engine.
		c.endAttempt(upstreams.OutcomeOK)
		c.clearPoison()
		c.releaseRequest()
		r.out, r.done = out, true
		return
	}
	r.out = newOut()
	if errors.Is(err, http1.ErrNotYet) {
		*r.out = append(*r.out, whitespace)
		return
	}
	r.failed(err)
}
