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
	call *Call
	// chunkPrefixLen bytes followed by bytes for the client; nil while the relay waits.
	out            *[]byte
	readAt         instant.Time // when the bytes in out were read
	form           answerKind
	isDone         bool
	leavesFasthttp bool // whether writeBody returns errLeftFasthttp after it has written the first bytes
	brokenOff      bool // whether the answer is incomplete and its format cannot contain errors
	freedRequest   bool // whether the stream has released the request
	wait           engineWaitState

	streamCodec    endpoint.Stream            // used by answerKindStream
	stepper        http1.Stepper              // relays in the poller; nil if the stream does not stay there
	pulled         pullResult                 // what stepper pulled; processed by fillStream
	keepaliveAfter time.Duration              // silence before each keep-alive; 0 means no keep-alives
	lastSentAt     instant.Time               // when the client last received bytes
	passthrough    *endpoint.ReplyPassthrough // used by answerKindPassthrough
	unaryCodec     endpoint.UnaryAnswer       // used by answerKindWhitespace
}

// engineWaitState says whether a stream waits for its engine.
type engineWaitState uint8

const (
	engineWaitNone engineWaitState = iota
	engineWaitDue                  // fillStream needs bytes, so waitForEngine must be called
	engineWaitDone                 // waitForEngine has returned
)

// pullResult is the result of a pull. Its bytes are in relay.out.
type pullResult struct {
	pending bool
	done    bool
	err     error
}

// expiredDeadline is a deadline that has already passed, so a pull with this deadline does not
// wait.
const expiredDeadline instant.Time = 1

// answerKind is the kind of answer that a relay writes.
type answerKind uint8

const (
	answerKindStream      answerKind = iota
	answerKindPassthrough            // a large answer that is relayed while it arrives
	answerKindWhitespace             // white space until the complete answer has arrived
	answerKindComplete               // a complete answer
)

// chunkWriter writes a relay's bytes to the client. writeChunk skips the first chunkPrefixLen bytes
// of out and sends the remaining bytes. last marks the end of the stream, including the end after
// an error event. writeChunk returns how many bytes it accepted, and may change the buffer.
type chunkWriter interface {
	writeChunk(out *[]byte, last bool) (int, error)
}

// fasthttpWriter is the chunkWriter of a stream that fasthttp frames.
type fasthttpWriter struct{ w io.Writer }

func (b fasthttpWriter) writeChunk(out *[]byte, _ bool) (int, error) {
	if len(*out) == chunkPrefixLen {
		return 0, nil
	}
	return b.w.Write((*out)[chunkPrefixLen:]) // writes one chunk and flushes it
}

func newOutBuffer() *[]byte {
	out := attempt.NewBuffer()
	*out = (*out)[:chunkPrefixLen]
	return out
}

// Read implements io.Reader. fasthttp does not call it, because it prefers WriteTo.
func (r *relay) Read([]byte) (int, error) { return 0, io.EOF }

func (r *relay) SupportsBodyWriteTo() bool { return true }

func (r *relay) WriteTo(w io.Writer) (int64, error) { return r.writeBody(fasthttpWriter{w}) }

func (r *relay) writeBody(to chunkWriter) (n int64, err error) {
	c := r.call
	defer c.services.Guard.Catch(guard.PlaceStream, func() {
		recordCallFailure(&c.record, failure.Internal(failure.ErrPanicked))
		err = failure.ErrPanicked // closes the connection, which marks the answer as incomplete
	})
	c.services.Guard.PanicIfInjected("relay.run")
	if len(c.participants) > 0 {
		to = participantsWriter{to, c.participants}
	}
	for {
		if r.isDone {
			r.endAnsweredAttempt()
		}
		c.client.setWriteTimeout(c.config.writeTimeout())
		m, werr := r.writeOut(to)
		n += int64(m)
		c.record.BytesOut += int64(m)
		if werr != nil {
			r.endClientLost(werr)
			return n, werr
		}
		if m > 0 {
			r.lastSentAt = r.readAt
		}
		*r.out = (*r.out)[:chunkPrefixLen]
		if r.leavesFasthttp && m > 0 {
			r.leavesFasthttp = false
			return n, errLeftFasthttp
		}
		if r.isDone {
			if c.attempt.Lease() != nil {
				c.attempt.Reply.DrainForReuse()
				c.endAttempt(upstreams.OutcomeOK)
			}
			return n, nil
		}
		if r.fillOut(); r.brokenOff {
			return n, errAnswerBrokenOff
		}
		if r.wait == engineWaitDue {
			if r.stepper != nil {
				return n, errMustWaitForEngine
			}
			r.waitForEngine()
		}
	}
}

