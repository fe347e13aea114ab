package proxy

import (
	"errors"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/translate"
	"penstock/translate/forward"
	"penstock/upstreams/http1"
)

// Whole answers that are relayed before they are complete: a large one that is only passed on, and
// one that takes so long that the client, or a balancer before the edge, would give up.

// answerForm is what a relay's bytes are.
type answerForm uint8

const (
	formEvents     answerForm = iota // of the dialect's stream
	formForward                      // a large answer, passed on as it comes
	formWhitespace                   // white space until the whole answer is there
)

// bytesOnly reports whether the answer, once begun, has no place for an error or a keep-alive.
func (c *Call) bytesOnly() bool { return c.ep.binaryResponse || c.form == formForward }

// passesOn reports whether the reply that is being read may be passed on as it comes: its endpoint
// changes next to nothing of it, and the client can tell an answer that broke off from a whole one.
func (c *Call) passesOn() bool {
	if c.ep.forwards == nil || c.form == formEvents && !c.ctx.Request.Header.IsHTTP11() {
		return false
	}
	_, ok := c.ep.forwards(c)
	return ok
}

// beginForward begins a large answer with the part of it that has been read. Its errors are those
// of forward.Relay.
func (c *Call) beginForward() (*[]byte, error) {
	c.forward, c.passed = nil, 0
	if isJSON, _ := c.ep.forwards(c); isJSON {
		c.forward = new(forward.Relay)
		c.forward.Reset(c.model.Config.ID)
	}
	out := outPool.Get().(*[]byte)
	var err error
	if *out, err = c.appendForward((*out)[:chunkRoom], *c.attempt.unaryBody); err != nil {
		recycleOut(out)
		return nil, err
	}
	c.attempt.begun = true
	c.form = formForward
	return out, nil
}

// appendForward appends the client's bytes for a piece of the reply.
func (c *Call) appendForward(dst, piece []byte) ([]byte, error) {
	if c.passed += len(piece); c.passed > translate.MaxAnswer {
		return dst, errTooLarge
	}
	if c.forward == nil {
		return append(dst, piece...), nil
	}
	return c.forward.Append(dst, piece)
}

// pullForward is pull for an answer that is passed on.
func (a *attempt) pullForward(dst []byte) (out []byte, done bool, err error) {
	c := a.call
	for before := len(dst); len(dst) == before; {
		piece := (*a.unaryBody)[:cap(*a.unaryBody)]
		n, err := a.Read(piece)
		if err == io.EOF { //nolint:errorlint // only the bare value ends a reply; wrapped, it is a failure's cause
			a.ended = true
			if c.forward != nil {
				err = c.forward.End()
			} else {
				err = nil
			}
			return dst, err == nil, a.classify(err)
		}
		if err == nil {
			dst, err = c.appendForward(dst, piece[:n])
		}
		if err != nil {
			return dst, false, a.classify(err)
		}
	}
	return dst, false, nil
}

// commitForward hands over a large answer that is passed on. Nothing is retried from here on.
func (c *Call) commitForward(out *[]byte) {
	now := time.Now()
	c.record.TTFT = now.Sub(c.record.Start)
	c.noteOverhead(now)
	c.releaseRequest()
	c.commitUnary(out)
}

// firstWhitespace is when white space is to tell the client that its whole answer is under way;
// zero: never. It is counted from the call's begin, as balancers count. Bytes and text have no
// white space that means nothing, and before HTTP/1.1 there are no chunks.
func (c *Call) firstWhitespace() time.Time {
	d := c.snap.Config.Stream.WholeKeepalive.D()
	if d <= 0 || c.ep.binaryResponse || !c.ctx.Request.Header.IsHTTP11() || c.upload != nil && !c.upload.answersJSON() {
		return time.Time{}
	}
	return c.record.Start.Add(d)
}

// commitWhitespace hands the answer over before it is there, as white space. Nothing is retried
// from here on, unless the engine's host vanishes, and what goes wrong is told in the JSON that
// follows.
func (c *Call) commitWhitespace() {
	c.form = formWhitespace
	c.keepParent()
	out := outPool.Get().(*[]byte)
	*out = append((*out)[:chunkRoom], whitespace)
	c.commitUnary(out)
}

// whitespace is white space of JSON.
const whitespace = ' '

// commitUnary is commit for an answer that is no stream of events.
func (c *Call) commitUnary(out *[]byte) {
	c.record.Status = fasthttp.StatusOK
	c.record.Committed = true
	c.setUnaryType()
	c.commonHeaders()
	c.ctx.Response.Header.Set("X-Accel-Buffering", "no")
	c.handOver(relay{call: c, out: out})
}

// fillWhitespace is fill until the whole answer is complete.
func (r *relay) fillWhitespace() {
	c := r.call
	r.giveBack()
	out, err := c.awaitUnary(time.Now().Add(c.snap.Config.Stream.WholeKeepalive.D()))
	if errors.Is(err, errLarge) {
		if out, err = c.beginForward(); err == nil {
			c.record.TTFT = time.Now().Sub(c.record.Start)
			r.out = out
			return
		}
	}
	if err == nil {
		now := time.Now()
		c.record.TTFT = now.Sub(c.record.Start)
		c.noteOverhead(now)
		c.clearPoison()
		r.out, r.done = out, true
		return
	}
	r.out = outPool.Get().(*[]byte)
	*r.out = (*r.out)[:chunkRoom]
	if errors.Is(err, http1.ErrNotYet) {
		*r.out = append(*r.out, whitespace)
		return
	}
	if f := c.attempt.failureOf(err); !r.failOver(f) {
		r.broken(f)
	}
}
