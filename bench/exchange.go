package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"penstock/translate/sse"
)

// exchange sends one request and reads its answer into s, whose scheduled time is set. It returns the connection's reply for the
// next turn of the session, valid until done is called; done must be called.
func (r *run) exchange(ctx context.Context, q *request, wire []byte, s *sample) (p *reply, done func()) {
	t := r.targets[q.target]
	s.sent = r.clock.now()
	for fresh := false; ; fresh = true {
		c, err := t.open(ctx, fresh)
		if err != nil {
			s.end = r.clock.now()
			s.err = r.kind(ctx, err, ErrConnect)
			return nil, func() {}
		}
		if !c.used {
			s.connect = r.clock.now() - s.sent
		}
		x := &transfer{run: r, c: c, q: q, s: s, bytes: c.bytes, reads: c.reads}
		stale := x.carry(ctx, wire)
		if stale && !fresh {
			c.release(false) // it was closed while idle, which is no fault of the server's
			s.err, s.end = "", none
			continue
		}
		return &c.reply, func() { c.release(s.err == "" && !s.left && c.reusable()) }
	}
}

// transfer is one request on one connection.
type transfer struct {
	run   *run
	c     *conn
	q     *request
	s     *sample
	bytes int64 // that the connection had brought before
	reads int

	lastRead int // the read that brought the last token
	cell     *gapCell
}

// carry sends the request and reads the answer. It reports whether the connection turned out to be stale: reused, and closed before
// it brought a byte.
func (x *transfer) carry(ctx context.Context, wire []byte) (stale bool) {
	c, s := x.c, x.s
	c.reply.reset(x.run.keepText(x.q))
	_ = c.SetDeadline(time.Now().Add(time.Duration(x.run.s.RequestTimeout)))
	nc := c.Conn // the function may still run when c has been released
	undo := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer undo()
	if x.q.leave != nil {
		if after := x.run.leaveAfter(x.q.leave); after > 0 {
			gone := make(chan struct{})
			timer := time.AfterFunc(after, func() {
				_ = c.SetDeadline(time.Unix(1, 0))
				close(gone)
			})
			defer func() {
				if !timer.Stop() {
					<-gone // or it would cut off the next request of this connection
				}
			}()
		}
	}
	c.out = x.run.appendHead(c.out[:0], x.q, len(wire))
	c.out = append(c.out, wire...)
	if _, err := c.Write(c.out); err != nil {
		x.fail(ctx, err, ErrSend)
		return c.used && s.err == ErrSend
	}
	if err := c.readHead(); err != nil {
		x.fail(ctx, err, ErrHTTP)
		return c.used && c.reads == x.reads && s.err == ErrClosed
	}
	s.status = c.head.StatusCode()
	x.headers()
	switch {
	case s.status != 200:
		x.refused(ErrStatus)
	case x.q.d.sound:
		x.sound(ctx)
	case x.q.stream && x.json() && !x.q.d.tokens: // engines may leave `stream` of a transcription unheeded, as OpenAI's whisper-1 does
		s.stream = false
		x.whole(ctx)
	case x.q.stream && x.json():
		s.err = ErrBody // a plain answer, though a stream was asked for
		if _, err := c.readAll(); err != nil {
			x.fail(ctx, err, ErrBody)
		}
	case x.q.stream:
		x.stream(ctx)
	default:
		x.whole(ctx)
	}
	if s.end == none {
		s.end = max(c.readAt, s.sent)
	}
	s.bytes = c.bytes - x.bytes
	x.counts()
	return false
}

// fail notes an error of the connection. When the client's own departure caused it, it is none.
func (x *transfer) fail(ctx context.Context, err error, otherwise string) {
	s := x.s
	s.end = x.run.clock.now()
	s.bytes = x.c.bytes - x.bytes
	s.err = x.run.kind(ctx, err, otherwise)
	if s.err == ErrTimeout && x.q.leave != nil && Span(s.end-s.sent) < x.run.s.RequestTimeout {
		s.err, s.left = "", true
	}
}

// kind classifies an error.
func (r *run) kind(ctx context.Context, err error, otherwise string) string {
	var ne net.Error
	switch {
	case ctx.Err() != nil:
		return ErrInterrupted
	case errors.As(err, &ne) && ne.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		return ErrTimeout
	case otherwise == ErrConnect:
		return ErrConnect
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(*net.OpError)):
		if otherwise == ErrSend {
			return ErrSend
		}
		return ErrClosed
	}
	return otherwise
}

// headers reads what the edge says of itself.
func (x *transfer) headers() {
	h, s := &x.c.head, x.s
	s.firstByte = x.c.readAt
	if v := h.Peek("X-Penstock-Upstream"); len(v) > 0 {
		s.upstream = x.run.intern(v)
	}
	if v := h.Peek("X-Penstock-Attempts"); len(v) > 0 {
		if n, err := strconv.Atoi(string(v)); err == nil {
			s.attempts = n
		}
	}
	if v := h.Peek("X-Penstock-Queue-Ms"); len(v) > 0 {
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			s.queue = n * int64(time.Millisecond)
		}
	}
}

