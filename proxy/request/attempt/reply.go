package attempt

import (
	"cmp"
	"errors"
	"io"
	"sync"
	"time"

	"penstock/config/instant"
	"penstock/proxy/request/endpoint"
	"penstock/translate/chat/answer"
	"penstock/translate/engineerror"
	"penstock/translate/sse"
	"penstock/upstreams/http1"
)

const (
	maxEventBytes        = 8 << 20 // maximum size of one event; events from engines are smaller
	maxErrorBody         = 8 << 20
	errorBodyReadTimeout = 5 * time.Second
	// drainTimeout is short because only a chunk of five bytes follows [DONE], and nearly always it
	// has already arrived.
	drainTimeout = 20 * time.Millisecond
)

var (
	eventReaderPool = sync.Pool{New: func() any { return sse.NewReader(nil, maxEventBytes) }}
	assemblerPool   = sync.Pool{New: func() any { return new(answer.Assembler) }}
)

// Reply reads an engine's response and enforces its time limits.
type Reply struct {
	x        *http1.Exchange
	memory   *ReplyMemory
	timeouts responseTimeouts
	form     endpoint.ReplyForm
	hasEnded bool

	stepper     http1.Stepper // set only during WaitForBytes
	eventReader *sse.Reader
	sniffed     *sniffedResponse // nil unless the Content-Type does not match the requested stream
	full        fullResponse

	eventCount int
	pendingErr error // error for the next pull, after all delivered events
}

// awaitHead waits for the response headers. It returns http1.ErrNoBytesYet if they have not arrived
// by the given time.
func (r *Reply) awaitHead(until instant.Time) error {
	for {
		err := r.x.Await(instant.Earlier(until, r.timeouts.nextWakeup()).StdTime())
		now := instant.Now()
		switch {
		case err == nil:
			r.timeouts.readAt = now
			r.timeouts.stopCountingAsWaiting()
			return nil
		case !errors.Is(err, http1.ErrNoBytesYet):
			return err
		}
		if err := r.timeouts.checkTimeouts(now); err != nil || until.HasPassed() {
			return cmp.Or(err, http1.ErrNoBytesYet)
		}
	}
}

// Read implements io.Reader for the event reader. It blocks until timeouts.readDeadline, or until
// checkTimeouts returns an error.
func (r *Reply) Read(p []byte) (int, error) {
	for {
		stop := instant.Earlier(r.timeouts.readDeadline, r.timeouts.nextWakeup())
		n, err := r.x.Read(p, stop.StdTime())
		if n > 0 && r.x.IsReadFresh() { // bytes that arrived with the headers are not new
			r.markBytesRead()
		}
		if err == nil || isEOF(err) || !errors.Is(err, http1.ErrNoBytesYet) {
			return n, err
		}
		if bad := r.timeouts.checkTimeouts(instant.Now()); bad != nil {
			return n, bad
		}
		if r.timeouts.readDeadline.HasPassed() || r.timeouts.completeAt != 0 {
			return n, err
		}
	}
}

// LendBytes implements sse.Source.
func (r *Reply) LendBytes() []byte {
	p := r.x.TakeBuffered()
	if len(p) > 0 && r.x.IsReadFresh() {
		r.markBytesRead()
	}
	return p
}

// SpareBuffer returns a buffer that the Stepper of WaitForBytes may use until Step returns; see
// http1.Exchange.SpareBuffer.
func (r *Reply) SpareBuffer() []byte { return r.x.SpareBuffer() }

func (r *Reply) markBytesRead() {
	r.timeouts.readAt = instant.Now()
	r.timeouts.stopCountingAsWaiting()
}

// ReserveBuffer implements sse.Source.
func (r *Reply) ReserveBuffer(n int) error { return r.memory.replaceBuffer(EventReaderMemory, n) }

// WouldBlock reports whether PullStream would block.
func (r *Reply) WouldBlock() bool {
	return r.timeouts.headArrived && r.eventReader != nil && r.pendingErr == nil && !r.eventReader.HasEvent() && (r.sniffed == nil || len(r.sniffed.peekedBytes) == 0)
}

// WaitForBytes waits until bytes for PullStream arrive, the given time passes, or a failure occurs.
// PullStream returns the failure. The caller may call WaitForBytes only if WouldBlock is true.
// While it waits, the attempt uses no buffer, and the caller must not use one either. If s is not
// nil, WaitForBytes calls s.Step when bytes arrive, and continues to wait if Step returns true; see
// http1.Exchange.StayInPoller.
func (r *Reply) WaitForBytes(until instant.Time, s http1.Stepper) {
	r.pendingErr = r.eventReader.PrepareForWait()
	for r.pendingErr == nil {
		look := r.timeouts.nextCheckAt()
		wake := instant.Earlier(until, r.timeouts.nextWakeup()).StdTime()
		var done bool
		if s == nil {
			done = r.x.WaitReadable(wake)
		} else {
			r.stepper = s
			done = r.x.StayInPoller(wake, (*replyStepper)(r))
			r.stepper = nil
		}
		if done || !look.HasPassed() || until.HasPassed() {
			return
		}
		r.pendingErr = r.timeouts.checkTimeouts(instant.Now())
	}
}

