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
	maxEvent      = 8 << 20 // maximum size of one event; events from engines are smaller
	maxErrorBody  = 8 << 20
	errorPatience = 5 * time.Second
	// drainPatience is short because only a chunk of five bytes follows [DONE], and nearly always
	// it has already arrived.
	drainPatience = 20 * time.Millisecond
)

var (
	readerPool    = sync.Pool{New: func() any { return sse.NewReader(nil, maxEvent) }}
	assemblerPool = sync.Pool{New: func() any { return new(answer.Assembler) }}
)

// Reply reads an engine's response and enforces the time limits of clock.
type Reply struct {
	x      *http1.Exchange
	memory *Memory
	clock  clock
	form   endpoint.ReplyForm

	events   *sse.Reader
	first    []byte // bytes that readAhead returns before it reads from the Reply
	document document
	whole    whole

	count int
	ended bool
	bad   error // error after the last delivered event; the next pull returns it
}

// await waits for the response headers. When the given time passes, it returns http1.ErrNotYet.
func (r *Reply) await(until instant.Time) error {
	for {
		err := r.x.Await(instant.Earlier(until, r.clock.next()).Std())
		now := instant.Now()
		switch {
		case err == nil:
			r.clock.readAt = now
			r.clock.heard()
			return nil
		case !errors.Is(err, http1.ErrNotYet):
			return err
		}
		if err := r.clock.judge(now); err != nil || until.Passed() {
			return cmp.Or(err, http1.ErrNotYet)
		}
	}
}

// Read implements io.Reader for the event reader. It blocks until clock.until, or until judge
// returns an error.
func (r *Reply) Read(p []byte) (int, error) {
	for {
		stop := instant.Earlier(r.clock.until, r.clock.next())
		n, err := r.x.Read(p, stop.Std())
		if n > 0 && r.x.Fresh() { // bytes that arrived with the headers are not new
			r.heard()
		}
		if err == nil || isEnd(err) || !errors.Is(err, http1.ErrNotYet) {
			return n, err
		}
		if bad := r.clock.judge(instant.Now()); bad != nil {
			return n, bad
		}
		if r.clock.until.Passed() || r.clock.completeAt != 0 {
			return n, err
		}
	}
}

// Lend implements sse.Source.
func (r *Reply) Lend() []byte {
	p := r.x.Take()
	if len(p) > 0 && r.x.Fresh() {
		r.heard()
	}
	return p
}

// Room returns a buffer that a step of Rest may use until it returns; see http1.Exchange.Room.
func (r *Reply) Room() []byte { return r.x.Room() }

func (r *Reply) heard() {
	r.clock.readAt = instant.Now()
	r.clock.heard()
}

// Hold implements sse.Source.
func (r *Reply) Hold(n int) error { return r.memory.replace(PartEvent, n) }

// Rests reports whether Pull would block.
func (r *Reply) Rests() bool {
	return r.clock.headed && r.events != nil && r.bad == nil && !r.events.Ready() && len(r.first) == 0
}

// Rest waits until bytes for Pull arrive, the given time passes, or a failure occurs, which Pull
// will return. The caller may call it only if Rests is true. While it waits, the attempt uses no
// buffer, and the caller must not use one either. If step is not nil, Rest calls step when bytes
// arrive, and continues to wait if step returns true; see http1.Exchange.Stay.
func (r *Reply) Rest(until instant.Time, step func() bool) {
	r.bad = r.events.Rest()
	for r.bad == nil {
		look := r.clock.look()
		if r.waits(instant.Earlier(until, r.clock.next()).Std(), step) || !look.Passed() || until.Passed() {
			return
		}
		r.bad = r.clock.judge(instant.Now())
	}
}

func (r *Reply) waits(until time.Time, step func() bool) bool {
	if step == nil {
		return r.x.Wait(until)
	}
	return r.x.Stay(until, func() bool { return step() && r.rested() })
}

// rested prepares the next wait of a stay. It returns false if the stay must end:
//
//   - an event is ready;
//   - all choices have finished, so the engine has less time to send more;
//   - no memory is left for an incomplete event.
func (r *Reply) rested() bool {
	if r.clock.completeAt != 0 || r.events.Ready() {
		return false
	}
	r.bad = r.events.Rest()
	return r.bad == nil
}

// Progress describes how much of a reply has arrived.
type Progress struct {
	Begun  bool
	Ended  bool
	Events int

	sentAt, readAt instant.Time
}

// SentAt returns when the request was written.
func (p Progress) SentAt() instant.Time { return p.sentAt }

// ReadAt returns when bytes last arrived.
func (p Progress) ReadAt() instant.Time { return p.readAt }

// Progress returns how much of the reply has arrived.
func (r *Reply) Progress() Progress {
	c := &r.clock
	return Progress{Begun: c.begun, Ended: r.ended, Events: r.count, sentAt: c.sentAt, readAt: c.readAt}
}

// Blocked records that the client blocked the relay of an answer from since to now. The engine
// could not send during this time, so the time does not count against the engine's limits.
func (r *Reply) Blocked(since, now time.Time) {
	r.clock.blocked += now.Sub(since)
	r.clock.readAt = instant.Of(now)
	r.clock.heard()
}

// Arrived returns the number of events that have arrived, and when the last bytes did.
func (r *Reply) Arrived() (events int, at instant.Time) { return r.count, r.clock.readAt }

// Head returns the response headers, which must have arrived.
func (r *Reply) Head() endpoint.Reply { return r.x }

// IsUnread reports whether ReadWhole has not been called yet.
func (r *Reply) IsUnread() bool { return r.whole.body == nil }

// errorBody reads the body of an engine's error. It reads at most maxErrorBody bytes, and waits for
// at most errorPatience. If the error quotes the request, errorBody shortens the quote.
func errorBody(x *http1.Exchange, memory *Memory) []byte {
	until := time.Now().Add(errorPatience)
	defer memory.Free(PartBody)
	in := NewBuffer()
	defer Recycle(in)
	piece := (*in)[:cap(*in)]
	var short engineerror.Shortener
	body := make([]byte, 0, 1<<10)
	for read := 0; read < maxErrorBody && len(body) < engineerror.MaxBody; {
		n, err := x.Read(piece, until)
		for len(body)+n > cap(body) && err == nil {
			body, err = memory.grow(body, engineerror.MaxBody+len(piece))
		}
		if err != nil { // the error is truncated if no memory is left
			break
		}
		body = short.Append(body, piece[:n])
		read += n
	}
	return body[:min(len(body), engineerror.MaxBody)]
}

// ReadTail reads the remaining framing of a complete response, so that the connection can be
// reused. It waits for at most drainPatience.
func (r *Reply) ReadTail() {
	if r.ended || r.x == nil {
		return
	}
	until := time.Now().Add(drainPatience)
	var scrap [512]byte
	for range 8 {
		if _, err := r.x.Read(scrap[:], until); err != nil {
			return
		}
	}
}

func (r *Reply) release() {
	r.clock.heard()
	if r.events != nil {
		r.events.Reset(nil, maxEvent)
		readerPool.Put(r.events)
		r.events = nil
	}
	r.whole.release()
	r.document.read.release()
	for _, part := range [...]Part{PartBody, PartEvent, PartState} {
		r.memory.Free(part)
	}
}

// isEnd reports whether err is the framed end of a response. A wrapped io.EOF has a different
// meaning: it is the cause of a failure.
func isEnd(err error) bool { return err == io.EOF } //nolint:errorlint // see above
