package proxy

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/limit"
	"penstock/proxy/observe"
	"penstock/translate"
	"penstock/translate/chat/answer"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// tryUnary reads the engine's whole reply and answers with it. If the engine was asked for a
// stream, because it can cancel only streams, the reply is assembled first. A reply that takes
// longer than stream.whole_keepalive, and a large one that is only passed on, become a relay.
func (c *Call) tryUnary() *failure {
	a := &c.attempt
	out, err := c.awaitUnary(c.firstWhitespace())
	switch {
	case err == nil:
	case errors.Is(err, http1.ErrNotYet):
		c.commitWhitespace()
		return nil
	case errors.Is(err, errLarge):
		if out, err = c.beginForward(); err != nil {
			return a.failureOf(err)
		}
		c.commitForward(out)
		return nil
	default:
		return a.failureOf(err)
	}
	c.endAt = time.Now()
	c.record.TTFT = c.endAt.Sub(c.record.Start)
	c.noteOverhead(c.endAt)
	a.end(upstreams.OutcomeOK)
	c.answerJSON(out, (*out)[chunkRoom:])
	return nil
}

// awaitUnary returns the client's answer for the engine's whole reply, behind chunkRoom bytes of a
// buffer of outPool. Its errors are http1.ErrNotYet when until passes first (call it again to
// go on), errLarge for a reply that is to be passed on as it arrives, and otherwise those that
// failureOf takes.
func (c *Call) awaitUnary(until time.Time) (*[]byte, error) {
	a := &c.attempt
	if err := a.awaitHead(until); err != nil {
		return nil, err
	}
	if a.unaryBody == nil {
		c.ep.answer(c)
		a.unaryBody = outPool.Get().(*[]byte)
		*a.unaryBody = (*a.unaryBody)[:0]
	}
	a.until = until
	read := a.readUnary
	if a.streamed {
		read = a.assemble
	}
	if err := read(); err != nil {
		return nil, err
	}
	completion := *a.unaryBody
	if a.native != nil && !a.streamed {
		if err := c.reply.hold(replyState, len(completion)); err != nil {
			return nil, err
		}
		var err error
		if completion, err = a.native.AppendCompletion(nil, completion); err != nil {
			return nil, err
		}
	}
	return c.translateUnary(completion)
}

// translateUnary makes the client's answer from a completion. It reserves the completion's size
// first, and then corrects that to the answer's.
func (c *Call) translateUnary(completion []byte) (*[]byte, error) {
	out := outPool.Get().(*[]byte)
	if n := chunkRoom + len(completion) + outMore; n > max(cap(*out), maxPooledOut) {
		if err := c.reply.hold(replyOut, n); err != nil {
			outPool.Put(out)
			return nil, err
		}
		*out = make([]byte, 0, n)
	}
	answer, err := c.ep.unary(c, (*out)[:chunkRoom], completion)
	*out = answer
	if err == nil {
		err = c.holdOut(cap(answer))
	}
	if err != nil {
		recycleOut(out)
		c.reply.give(replyOut)
		return nil, err
	}
	return out, nil
}

// outMore is how much longer than its completion an answer may be before its buffer grows.
const outMore = 1 << 10

// holdOut reserves memory for the client's bytes. Buffers of the pool are not counted.
func (c *Call) holdOut(n int) error {
	if n <= maxPooledOut {
		return nil
	}
	return c.reply.hold(replyOut, n)
}

// recycleOut puts a buffer back into its pool, unless it has become large.
func recycleOut(buf *[]byte) {
	if cap(*buf) <= maxPooledOut {
		*buf = (*buf)[:0]
		outPool.Put(buf)
	}
}

// answerJSON answers with body, JSON or of the type c.media, which is in the buffer buf of outPool.
func (c *Call) answerJSON(buf *[]byte, body []byte) {
	c.record.Status = fasthttp.StatusOK
	c.record.Outcome = observe.OK
	c.record.BytesOut = int64(len(body))
	c.setUnaryType()
	c.commonHeaders()
	c.sendBody(buf, body)
}

// setUnaryType sets the Content-Type of a whole answer.
func (c *Call) setUnaryType() {
	c.ctx.Response.Header.SetContentType("application/json")
	if c.media != "" {
		c.ctx.Response.Header.SetContentType(c.media)
	}
}

