package call

import (
	"errors"
	"time"

	"penstock/proxy/request/attempt"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// This file relays whole answers before they are complete: large answers that are only passed on,
// and slow answers. A client, or a balancer in front of the edge, would otherwise stop waiting for
// a slow answer.

// whitespace is the white space that may precede JSON.
const whitespace = ' '

// commitWhitespace commits an incomplete answer by sending white space. A later error is sent as
// the JSON that follows.
func commitWhitespace(u unary) {
	c := u.call
	c.trace.keep(&c.client)
	out := newOut()
	*out = append(*out, whitespace)
	commit(relay{call: c, form: formWhitespace, out: out, unary: u}, jsonType)
}

// fillPassedOn is fill for a large answer that is passed on.
func (r *relay) fillPassedOn() {
	out, done, err := r.call.attempt.Reply.PullPassedOn(*r.out, r.passOn)
	*r.out, r.done = out, done
	if c := r.call; c.body.Held() { // the answer started as white space
		c.clearPoison()
		c.releaseRequest()
	}
	if err != nil {
		r.failed(err)
	}
}

// fillWhitespace is fill until the whole answer has arrived.
func (r *relay) fillWhitespace() {
	c := r.call
	r.recycleOut()
	out, err := r.unary.await(time.Now().Add(c.config.snapshot.Config.Stream.WholeKeepalive.D()))
	if errors.Is(err, attempt.ErrLarge) {
		if r.passOn, out, err = r.unary.beginPassOn(); err == nil {
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
		c.endAttempt(upstreams.OutcomeOK) // the client may take its time
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
