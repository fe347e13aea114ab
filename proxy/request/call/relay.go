package call

import (
	"errors"
	"io"
	"os"
	"time"

	"penstock/config/instant"
	"penstock/proxy/request/attempt"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/observe"
	"penstock/translate"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// relay writes the body of a committed answer. It reads from the engine and writes to the client on
// one goroutine, so a slow client also slows down the reads from the engine.
//
// fasthttp calls WriteTo on the connection's goroutine after the handler has returned, and then
// Close. A stream on a plain connection then leaves fasthttp (detachedStream).
//
// A relay is not pooled, because a second Close must not end another call.
type relay struct {
	call   *Call
	form   answerForm
	out    *[]byte      // chunkRoom bytes followed by bytes for the client; nil while the relay waits
	now    instant.Time // when the bytes in out were read
	done   bool
	leaves bool // whether run returns errLeft after it has written the first bytes
	cut    bool // whether the answer is incomplete and its format cannot contain errors

	stream  endpoint.Stream  // used by formStream
	step    func() bool      // called for a stream that stays in the poller; may be nil
	pulled  pulled           // what step has pulled and run must process
	silence time.Duration    // silence before the stream gets a keep-alive; 0 means no keep-alives
	shown   instant.Time     // when the client last received bytes; the silence starts here
	passOn  *endpoint.PassOn // used by formPassedOn
	whole   endpoint.Unary   // used by formWhitespace
}

// pulled is the result of a pull. Its bytes are in relay.out.
type pulled struct {
	is   bool
	done bool
	err  error
}

// atOnce is a deadline that has already passed, so a pull does not wait.
const atOnce instant.Time = 1

// answerForm is the kind of answer that a relay writes.
type answerForm uint8

const (
	formStream     answerForm = iota
	formPassedOn              // a large answer that is relayed while it arrives
	formWhitespace            // white space until the complete answer has arrived
	formWhole                 // a complete answer
)

// chunkWriter writes a relay's bytes to the client. write skips the first chunkRoom bytes of out
// and sends the remaining bytes. last marks the end of the stream, including the end after an error
// event. write returns how many bytes it accepted, and may change the buffer.
type chunkWriter interface {
	write(out *[]byte, last bool) (int, error)
}

// fasthttpWriter is the chunkWriter of a stream that fasthttp frames.
type fasthttpWriter struct{ w io.Writer }

func (b fasthttpWriter) write(out *[]byte, _ bool) (int, error) {
	if len(*out) == chunkRoom {
		return 0, nil
	}
	return b.w.Write((*out)[chunkRoom:]) // writes one chunk and flushes it
}

func newOut() *[]byte {
	out := attempt.NewBuffer()
	*out = (*out)[:chunkRoom]
	return out
}

// Read implements io.Reader. fasthttp does not call it, because it prefers WriteTo.
func (r *relay) Read([]byte) (int, error) { return 0, io.EOF }

func (r *relay) SupportsBodyWriteTo() bool { return true }

func (r *relay) WriteTo(w io.Writer) (int64, error) { return r.run(fasthttpWriter{w}) }

func (r *relay) run(to chunkWriter) (n int64, err error) {
	c := r.call
	defer c.shared.Guard.Catch(guard.Stream, func() {
		c.fail(failure.Internal(failure.ErrPanicked))
		err = failure.ErrPanicked // closes the connection, so the answer does not look complete
	})
	c.shared.Guard.Point("relay.run")
	if len(c.participants) > 0 {
		to = participantsWriter{to, c.participants}
	}
	for {
		if r.done {
			r.complete()
		}
		c.client.extendWrite(c.config.writeTimeout())
		m, werr := r.write(to)
		n += int64(m)
		c.record.BytesOut += int64(m)
		if werr != nil {
			r.clientLost(werr)
			return n, werr
		}
		if m > 0 {
			r.shown = r.now
		}
		*r.out = (*r.out)[:chunkRoom]
		if r.leaves && m > 0 {
			r.leaves = false
			return n, errLeft
		}
		if r.done {
			if c.attempt.Lease() != nil {
				c.attempt.Reply.ReadTail()
				c.endAttempt(upstreams.OutcomeOK)
			}
			return n, nil
		}
		if r.fill(); r.cut {
			return n, errBrokenOff
		}
	}
}

// write sends the bytes in out. For a formPassedOn answer, a slow client also blocks the engine.
func (r *relay) write(to chunkWriter) (int, error) {
	if r.form != formPassedOn {
		return to.write(r.out, r.done)
	}
	start := time.Now()
	n, err := to.write(r.out, r.done)
	r.call.attempt.Reply.Blocked(start, time.Now())
	return n, err
}

// errBrokenOff makes fasthttp close the connection without the last chunk, so the client can detect
// that the body is incomplete.
var errBrokenOff = errors.New("the answer broke off")

// fill produces the next bytes for the client: part of the engine's answer, a keep-alive if the
// engine is silent, or an error.
func (r *relay) fill() {
	switch r.form {
	case formWhitespace:
		r.fillWhitespace()
	case formPassedOn:
		r.fillPassedOn()
	case formStream:
		r.fillStream()
		return
	case formWhole: // run has nothing left to read
	}
	r.now = instant.Now()
}

func (r *relay) fillStream() {
	c := r.call
	if c.tries.wait != nil {
		fillWaiting(r)
		r.now = instant.Now()
		return
	}
	if c.leavesDrained() {
		r.failed(failure.HandedOver())
		r.now = instant.Now()
		return
	}
	if c.attempt.Reply.Rests() {
		r.recycleOut()
		c.attempt.Reply.Rest(r.patience(), r.step)
		if r.out == nil {
			r.out = newOut()
		}
	}
	if !r.pulled.is {
		r.pull(r.patience())
	}
	done, err := r.pulled.done, r.pulled.err
	r.pulled = pulled{}
	r.done = done && err == nil // after a failure, another engine may continue
	progress := c.attempt.Reply.Progress()
	if c.record.TTFT == 0 {
		c.noteFirst(&progress, progress.ReadAt().Std())
	}
	if c.body.Held() && r.stream.Started() && !c.resumable() {
		c.clearPoison()
		c.releaseRequest()
		c.tries.recording.Release()
	}
	switch {
	case err == nil:
		if r.noteEvents() {
			return
		}
	case errors.Is(err, http1.ErrNotYet):
		c.keepalive(r.stream, r.out)
		r.shown = instant.Now()
	default:
		r.failed(err)
	}
	r.now = instant.Now()
}

// patience returns when a silent stream gets a keep-alive.
func (r *relay) patience() instant.Time {
	if r.silence > 0 {
		return r.shown.After(r.silence)
	}
	return 0
}

func (r *relay) pull(until instant.Time) {
	out, done, err := r.call.attempt.Pull(*r.out, until, r.stream)
	*r.out, r.pulled = out, pulled{true, done, err}
}

// noteEvents records the events that have arrived, and reports whether they arrived at the time
// now.
func (r *relay) noteEvents() bool {
	c := r.call
	events, at := c.attempt.Reply.Arrived()
	c.meter.Note(events, at)
	c.tries.turn.Answered(events)
	if at <= r.now {
		return false
	}
	r.now = at
	return true
}

// fillWaiting is fill for a stream that waits for a slot.
func fillWaiting(r *relay) {
	c, first := r.call, r.call.tries.upstream == nil
	r.recycleOut()
	result, f := c.firstAttempt(time.Now())
	r.out = newOut()
	if r.continueAfter(result, f); first && c.tries.upstream != nil {
		c.meter = c.shared.Calls.Meter(c.record.Dialect, c.record.Model, c.record.Upstream)
	}
}

// showsPart reports whether the client has received part of the current engine's answer. If the
// current engine continues another engine's answer, showsPart returns false until the current
// engine has sent something.
func (c *Call) showsPart() bool {
	return c.showsAnswer() && !c.tries.recording.Continuing()
}

func (c *Call) showsAnswer() bool {
	return c.relay != nil && c.relay.form == formStream && c.relay.stream.Started()
}

// failed handles the failure of an attempt. Either another engine gives or continues the answer, or
// the answer ends. If the client has received only keep-alives, the call may be retried as if the
// headers had not been sent.
func (r *relay) failed(err error) {
	c := r.call
	f := c.attempt.FailureOf(err)
	if !c.body.Held() {
		r.broken(f)
		return
	}
	r.continueAfter(c.nextAttempt(f))
}

// continueAfter continues the answer after the call was sent again, or ends it.
func (r *relay) continueAfter(result sendResult, f *failure.Failure) {
	c := r.call
	if result == waiting {
		c.keepalive(r.stream, r.out)
		r.shown = instant.Now()
		return
	}
	c.setPhase(&phaseStreaming) // the call may have been waiting for a slot
	if result == complete {
		var err error
		if *r.out, err = c.tries.recording.FinishFull(*r.out); err == nil {
			r.done = true
			c.failAttempt(f, time.Now())
			return
		}
	}
	if result != sent {
		r.broken(f)
		return
	}
	if r.form == formStream {
		c.shared.Calls.Move(&c.meter, c.record.Model, c.record.Upstream)
	}
	if r.form == formStream && r.stream.Started() {
		return
	}
	c.record.TTFT = 0 // the client has received nothing of the new answer yet
	if r.form == formStream {
		r.stream.NextEngine()
	}
}

// broken ends the answer with an error in the stream. If the client has disconnected, it sends no
// error.
func (r *relay) broken(f *failure.Failure) {
	c := r.call
	r.noteUsage()
	c.fail(f)
	if f.Result == observe.UpstreamFail || f.Result == observe.Limited || f.Result == observe.NoRoute {
		c.record.Outcome = observe.StreamBroken
	}
	c.warnUpstreamFailed(f)
	c.failAttempt(f, time.Now())
	switch e := c.ep.Dialect.ErrorOf(f.API); {
	case r.form == formPassedOn, r.form == formStream && !r.stream.InBand():
		r.cut = true
	case f.Result == observe.ClientGone: // the client may have closed only its sending side
		r.cut = true
	case r.form == formWhitespace:
		*r.out = c.ep.Dialect.AppendError(*r.out, e, string(c.client.requestID))
	default:
		*r.out = r.stream.Fail(*r.out, e)
	}
	r.done = true
}

// noteUsage records the token usage that the answer contains. If the answer is not streamed,
// Call.translateWhole has already recorded it.
func (r *relay) noteUsage() {
	switch r.form {
	case formPassedOn:
		r.call.noteUsage(r.passOn.Usage(), translate.Markup(0))
	case formStream:
		r.call.noteUsage(r.stream.Usage(), r.stream.Markup())
	case formWhitespace, formWhole:
	}
}

// complete ends the attempt. From then on, a slow client does not occupy the engine.
func (r *relay) complete() {
	c := r.call
	if c.record.Outcome != "" {
		return // the answer has already failed
	}
	r.noteUsage()
	c.record.Outcome = observe.OK
	c.abort.Answered()
	if c.body.Held() {
		c.clearPoison()
	}
	if u := &c.tokens.usage; u.Resumed == 0 {
		c.noteCounted()
		c.attempt.Answered(u.Completion)
	}
	if c.attempt.Reply.Progress().Ended {
		c.endAttempt(upstreams.OutcomeOK)
	}
}

func (r *relay) clientLost(err error) {
	c := r.call
	r.noteUsage()
	c.record.Phase = observe.PhaseStreaming
	if errors.Is(err, os.ErrDeadlineExceeded) && c.abort.Cause() == nil {
		c.record.Phase = observe.PhaseStalled
	}
	c.fail(failure.FromAbort(failure.ErrClientGone))
	c.endAttempt(upstreams.OutcomeClientGone)
}

// Close finishes the call.
func (r *relay) Close() error {
	c := r.call
	if c == nil {
		return nil
	}
	r.call = nil
	defer c.shared.Guard.Catch(guard.Stream, nil)
	defer c.finish()
	c.shared.Guard.Point("relay.close")
	if c.record.Outcome == "" { // the headers could not be written
		c.fail(failure.FromAbort(failure.ErrClientGone))
	}
	r.recycleOut()
	c.tries.recording.Release()
	return nil
}

func (r *relay) recycleOut() {
	if r.out != nil {
		attempt.Recycle(r.out)
		if r.call != nil { // call is nil if the call has already been finished
			r.call.memory.Free(attempt.PartOut)
		}
	}
	r.out = nil
}

// keepalive appends a keep-alive. In a Responses stream, the first keep-alive announces the answer
// and repeats much of the request, so it may be large.
func (c *Call) keepalive(stream endpoint.Stream, out *[]byte) {
	*out = stream.Keepalive(*out)
	_ = c.memory.HoldOut(cap(*out)) // the buffer is already allocated
}

func (c *Call) noteFirst(p *attempt.Progress, now time.Time) {
	if c.record.TTFT == 0 && p.Begun {
		c.record.TTFT = now.Sub(c.record.Start)
		c.record.UpstreamTTFT = now.Sub(p.SentAt().Std())
		c.public.firstAt.Store(now.UnixNano())
		c.attempt.FirstToken(c.record.UpstreamTTFT)
	}
}

// commitStream commits a stream that starts with the bytes in out. After that, every failure is
// reported in the stream. Another engine may still answer unless the stream already contains part
// of the answer.
func commitStream(c *Call, stream endpoint.Stream, out *[]byte, done bool) {
	now := time.Now()
	progress := c.attempt.Reply.Progress()
	c.noteFirst(&progress, now)
	c.setPhase(&phaseStreaming)
	c.noteOverhead(now)
	if stream.InBand() && c.tries.wait == nil {
		c.meter = c.shared.Calls.Meter(c.record.Dialect, c.record.Model, c.record.Upstream)
		c.meter.Note(progress.Events, instant.Of(now))
	}
	if c.ep.Form || stream.Started() && !c.resumable() {
		c.releaseRequest()
	} else {
		c.trace.keep(&c.client)
	}
	r := relay{call: c, stream: stream, out: out, now: instant.Of(now), shown: instant.Of(now), done: done}
	if stream.InBand() {
		r.silence = c.config.snapshot.Config.Stream.Keepalive.D()
	}
	commit(r, stream.MediaType())
}

// The header X-Accel-Buffering makes nginx relay a stream without buffering. Its name is in
// fasthttp's canonical form.
var headerAccelBuffering, noBuffering = []byte("X-Accel-Buffering"), []byte("no")

// commit passes an answer that is still incomplete to fasthttp. fasthttp cannot write a stream over
// HTTP/1.0, so that is hijacked.
func commit(r relay, mediaType string) {
	c := r.call
	c.writeHead(mediaType)
	response := &c.client.ctx.Response
	response.Header.SetCanonical(headerAccelBuffering, noBuffering)
	if !c.client.http11 {
		hijackHTTP10(r)
	} else if t := detached(r); t != nil {
		c.relay = &t.relay
		response.SetBodyStream(t, -1)
	} else {
		own := r // keeps r off the heap
		c.relay = &own
		response.SetBodyStream(&own, -1)
	}
}
