package proxy

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/limit"
	"penstock/proxy/observe"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// tryWhole reads the engine's whole reply and answers with it. A reply that the engine streams, because only streams can
// be cancelled there, is put together first. A reply that takes longer than stream.whole_keepalive, and a large one that is only
// passed on, become a relay.
func (c *Call) tryWhole() *failure {
	a := &c.attempt
	out, err := c.awaitWhole(c.firstBlank())
	switch {
	case err == nil:
	case errors.Is(err, upstreams.ErrNotYet):
		c.commitBlanks()
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
	c.endAt = c.edge.now()
	c.record.TTFT = c.endAt.Sub(c.record.Start)
	c.noteOverhead(c.endAt)
	a.end(upstreams.OutcomeOK)
	c.answerJSON(out, (*out)[chunkRoom:])
	return nil
}

// awaitWhole brings the client's answer for the engine's whole reply, behind chunkRoom bytes of a buffer of outPool. Its errors
// are upstreams.ErrNotYet when until passes first (call again to go on), errLarge for a reply that is to be passed on as it comes,
// and otherwise what failureOf takes.
func (c *Call) awaitWhole(until time.Time) (*[]byte, error) {
	a := &c.attempt
	if err := a.awaitHead(until); err != nil {
		return nil, err
	}
	if a.whole == nil {
		c.ep.answer(c)
		a.whole = outPool.Get().(*[]byte)
		*a.whole = (*a.whole)[:0]
	}
	a.until = until
	read := a.readWhole
	if a.streamed {
		read = a.assemble
	}
	if err := read(); err != nil {
		return nil, err
	}
	completion := *a.whole
	if a.native != nil && !a.streamed {
		if err := c.reply.hold(replyState, len(completion)); err != nil {
			return nil, err
		}
		var err error
		if completion, err = a.native.AppendWhole(nil, completion); err != nil {
			return nil, err
		}
	}
	return c.translateWhole(completion)
}

// translateWhole makes the client's answer of a completion. Its memory is reserved by what the completion takes, and then by
// what the answer does.
func (c *Call) translateWhole(completion []byte) (*[]byte, error) {
	out := outPool.Get().(*[]byte)
	if n := chunkRoom + len(completion) + outMore; n > max(cap(*out), maxPooledOut) {
		if err := c.reply.hold(replyOut, n); err != nil {
			outPool.Put(out)
			return nil, err
		}
		*out = make([]byte, 0, n)
	}
	answer, err := c.ep.whole(c, (*out)[:chunkRoom], completion)
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

// outMore is what an answer may have more than the completion that it is made of, without growing.
const outMore = 1 << 10

// holdOut reserves for the client's bytes, of which buffers of the pool need no count.
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
	c.setWholeType()
	c.commonHeaders()
	c.sendBody(buf, body)
}

// setWholeType sets the Content-Type of a whole answer.
func (c *Call) setWholeType() {
	c.ctx.Response.Header.SetContentType("application/json")
	if c.media != "" {
		c.ctx.Response.Header.SetContentType(c.media)
	}
}

// sendBody hands body to fasthttp. A small one is copied, so that its buffer can be used again at once; a large one is
// written from where it is, and its memory counts until then.
func (c *Call) sendBody(buf *[]byte, body []byte) {
	c.extendWrite()
	if len(body) <= maxPooledOut {
		c.ctx.Response.SetBody(body)
		recycleOut(buf)
		return
	}
	c.ctx.Response.SetBodyStream(&largeAnswer{body: body, budget: c.reply.budget, reserved: c.reply.handOver(replyOut)}, len(body))
}

// largeAnswer is a whole answer that outlives its call until fasthttp has written it, which closes it on every path.
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

// readWhole reads the reply's body into a.whole, or its beginning if the rest is to be passed on as it comes.
func (a *attempt) readWhole() error {
	announced := int(min(a.x.ContentLength(), chat.MaxAnswer+1))
	if announced > chat.MaxAnswer {
		return errTooLarge
	}
	for dst := *a.whole; ; {
		switch {
		case len(dst) > chat.MaxAnswer:
			return errTooLarge
		case len(dst) >= freeReply && a.call.passesOn():
			return errLarge
		case len(dst) == cap(dst):
			most := chat.MaxAnswer + 1
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
		*a.whole = dst
		switch {
		case err == io.EOF: //nolint:errorlint // only the bare value ends a reply; wrapped, it is a failure's cause
			a.ended = true
			return nil
		case err != nil:
			return err
		}
	}
}

// errLarge ends readWhole for a reply that does not fit in what a call may hold without asking, and need not be held.
var errLarge = errors.New("a large reply that is passed on")

var errTooLarge = &chat.BadAnswer{Reason: chat.TooLarge}

var assemblerPool = sync.Pool{New: func() any { return new(chat.Assembler) }}

// assemble reads a streamed reply to its end and puts the completion that it amounts to into a.whole.
func (a *attempt) assemble() error {
	if a.assembler == nil {
		a.assembler = assemblerPool.Get().(*chat.Assembler)
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
			if a.completeAt.IsZero() || errors.Is(err, upstreams.ErrNotYet) && !a.late(a.completeAt.Add(afterFinish)) {
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
		if a.completeAt.IsZero() && whole.Whole() {
			a.completeAt = a.readAt
		}
	}
	if n := whole.Held() + outMore; n > maxPooledOut {
		if err := a.call.reply.hold(replyBody, n); err != nil {
			return err
		}
		*a.whole = make([]byte, 0, n)
	}
	var err error
	*a.whole, err = whole.Append((*a.whole)[:0], &a.call.answer)
	return err
}

// releaseWhole gives back what a whole reply was read with.
func (a *attempt) releaseWhole() {
	if a.whole != nil {
		recycleOut(a.whole)
		a.whole = nil
	}
	if a.assembler != nil {
		a.assembler.Reset()
		assemblerPool.Put(a.assembler)
		a.assembler = nil
	}
}
