package proxy

import (
	"io"

	"github.com/valyala/fasthttp"

	"penstock/translate/chat"
	"penstock/translate/forward"
)

// This file is what becomes of a large answer that is only passed on.

// answerForm is what a relay's bytes are.
type answerForm uint8

const (
	formEvents  answerForm = iota // of the dialect's stream
	formForward                   // a large answer, passed on as it comes
)

// bytesOnly reports whether the answer has no words for an error once it has begun, and no events between which to put a sign
// of life.
func (c *Call) bytesOnly() bool { return c.ep.raw || c.form == formForward }

// passesOn reports whether the reply that is being read may be passed on as it comes: its endpoint changes next to nothing of it,
// and the client can tell an answer that broke off from a whole one.
func (c *Call) passesOn() bool {
	if c.ep.forwards == nil || !c.ctx.Request.Header.IsHTTP11() {
		return false
	}
	_, ok := c.ep.forwards(c)
	return ok
}

// beginForward makes the beginning of a large answer of what has been read of it. Its errors are those of forward.Relay.
func (c *Call) beginForward() (*[]byte, error) {
	c.forward, c.passed = nil, 0
	if isJSON, _ := c.ep.forwards(c); isJSON {
		c.forward = new(forward.Relay)
		c.forward.Reset(c.model.config.ID)
	}
	out := outPool.Get().(*[]byte)
	var err error
	if *out, err = c.appendForward((*out)[:chunkRoom], *c.attempt.whole); err != nil {
		recycleOut(out)
		return nil, err
	}
	c.attempt.begun = true
	c.form = formForward
	return out, nil
}

// appendForward appends what the client is to see of a piece of the reply.
func (c *Call) appendForward(dst, piece []byte) ([]byte, error) {
	if c.passed += len(piece); c.passed > chat.MaxAnswer {
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
		piece := (*a.whole)[:cap(*a.whole)]
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

// commitForward hands a large answer over that is passed on. Nothing is retried from here on.
func (c *Call) commitForward(out *[]byte) {
	now := c.edge.now()
	c.record.TTFT = now.Sub(c.record.Start)
	c.noteOverhead(now)
	c.releaseRequest()
	c.commitWhole(out)
}

// commitWhole is commit for an answer that is no stream of events.
func (c *Call) commitWhole(out *[]byte) {
	c.record.Status = fasthttp.StatusOK
	c.record.Committed = true
	c.setWholeType()
	c.commonHeaders()
	c.ctx.Response.Header.Set("X-Accel-Buffering", "no")
	c.handOver(relay{call: c, out: out})
}