// refused reads the error object of an answer that is none.
func (x *transfer) refused(kind string) {
	x.s.err = kind
	body, err := x.c.readAll()
	if err == nil && x.c.doc.Parse(body, jsonOptions) == nil {
		root := x.c.doc.Root()
		if e := root.Get("error"); e.IsObject() {
			root = e
		}
		x.s.code = errorCode(root)
	}
}

// json reports whether the answer is JSON, by its head.
func (x *transfer) json() bool {
	return bytes.HasPrefix(x.c.head.ContentType(), []byte("application/json"))
}

// sound reads an answer that is sound. Of what comes only the moment of the first byte is looked at.
func (x *transfer) sound(ctx context.Context) {
	c, s := x.c, x.s
	if x.json() {
		x.refused(ErrBody)
		return
	}
	var head soundHead
	c.buf = append(c.buf[:0], make([]byte, 32<<10)...)
	for {
		n, err := c.body.Read(c.buf)
		if n > 0 && s.firstToken == none && head.take(c.buf[:n]) {
			s.firstToken = c.readAt
		}
		switch {
		case err == io.EOF && s.firstToken == none: //nolint:errorlint // io.Reader's contract is io.EOF itself
			s.err = ErrBody // no sound in it
			return
		case err == io.EOF: //nolint:errorlint // as above
			c.reply.ended = true
			return
		case err != nil:
			x.fail(ctx, err, ErrBody)
			return
		}
	}
}

func (x *transfer) whole(ctx context.Context) {
	body, err := x.c.readAll()
	switch {
	case err != nil:
		x.fail(ctx, err, ErrBody)
	case !x.q.d.whole(&x.c.reply, body):
		x.s.err = ErrBody
		if x.c.doc.Parse(body, jsonOptions) == nil {
			x.s.code = errorCode(x.c.doc.Root().Get("error"))
		}
	case x.c.reply.failed:
		x.s.err, x.s.code = ErrInStream, x.c.reply.code
	}
}

// stream reads the events.
func (x *transfer) stream(ctx context.Context) {
	c, s, p := x.c, x.s, &x.c.reply
	c.events.Reset(&c.body, maxEvent)
	for {
		ev, err := c.events.Next()
		if err == io.EOF { //nolint:errorlint // Next returns it as it is
			break
		}
		if errors.Is(err, sse.ErrTooLong) {
			p.faults.add(FaultUnparsed)
			break
		}
		if err != nil {
			x.fail(ctx, err, ErrHTTP)
			if s.err == ErrClosed {
				p.faults.add(FaultNoEnd)
			}
			s.faults = p.faults
			return
		}
		if got := x.q.d.event(p, ev); got.token() {
			x.token(got)
			if x.q.leave != nil && x.q.leave.tokens > 0 && s.chunks >= x.q.leave.tokens {
				s.left, s.end = true, x.run.clock.now()
				return
			}
		}
	}
	switch {
	case p.failed:
		s.err, s.code = ErrInStream, p.code
	case !p.ended:
		p.faults.add(FaultNoEnd)
	case s.chunks == 0:
		p.faults.add(FaultEmpty)
	}
	if !p.failed && p.ended && p.out < 0 && x.q.d.tokens {
		p.faults.add(FaultNoUsage)
	}
	x.q.d.end(p)
	s.faults = p.faults
	if s.err == "" && s.faults.fails() {
		s.err = ErrStream
	}
}

// token notes an event that carried a token. Of several that came in one read only the first has a time of its own.
func (x *transfer) token(got pieces) {
	c, s := x.c, x.s
	at := c.readAt
	s.chunks++
	if got.visible() && s.firstVisible == none {
		s.firstVisible = at
	}
	gap := int64(none)
	switch {
	case s.firstToken == none:
		s.firstToken = at
		x.cell = x.run.cellOf(s)
	case c.reads == x.lastRead:
		s.coalesced++
	default:
		gap = at - s.lastToken
		s.itlSum += gap
		x.cell.record(gap)
		if x.run.s.SaveDetailed {
			s.gaps = append(s.gaps, gap)
		}
	}
	if s.target == 0 {
		x.run.series.token(at, gap)
	}
	s.lastToken, x.lastRead = at, c.reads
}

// counts settles the numbers of tokens: the server's usage, or what the run can say instead.
func (x *transfer) counts() {
	s, p := x.s, &x.c.reply
	s.finish = p.finish
	if s.err != "" || s.left {
		return
	}
	s.in, s.out, s.cached = p.in, p.out, p.cached
	if s.in >= 0 {
		s.inSource = TokensFromUsage
	}
	if s.out >= 0 {
		s.outSource = TokensFromUsage
	}
	if s.in < 0 && x.q.d.prompt || s.out < 0 && x.q.d.tokens {
		x.run.count(x.q, p, s)
	}
}