// replyStepper is the http1.Stepper of a Reply.
type replyStepper Reply

// Step implements http1.Stepper.
func (s *replyStepper) Step() bool { return s.stepper.Step() && (*Reply)(s).prepareNextWait() }

// prepareNextWait prepares the reply to wait for more bytes in the poller. It returns false if the
// call must leave the poller:
//
//   - an event is ready, or an error was deferred until the events before it were delivered;
//   - all choices have finished, so the engine has less time to send more;
//   - no memory is left for an incomplete event.
func (r *Reply) prepareNextWait() bool {
	if r.pendingErr != nil || r.timeouts.completeAt != 0 || r.eventReader.HasEvent() {
		return false
	}
	r.pendingErr = r.eventReader.PrepareForWait()
	return r.pendingErr == nil
}

// Progress describes how much of a reply has arrived.
type Progress struct {
	Begun  bool
	Ended  bool
	Events int

	sentAt, readAt instant.Time
}

// SentAt returns the time at which the request was written.
func (p Progress) SentAt() instant.Time { return p.sentAt }

// ReadAt returns the time at which bytes last arrived.
func (p Progress) ReadAt() instant.Time { return p.readAt }

// Progress returns how much of the reply has arrived.
func (r *Reply) Progress() Progress {
	c := &r.timeouts
	return Progress{Begun: c.answerBegun, Ended: r.hasEnded, Events: r.eventCount, sentAt: c.sentAt, readAt: c.readAt}
}

// RecordClientBlocked records that the client blocked the relay of an answer from since to now. The
// engine could not send during this time, so the time does not count against the engine's time
// limits.
func (r *Reply) RecordClientBlocked(since, now time.Time) {
	r.timeouts.clientBlocked += now.Sub(since)
	r.timeouts.readAt = instant.FromTime(now)
	r.timeouts.stopCountingAsWaiting()
}

// ArrivedEvents returns the number of events that have arrived, and when bytes last arrived.
func (r *Reply) ArrivedEvents() (events int, at instant.Time) { return r.eventCount, r.timeouts.readAt }

// HasHead reports whether the headers of a usable response have arrived. From then on, the exchange
// does not send its request again.
func (r *Reply) HasHead() bool { return r.timeouts.headArrived }

// Head returns the response headers, which must have arrived.
func (r *Reply) Head() endpoint.ReplyHead { return r.x }

// IsBodyUnread reports whether ReadFullResponse has not been called yet.
func (r *Reply) IsBodyUnread() bool { return r.full.body == nil }

// readErrorBody reads the body of an engine's error. It reads at most maxErrorBody bytes, and waits
// for at most errorBodyReadTimeout. If the error quotes the request, readErrorBody shortens the quote.
func readErrorBody(x *http1.Exchange, memory *ReplyMemory) []byte {
	until := time.Now().Add(errorBodyReadTimeout)
	defer memory.FreePart(ResponseBodyMemory)
	in := NewBuffer()
	defer RecycleBuffer(in)
	piece := (*in)[:cap(*in)]
	var short engineerror.StringShortener
	body := make([]byte, 0, 1<<10)
	for read := 0; read < maxErrorBody && len(body) < engineerror.MaxBodyBytes; {
		n, err := x.Read(piece, until)
		for len(body)+n > cap(body) && err == nil {
			body, err = memory.grow(body, engineerror.MaxBodyBytes+len(piece))
		}
		if err != nil { // if no memory is left, the error message is truncated
			break
		}
		body = short.Append(body, piece[:n])
		read += n
	}
	return body[:min(len(body), engineerror.MaxBodyBytes)]
}

// DrainForReuse reads the remaining framing of a complete response, so that the connection can be
// reused. It waits for at most drainTimeout.
func (r *Reply) DrainForReuse() {
	if r.hasEnded || r.x == nil {
		return
	}
	if _, err := r.x.Read(nil, time.Time{}); err != nil { // usually, the end has arrived
		return
	}
	until := time.Now().Add(drainTimeout)
	var scrap [512]byte
	for range 8 {
		if _, err := r.x.Read(scrap[:], until); err != nil {
			return
		}
	}
}

func (r *Reply) release() {
	r.timeouts.stopCountingAsWaiting()
	if r.eventReader != nil {
		r.eventReader.Reset(nil, maxEventBytes)
		eventReaderPool.Put(r.eventReader)
		r.eventReader = nil
	}
	r.full.release()
	if r.sniffed != nil {
		r.sniffed.full.release()
	}
	r.memory.freeParts(ClientOutputMemory) // the client may not have received its bytes yet
}

// isEOF reports whether err is the framed end of a response. A wrapped io.EOF is different: it is
// the cause of a failure.
func isEOF(err error) bool { return err == io.EOF } //nolint:errorlint // see above