// errMustWaitForEngine is returned by writeBody if the relay has a stepper and must wait for its
// engine. The caller calls waitForEngine and then writeBody again. The wait then needs so little of
// the stack that the garbage collector can shrink the stack to 4 KiB.
var errMustWaitForEngine = errors.New("the stream must wait for its engine")

// waitForEngine waits until the engine sends bytes, or a keep-alive is due.
func (r *relay) waitForEngine() {
	r.recycleOutBuffer()
	r.call.attempt.Reply.WaitForBytes(r.nextKeepaliveAt(), r.stepper)
	r.wait = engineWaitDone
	if r.out == nil {
		r.out = newOutBuffer()
	}
}

// writeOut sends the bytes in out. For a answerKindPassthrough answer, a slow client also blocks
// the engine.
func (r *relay) writeOut(to chunkWriter) (int, error) {
	if r.form != answerKindPassthrough {
		return to.writeChunk(r.out, r.isDone)
	}
	start := time.Now()
	n, err := to.writeChunk(r.out, r.isDone)
	r.call.attempt.Reply.RecordClientBlocked(start, time.Now())
	return n, err
}

// errAnswerBrokenOff makes fasthttp close the connection without sending the last chunk, so the
// client can detect that the body is incomplete.
var errAnswerBrokenOff = errors.New("the answer broke off")

// fillOut produces the next bytes for the client. They are part of the engine's answer, a
// keep-alive if the engine is silent, or an error.
func (r *relay) fillOut() {
	switch r.form {
	case answerKindWhitespace:
		r.fillWhitespace()
	case answerKindPassthrough:
		r.fillPassthrough()
	case answerKindStream:
		r.fillStream()
		return
	case answerKindComplete: // writeBody has nothing left to read
	}
	r.readAt = instant.Now()
}

func (r *relay) fillStream() {
	c := r.call
	switch {
	case r.wait == engineWaitDone:
		r.wait = engineWaitNone
	case c.slots.slotWait != nil:
		fillWhileQueued(r)
		r.readAt = instant.Now()
		return
	case c.leaveDrainedEngine():
		r.handleFailure(failure.EngineDraining())
		r.readAt = instant.Now()
		return
	case c.attempt.Reply.WouldBlock():
		r.wait = engineWaitDue
		return
	}
	if !r.pulled.pending {
		r.readEngine(r.nextKeepaliveAt())
	}
	done, err := r.pulled.done, r.pulled.err
	r.pulled = pullResult{}
	r.isDone = done && err == nil // another engine may still continue the stream after a failure
	progress := c.attempt.Reply.Progress()
	if c.record.TTFT == 0 {
		c.recordFirstToken(&progress, progress.ReadAt().StdTime())
	}
	if !r.freedRequest && c.canFreeRequest(r.streamCodec) {
		c.clearPoison()
		c.releaseRequest()
		c.attemptState.recording.Release()
		r.freedRequest = true
	}
	switch {
	case err == nil:
		if r.recordEvents() {
			return
		}
	case errors.Is(err, http1.ErrNoBytesYet):
		appendKeepalive(r.streamCodec, r.out, &c.memory)
		r.lastSentAt = instant.Now()
	default:
		r.handleFailure(err)
	}
	r.readAt = instant.Now()
}

// nextKeepaliveAt returns the time at which the client must get a keep-alive if the stream stays
// silent.
func (r *relay) nextKeepaliveAt() instant.Time {
	if r.keepaliveAfter > 0 {
		return r.lastSentAt.Add(r.keepaliveAfter)
	}
	return 0
}

func (r *relay) readEngine(until instant.Time) {
	out, done, err := r.call.attempt.PullStream(*r.out, until, r.streamCodec)
	*r.out, r.pulled = out, pullResult{true, done, err}
}

// recordEvents records the events that have arrived. If bytes have arrived since readAt, it sets
// readAt to their arrival time and returns true.
func (r *relay) recordEvents() bool {
	c := r.call
	events, at := c.attempt.Reply.ArrivedEvents()
	c.meter.RecordEvents(events, at)
	c.attemptState.turn.ChargeAnswered(events)
	if at <= r.readAt {
		return false
	}
	r.readAt = at
	return true
}

// fillWhileQueued is fillOut for a stream that is waiting for a slot.
func fillWhileQueued(r *relay) {
	c := r.call
	r.recycleOutBuffer()
	result, f := c.sendFirstAttempt(time.Now())
	r.out = newOutBuffer()
	if r.continueAfterRetry(result, f); result == sendResultSent && !c.meter.IsStarted() {
		c.meter = c.services.Calls.NewMeter(c.record.Dialect, c.record.Model, c.record.Upstream)
	}
}

