package proxy

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/guard"
	"penstock/proxy/observe"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// relay is the body of a committed stream. It pulls from the engine and pushes to the client on one
// goroutine: there is no queue between them, so a slow client stops the reads from its engine by
// itself.
//
// A stream on a plain connection leaves fasthttp (hijackedStream), because it does not need
// fasthttp's buffers and context. Where it cannot leave, fasthttp calls WriteTo on the connection's
// own goroutine after the handler has returned, and Close in every case.
//
// A relay is not pooled: the call behind it is, and a stale second Close must not end another call.
type relay struct {
	call *Call
	out  *[]byte // chunkRoom bytes, then what the client is to get next; not held while nothing comes
	done bool    // the engine has ended its reply
	cut  bool    // and badly, in an answer that has no words for it
}

// chunkWriter writes a relay's bytes to the client. write sends what follows the first chunkRoom
// bytes of out; last says that the stream ends well with it. It returns how many bytes of the
// stream the client's side took, and may change out.
type chunkWriter interface {
	write(out *[]byte, last bool) (int, error)
}

// fasthttpWriter is the chunkWriter of a stream that stays in fasthttp, which writes the chunks.
type fasthttpWriter struct{ w io.Writer }

func (b fasthttpWriter) write(out *[]byte, _ bool) (int, error) {
	if len(*out) == chunkRoom {
		return 0, nil
	}
	return b.w.Write((*out)[chunkRoom:]) // one chunk and one flush
}

var outPool = sync.Pool{New: func() any { b := make([]byte, 0, 2<<10); return &b }}

const maxPooledOut = 64 << 10

// commit hands the answer over as a stream that begins with out. From here on nothing is retried
// and every failure is told inside the stream.
func (c *Call) commit(out *[]byte, done bool) {
	now := time.Now()
	c.noteFirst(now)
	c.record.Status = fasthttp.StatusOK
	c.record.Committed = true
	c.setPhase(&phaseStreaming)
	c.noteOverhead(now)
	if !c.ep.binaryResponse {
		c.meter = c.shared.Calls.Meter(c.record.Dialect, c.record.Model, c.record.Upstream)
		c.meter.Note(c.attempt.count, now)
	}
	if c.attempt.begun || c.upload != nil || c.ep.binaryResponse {
		c.releaseRequest()
	} else {
		c.keepParent()
	}
	h := &c.ctx.Response.Header
	h.SetContentType("text/event-stream")
	if c.ep.binaryResponse {
		h.SetContentType(c.media)
	}
	c.commonHeaders()
	h.Set("X-Accel-Buffering", "no")
	c.handOver(relay{call: c, out: out, done: done})
}

// handOver gives a committed answer to the connection, or to fasthttp.
func (c *Call) handOver(r relay) {
	if !c.hijack(r) {
		c.relay = &r
		c.ctx.Response.SetBodyStream(&r, -1)
	}
}

// keepParent keeps the trace context, which may be gone with the request's head by the time that
// another engine is asked.
func (c *Call) keepParent() {
	if c.span == nil {
		c.parent = append([]byte(nil), c.traceparent()...)
	}
}

// releaseRequest lets go of what the client has sent: nothing is sent again once it has been shown
// something.
func (c *Call) releaseRequest() {
	c.releaseChat()
	if c.upstream.Breaker.Doubted() {
		c.releasedHash = c.bodyHash()
	}
	c.releaseBody()
}

// noteFirst records the time to the first event.
func (c *Call) noteFirst(now time.Time) {
	if c.record.TTFT == 0 && c.attempt.begun {
		c.record.TTFT = now.Sub(c.record.Start)
		c.record.UpstreamTTFT = now.Sub(c.attempt.sentAt)
		c.firstAt.Store(now.UnixNano())
		c.attempt.lease.FirstToken(c.record.UpstreamTTFT)
	}
}

// Read is there for the type only: fasthttp uses WriteTo.
func (r *relay) Read([]byte) (int, error) { return 0, io.EOF }

// SupportsBodyWriteTo implements fasthttp.BodyWriterTo.
func (r *relay) SupportsBodyWriteTo() bool { return true }

// WriteTo implements io.WriterTo.
func (r *relay) WriteTo(w io.Writer) (int64, error) { return r.run(fasthttpWriter{w}) }

// run moves the stream to the client until either side ends it.
func (r *relay) run(to chunkWriter) (n int64, err error) {
	c := r.call
	defer c.shared.Guard.Catch(guard.Stream, func() {
		c.fail(internalError(errPanicked))
		err = errPanicked // the connection is cut: what was sent must not look whole
	})
	c.shared.Guard.Point("relay.run")
	for {
		if r.done {
			c.complete()
		}
		c.extendWrite()
		m, werr := r.write(to)
		n += int64(m)
		c.record.BytesOut += int64(m)
		if werr != nil {
			r.clientLost(werr)
			return n, werr
		}
		*r.out = (*r.out)[:chunkRoom]
		if r.done {
			c.attempt.drain()
			c.attempt.end(upstreams.OutcomeOK)
			return n, nil
		}
		if r.fill(); r.cut {
			return n, errBrokenOff
		}
	}
}

// write sends what there is. While a client takes its time with an answer that is passed on, its
// engine cannot go on either, so that time is none of the engine's.
func (r *relay) write(to chunkWriter) (int, error) {
	if r.call.form != formForward {
		return to.write(r.out, r.done)
	}
	a := &r.call.attempt
	start := time.Now()
	n, err := to.write(r.out, r.done)
	now := time.Now()
	a.blocked += now.Sub(start)
	a.readAt = now
	return n, err
}

