package proxy

import (
	"io"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/observe"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// tryWhole reads the engine's whole reply and answers with it. A reply that the engine streams, because only streams can
// be cancelled there, is put together first.
func (c *Call) tryWhole() *failure {
	a := &c.attempt
	if err := a.awaitHead(time.Time{}); err != nil {
		return a.failureOf(err)
	}
	c.ep.answer(c)
	in := outPool.Get().(*[]byte)
	defer func() {
		if cap(*in) <= maxPooledOut {
			outPool.Put(in)
		}
	}()
	var err error
	if a.streamed {
		*in, err = a.assemble((*in)[:0])
	} else {
		*in, err = a.readWhole((*in)[:0])
	}
	completion := *in
	if a.native != nil && !a.streamed && err == nil {
		completion, err = a.native.AppendWhole(nil, completion)
	}
	if err != nil {
		return a.failureOf(err)
	}
	return c.answerWhole(completion)
}

// answerWhole writes the client's answer for a whole completion.
func (c *Call) answerWhole(completion []byte) *failure {
	a := &c.attempt
	out := outPool.Get().(*[]byte)
	body, err := c.ep.whole(c, (*out)[:0], completion)
	if err != nil {
		outPool.Put(out)
		return a.failureOf(err)
	}
	c.endAt = c.edge.now()
	c.record.TTFT = c.endAt.Sub(c.record.Start)
	c.noteOverhead(c.endAt)
	a.end(upstreams.OutcomeOK)
	c.answerJSON(out, body)
	return nil
}

// answerJSON answers with body, JSON or of the type c.media, which is in the buffer buf of outPool.
func (c *Call) answerJSON(buf *[]byte, body []byte) {
	c.record.Status = fasthttp.StatusOK
	c.record.Outcome = observe.OK
	c.record.BytesOut = int64(len(body))
	c.ctx.Response.Header.SetContentType("application/json")
	if c.media != "" {
		c.ctx.Response.Header.SetContentType(c.media)
	}
	c.commonHeaders()
	c.sendBody(buf, body)
}

// sendBody hands body to fasthttp. A small one is copied, so that its buffer can be used again at once; a large one is
// written from where it is.
func (c *Call) sendBody(buf *[]byte, body []byte) {
	c.extendWrite()
	if len(body) <= maxPooledOut {
		c.ctx.Response.SetBody(body)
		*buf = body[:0]
		outPool.Put(buf)
		return
	}
	c.ctx.Response.SetBodyRaw(body)
}

// readWhole appends the reply's body to dst.
func (a *attempt) readWhole(dst []byte) ([]byte, error) {
	if n := a.x.ContentLength(); n > chat.MaxAnswer {
		return dst, errTooLarge
	} else if int(n) > cap(dst) {
		dst = make([]byte, 0, n+1)
	}
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := a.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case err == io.EOF: //nolint:errorlint // only the bare value ends a reply; wrapped, it is a failure's cause
			a.ended = true
			return dst, nil
		case err != nil:
			return dst, err
		case len(dst) > chat.MaxAnswer:
			return dst, errTooLarge
		}
	}
}

var errTooLarge = &chat.BadAnswer{Reason: chat.TooLarge}

var assemblerPool = sync.Pool{New: func() any { return new(chat.Assembler) }}

// assemble reads a streamed reply to its end and appends the completion that it amounts to.
func (a *attempt) assemble(dst []byte) ([]byte, error) {
	whole := assemblerPool.Get().(*chat.Assembler)
	defer assemblerPool.Put(whole)
	whole.Reset()
	for {
		ev, err := a.events.Next()
		if err == io.EOF { //nolint:errorlint // only the bare value ends a reply; wrapped, it is a failure's cause
			a.ended = true
			break
		}
		if err != nil {
			if a.completeAt.IsZero() {
				return dst, err
			}
			break
		}
		if a.native != nil {
			if ev, err = a.native.Read(ev); err != nil {
				return dst, err
			}
		}
		if err := whole.Add(ev); err != nil {
			return dst, err
		}
		a.begun = true
		if whole.Done() || a.native != nil && a.native.Done() {
			break
		}
		if a.completeAt.IsZero() && whole.Whole() {
			a.completeAt = a.readAt
		}
	}
	return whole.Append(dst, &a.call.answer)
}