// clientHasPartialAnswer reports whether the client has received part of the current engine's
// answer. If the current engine continues another engine's answer, clientHasPartialAnswer returns
// false until the current engine has sent something.
func (c *Call) clientHasPartialAnswer() bool {
	return c.clientHasAnswer() && !c.attemptState.recording.IsNextEngineSilent()
}

func (c *Call) clientHasAnswer() bool {
	return c.relay != nil && c.relay.form == answerKindStream && c.relay.streamCodec.HasStarted()
}

// handleFailure handles the failure of an attempt. Either another engine starts or continues the
// answer, or the answer ends. If the client has received only keep-alives, the call may be retried
// as if the headers had not been sent.
func (r *relay) handleFailure(err error) {
	c := r.call
	f := c.attempt.ClassifyError(err)
	if !c.body.HasBytes() {
		r.endWithError(f)
		return
	}
	r.continueAfterRetry(c.retryAfterFailure(f))
}

// continueAfterRetry continues the answer if the call was sent again, or ends the answer.
func (r *relay) continueAfterRetry(result sendResult, f *failure.Failure) {
	c := r.call
	if result == sendResultQueued {
		appendKeepalive(r.streamCodec, r.out, &c.memory)
		r.lastSentAt = instant.Now()
		return
	}
	c.setPhase(&phaseStreaming) // the call may have been waiting for a slot
	if result == sendResultComplete {
		var err error
		if *r.out, err = c.attemptState.recording.FinishAtTokenLimit(*r.out); err == nil {
			r.isDone = true
			c.endAndBlameAttempt(f, time.Now())
			return
		}
	}
	if result != sendResultSent {
		r.endWithError(f)
		return
	}
	if r.form == answerKindStream {
		c.services.Calls.SwitchMeterUpstream(&c.meter, c.record.Model, c.record.Upstream)
	}
	if r.form == answerKindStream && r.streamCodec.HasStarted() {
		return
	}
	c.record.TTFT = 0 // the client has received no part of the new answer yet
	if r.form == answerKindStream {
		r.streamCodec.PrepareForNextEngine()
	}
}

// endWithError ends the answer with an error in the stream. If the client has disconnected,
// endWithError sends no error.
func (r *relay) endWithError(f *failure.Failure) {
	c := r.call
	r.recordUsage()
	recordBrokenAnswer(&c.record, f)
	logUpstreamFailure(c.services.Log, c.requestID(), &c.record, f)
	c.endAndBlameAttempt(f, time.Now())
	switch e := c.ep.Dialect.ConvertError(f.API); {
	case r.form == answerKindPassthrough, r.form == answerKindStream && !r.streamCodec.HasInBandErrors():
		r.brokenOff = true
	case f.Result == observe.OutcomeClientGone: // the client may have closed only its sending side
		r.brokenOff = true
	case r.form == answerKindWhitespace:
		*r.out = c.ep.Dialect.AppendError(*r.out, e, string(c.requestID()))
	default:
		*r.out = r.streamCodec.AppendFailure(*r.out, e)
	}
	r.isDone = true
}

// recordUsage records the token usage that the answer contains. If the answer is not streamed,
// Call.translateUnary has already recorded it.
func (r *relay) recordUsage() {
	switch r.form {
	case answerKindPassthrough:
		r.call.recordUsage(r.passthrough.Usage(), translate.Markup(0))
	case answerKindStream:
		if u := r.streamCodec.Usage(); r.isDone || !u.Estimated || u.Completion > 0 { // otherwise, no engine has answered
			r.call.recordUsage(u, r.streamCodec.UnparsedMarkup())
		}
	case answerKindWhitespace, answerKindComplete:
	}
}

// endAnsweredAttempt ends the attempt. After that, a slow client does not occupy the engine.
func (r *relay) endAnsweredAttempt() {
	c := r.call
	if c.record.Outcome != "" {
		return // the answer has already failed
	}
	r.recordUsage()
	c.record.Outcome = observe.OutcomeOK
	c.abort.DetachShadow()
	if c.body.HasBytes() {
		c.clearPoison()
	}
	if u := &c.tokens.usage; u.Resumed == 0 {
		c.recordEnginePromptTokens()
		c.attempt.RecordAnswerTokens(u.Completion)
	}
	if c.attempt.Reply.Progress().Ended {
		c.endAttempt(upstreams.OutcomeOK)
	}
}

func (r *relay) endClientLost(err error) {
	c := r.call
	r.recordUsage()
	c.record.Phase = observe.PhaseStreaming
	if errors.Is(err, os.ErrDeadlineExceeded) && c.abort.Cause() == nil {
		c.record.Phase = observe.PhaseStalled
	}
	recordCallFailure(&c.record, failure.FromAbort(failure.ErrClientGone))
	c.endAttempt(upstreams.OutcomeClientGone)
}