// errBrokenOff makes fasthttp end the connection without the body's last chunk: there is no other
// way to tell that bytes are not whole.
var errBrokenOff = errors.New("the answer broke off")

// fill brings the next bytes for the client: the engine's, a sign of life when it is silent, or the
// error that ends it.
func (r *relay) fill() {
	c := r.call
	if c.form == formWhitespace {
		r.fillWhitespace()
		return
	}
	var patience time.Time
	if d := c.snap.Config.Stream.Keepalive.D(); d > 0 && !c.bytesOnly() {
		patience = time.Now().Add(d)
	}
	if c.attempt.rests() {
		r.giveBack()
		c.attempt.rest(patience)
		r.out = outPool.Get().(*[]byte)
		*r.out = (*r.out)[:chunkRoom]
	}
	out, done, err := c.attempt.pull(*r.out, patience)
	*r.out, r.done = out, done
	c.noteFirst(c.attempt.readAt)
	if c.body != nil && c.attempt.begun {
		c.clearPoison()
		c.releaseRequest()
	}
	switch {
	case err == nil && c.form == formForward: // which has no events to meter
	case err == nil:
		c.meter.Note(c.attempt.count, c.attempt.readAt)
	case errors.Is(err, http1.ErrNotYet):
		*r.out = c.stream.Keepalive(out)
	default:
		if f := c.attempt.failureOf(err); !r.failOver(f) {
			r.broken(f)
		}
	}
}

// failOver asks another engine in place of one whose host has vanished, if the client has had no
// more than signs of life. It is false where that may not be, or no other has a slot.
func (r *relay) failOver(f *failure) bool {
	c := r.call
	if c.body == nil || !c.mayFailOver(f) {
		return false
	}
	c.tried = append(c.tried, c.upstream.ID())
	now, queued := time.Now(), c.record.Queue
	lease, target, err := c.acquire(now)
	c.setPhase(&phaseStreaming)
	if err != nil {
		return false
	}
	c.recordLoss(f, now)
	c.attempt.note(f)
	c.attempt.end(f.outcome)
	c.shared.Counters.Moved.Inc()
	c.sendTo(lease, now.Add(c.record.Queue-queued))
	c.meter = c.shared.Calls.Meter(c.record.Dialect, c.record.Model, c.record.Upstream)
	c.fit(target)
	if err := c.attempt.open(c, lease, target, lease.Exchange(), c.asksStream(lease)); err != nil {
		r.broken(c.attempt.failureOf(err))
	}
	return true
}

// broken ends the stream with an in-band error. A client that has left gets nothing.
func (r *relay) broken(f *failure) {
	c := r.call
	c.noteUsage()
	c.fail(f)
	if f.result == observe.UpstreamFail || f.result == observe.Limited || f.result == observe.NoRoute {
		c.record.Outcome = observe.StreamBroken
	}
	c.warn(f)
	c.attempt.note(f)
	c.attempt.end(f.outcome)
	switch e := c.ep.dialect.errorOf(f.api); {
	case c.bytesOnly():
		r.cut = true
	case f.result == observe.ClientGone:
	case c.form == formWhitespace:
		*r.out = c.ep.dialect.appendError(*r.out, e, string(c.id))
	default:
		*r.out = c.stream.Fail(*r.out, e)
	}
	r.done = true
}

// noteUsage takes over what the answer has told of its tokens so far. Raw bytes have none, and of a
// whole answer they were noted when it was made.
func (c *Call) noteUsage() {
	switch {
	case c.form == formForward:
		c.noteForwarded()
	case c.form == formEvents && !c.ep.binaryResponse:
		c.usage = c.stream.Usage()
		c.noteMarkup(c.stream.Markup())
	}
}

// complete notes that the engine has said all. The engine is free from here on, however slow the
// client is.
func (c *Call) complete() {
	if c.record.Outcome != "" {
		return // broken
	}
	c.noteUsage()
	c.record.Outcome = observe.OK
	if c.attempt.ended {
		c.attempt.end(upstreams.OutcomeOK)
	}
}

// clientLost notes that the client could not be written to: it left, or it stopped reading.
func (r *relay) clientLost(err error) {
	c := r.call
	c.noteUsage()
	c.record.Phase = observe.PhaseStreaming
	if errors.Is(err, os.ErrDeadlineExceeded) && c.aborted() == nil {
		c.record.Phase = observe.PhaseStalled
	}
	c.fail(fromAbort(errClientGone))
	c.attempt.end(upstreams.OutcomeClientGone)
}

// Close ends the call. fasthttp reaches it on every path.
func (r *relay) Close() error {
	c := r.call
	if c == nil {
		return nil
	}
	r.call = nil
	defer c.shared.Guard.Catch(guard.Stream, nil)
	defer c.finish()
	c.shared.Guard.Point("relay.close")
	if c.record.Outcome == "" { // the head could not be written
		c.fail(fromAbort(errClientGone))
	}
	r.giveBack()
	return nil
}

// giveBack returns the buffer, if there is one, to its pool.
func (r *relay) giveBack() {
	if r.out != nil {
		recycleOut(r.out)
		if r.call != nil { // else the call has ended, or is about to
			r.call.reply.give(replyOut)
		}
	}
	r.out = nil
}