// sendBody hands body to fasthttp. A small body is copied, so that its buffer can be used again at
// once. A large one is written from its buffer, whose memory stays reserved until then.
func (c *Call) sendBody(buf *[]byte, body []byte) {
	c.extendWrite()
	if len(body) <= maxPooledOut {
		c.ctx.Response.SetBody(body)
		recycleOut(buf)
		return
	}
	c.ctx.Response.SetBodyStream(&largeAnswer{body: body, budget: c.reply.budget, reserved: c.reply.handOver(replyOut)}, len(body))
}

// largeAnswer is a whole answer that outlives its call until fasthttp has written it, which closes
// it on every path.
type largeAnswer struct {
	body     []byte
	budget   *limit.Memory
	reserved int64
}

// WriteTo implements io.WriterTo, which is what fasthttp uses.
func (b *largeAnswer) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b.body)
	return int64(n), err
}

// SupportsBodyWriteTo implements fasthttp.BodyWriterTo.
func (b *largeAnswer) SupportsBodyWriteTo() bool { return true }

// Read is there for the type only.
func (b *largeAnswer) Read([]byte) (int, error) { panic("BUG: a large answer is read") }

// Close gives the memory back, once.
func (b *largeAnswer) Close() error {
	b.budget.Discard(b.reserved)
	b.body, b.reserved = nil, 0
	return nil
}

// readUnary reads the reply's body into a.unaryBody, or its beginning if the rest is to be passed
// on as it arrives.
func (a *attempt) readUnary() error {
	announced := int(min(a.x.ContentLength(), translate.MaxAnswer+1))
	if announced > translate.MaxAnswer {
		return errTooLarge
	}
	for dst := *a.unaryBody; ; {
		switch {
		case len(dst) > translate.MaxAnswer:
			return errTooLarge
		case len(dst) >= freeReply && a.call.passesOn():
			return errLarge
		case len(dst) == cap(dst):
			most := translate.MaxAnswer + 1
			if announced >= len(dst) { // and one byte more for the read that finds the end
				most = announced + 1
			}
			var err error
			if dst, err = a.call.growReply(dst, most); err != nil {
				return err
			}
		}
		n, err := a.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		*a.unaryBody = dst
		switch {
		case err == io.EOF: //nolint:errorlint // only the bare value ends a reply; wrapped, it is a failure's cause
			a.ended = true
			return nil
		case err != nil:
			return err
		}
	}
}

// errLarge ends readUnary for a reply that is larger than freeReply and can be passed on.
var errLarge = errors.New("a large reply that is passed on")

var errTooLarge = &translate.BadAnswer{Reason: translate.TooLarge}

var assemblerPool = sync.Pool{New: func() any { return new(answer.Assembler) }}

// assemble reads a streamed reply to its end and assembles its completion in a.unaryBody.
func (a *attempt) assemble() error {
	if a.assembler == nil {
		a.assembler = assemblerPool.Get().(*answer.Assembler)
		a.assembler.Reset()
	}
	whole := a.assembler
	for {
		ev, err := a.events.Next()
		if err == io.EOF { //nolint:errorlint // only the bare value ends a reply; wrapped, it is a failure's cause
			a.ended = true
			break
		}
		if err != nil {
			if a.completeAt.IsZero() || errors.Is(err, http1.ErrNotYet) && !a.late(a.completeAt.Add(afterFinish)) {
				return err
			}
			break
		}
		blank := ev.Blank()
		if a.native != nil {
			if ev, err = a.native.Read(ev); err != nil {
				return err
			}
		}
		if err := whole.Add(ev); err != nil {
			return err
		}
		if err := a.call.holdState(whole.Held()); err != nil {
			return err
		}
		a.begun = a.begun || !blank
		if whole.Done() || a.native != nil && a.native.Done() {
			break
		}
		if a.completeAt.IsZero() && whole.Finished() {
			a.completeAt = a.readAt
		}
	}
	if n := whole.Held() + outMore; n > maxPooledOut {
		if err := a.call.reply.hold(replyBody, n); err != nil {
			return err
		}
		*a.unaryBody = make([]byte, 0, n)
	}
	var err error
	*a.unaryBody, err = whole.Append((*a.unaryBody)[:0], &a.call.answer)
	return err
}

// releaseUnary returns the buffer and the assembler of a whole reply to their pools.
func (a *attempt) releaseUnary() {
	if a.unaryBody != nil {
		recycleOut(a.unaryBody)
		a.unaryBody = nil
	}
	if a.assembler != nil {
		a.assembler.Reset()
		assemblerPool.Put(a.assembler)
		a.assembler = nil
	}
}