// Close finishes the call.
func (r *relay) Close() error {
	c := r.call
	if c == nil {
		return nil
	}
	r.call = nil
	defer c.services.Guard.Catch(guard.PlaceStream, nil)
	defer c.finish()
	c.services.Guard.PanicIfInjected("relay.close")
	if c.record.Outcome == "" { // the headers could not be written
		recordCallFailure(&c.record, failure.FromAbort(failure.ErrClientGone))
	}
	r.recycleOutBuffer()
	c.attemptState.recording.Release()
	return nil
}

func (r *relay) recycleOutBuffer() {
	if r.out != nil {
		attempt.RecycleBuffer(r.out)
		if r.call != nil { // call is nil if the call has already been finished
			r.call.memory.FreePart(attempt.ClientOutputMemory)
		}
	}
	r.out = nil
}

// appendKeepalive appends a keep-alive. In a Responses stream, the first keep-alive announces the
// answer and repeats much of the request, so the keep-alive may be large.
func appendKeepalive(stream endpoint.Stream, out *[]byte, memory *attempt.ReplyMemory) {
	*out = stream.AppendKeepalive(*out)
	_ = memory.SetOutSize(cap(*out)) // the buffer is already allocated
}

// currentAttemptProgress returns how much of the current attempt's reply has arrived. It returns
// the zero value if no attempt is open, because an attempt that has ended no longer counts.
func (c *Call) currentAttemptProgress() attempt.Progress {
	if c.attempt.Lease() == nil {
		return attempt.Progress{}
	}
	return c.attempt.Reply.Progress()
}

func (c *Call) recordFirstToken(p *attempt.Progress, now time.Time) {
	if c.record.TTFT == 0 && p.Begun {
		c.record.TTFT = now.Sub(c.record.Start)
		c.record.UpstreamTTFT = now.Sub(p.SentAt().StdTime())
		c.callStatus.firstAt.Store(now.UnixNano())
		c.attempt.RecordFirstToken(c.record.UpstreamTTFT)
	}
}

// canFreeRequest reports whether a committed stream no longer needs the client's request. Until the
// engine's headers have arrived, the exchange may still send the request again on a new connection.
// After that, only another engine may still need it. A form is not sent to another engine after the
// commit.
func (c *Call) canFreeRequest(stream endpoint.Stream) bool {
	return c.attempt.Reply.HasHead() && (c.ep.Form || stream.HasStarted() && !c.isResumable())
}

// commitStream commits a stream that starts with the bytes in out. After that, every failure is
// reported in the stream. Another engine may still answer unless the stream already contains part
// of the answer.
func commitStream(c *Call, stream endpoint.Stream, out *[]byte, done bool) {
	now := time.Now()
	progress := c.currentAttemptProgress()
	c.recordFirstToken(&progress, now)
	c.setPhase(&phaseStreaming)
	c.recordOverhead(now)
	if stream.HasInBandErrors() && c.slots.slotWait == nil {
		c.meter = c.services.Calls.NewMeter(c.record.Dialect, c.record.Model, c.record.Upstream)
		c.meter.RecordEvents(progress.Events, instant.FromTime(now))
	}
	free := c.canFreeRequest(stream)
	if free {
		c.releaseRequest()
	} else {
		c.trace.saveClientContext(&c.client)
	}
	r := relay{
		call: c, streamCodec: stream, out: out, readAt: instant.FromTime(now), lastSentAt: instant.FromTime(now), isDone: done,
		freedRequest: free,
	}
	if stream.HasInBandErrors() {
		r.keepaliveAfter = c.config.snapshot.Config.Stream.Keepalive.D()
	}
	commitRelay(r, stream.MediaType())
}

// The header X-Accel-Buffering makes nginx relay a stream without buffering. Its name is in
// fasthttp's canonical form.
var headerAccelBuffering, accelBufferingOff = []byte("X-Accel-Buffering"), []byte("no")

// commitRelay passes an answer that is still incomplete to fasthttp. If the client uses HTTP/1.0,
// the edge hijacks the connection, because fasthttp cannot write such a stream.
func commitRelay(r relay, mediaType string) {
	c := r.call
	c.commitHeaders(mediaType)
	response := &c.client.ctx.Response
	response.Header.SetCanonical(headerAccelBuffering, accelBufferingOff)
	if !c.client.isHTTP11 {
		hijackHTTP10(r)
	} else if t := newDetachedStream(r); t != nil {
		c.relay = &t.relay
		response.SetBodyStream(t, -1)
	} else {
		own := r // keeps r off the heap
		c.relay = &own
		response.SetBodyStream(&own, -1)
	}
}
