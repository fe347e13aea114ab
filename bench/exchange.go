package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// sender sends requests and reads their answers. It is safe for concurrent use.
type sender struct {
	clock    *clock
	targets  []*target
	timeout  time.Duration
	detailed bool // keep every gap
	watch    observer

	heads sync.Map // headKey to []byte
	mu    sync.Mutex
	words map[string]string // names of upstreams, each once
}

// observer hears of tokens while they come. Its methods are called from the goroutine of the request.
type observer interface {
	// FirstToken returns where the gaps of the request are counted.
	FirstToken(s *sample) *gapCell
	// Token is any token event; gap is none for the first and for those that came in one read with another.
	Token(s *sample, at, gap int64)
}

// gapCell counts gaps of one group of requests.
type gapCell struct {
	mu sync.Mutex
	h  histogram
}

func (c *gapCell) record(gap int64) {
	c.mu.Lock()
	c.h.record(gap)
	c.mu.Unlock()
}

// exchange sends one request and reads its answer into s, whose scheduled time is set. It returns the connection's reply for the
// next turn of the session, valid until done is called; done must be called.
func (c *sender) exchange(ctx context.Context, q *request, wire []byte, s *sample) (p *reply, done func()) {
	t := c.targets[q.target]
	s.at.sent = c.clock.now()
	for fresh := false; ; fresh = true {
		nc, err := t.open(ctx, fresh)
		if err != nil {
			s.at.end = c.clock.now()
			s.err = failureKind(ctx, err, ErrConnect)
			return nil, func() {}
		}
		if !nc.used {
			s.at.connect = c.clock.now() - s.at.sent
		}
		x := &transfer{sender: c, c: nc, q: q, s: s, bytes: nc.bytes, reads: nc.reads}
		stale := x.carry(ctx, wire)
		if stale && !fresh {
			nc.release(false) // it was closed while idle, which is no fault of the server's
			s.err, s.at.end = "", none
			continue
		}
		return &nc.reply, func() { nc.release(s.err == "" && !s.left && nc.reusable()) }
	}
}

// headKey tells request heads apart that differ.
type headKey struct {
	target int
	d      *dialect
}

// appendHead appends the head of a request with a body of n bytes.
func (c *sender) appendHead(dst []byte, q *request, n int) []byte {
	key := headKey{q.target, q.d}
	head, ok := c.heads.Load(key)
	if !ok {
		t := c.targets[q.target]
		head = fmt.Appendf(nil, "POST %s/v1%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: penstock-bench\r\nContent-Type: %s\r\n%sContent-Length: ",
			t.path, q.d.path, t.host, cmp.Or(q.d.mime, "application/json"), t.headers)
		c.heads.Store(key, head)
	}
	dst = append(dst, head.([]byte)...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, "\r\n\r\n"...)
}

// intern returns b as a string that equal ones share; empty when it is no word.
func (c *sender) intern(b []byte) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.words[string(b)]
	if !ok {
		if c.words == nil {
			c.words = map[string]string{}
		}
		v = word(b)
		c.words[string(b)] = v
	}
	return v
}

// transfer is one request on one connection.
type transfer struct {
	sender *sender
	c      *conn
	q      *request
	s      *sample
	bytes  int64 // that the connection had brought before
	reads  int

	lastRead int // the read that brought the last token
	cell     *gapCell
}

// carry sends the request and reads the answer. It reports whether the connection turned out to be stale: reused, and closed before
// it brought a byte.
func (x *transfer) carry(ctx context.Context, wire []byte) (stale bool) {
	c, s := x.c, x.s
	c.reply.reset(x.q.keep)
	_ = c.SetDeadline(time.Now().Add(x.sender.timeout))
	nc := c.Conn // the function may still run when c has been released
	undo := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer undo()
	if x.q.leave != nil && x.q.leave.after > 0 {
		gone := make(chan struct{})
		timer := time.AfterFunc(x.q.leave.after, func() {
			_ = c.SetDeadline(time.Unix(1, 0))
			close(gone)
		})
		defer func() {
			if !timer.Stop() {
				<-gone // or it would cut off the next request of this connection
			}
		}()
	}
	c.out = x.sender.appendHead(c.out[:0], x.q, len(wire))
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
	if s.at.end == none {
		s.at.end = max(c.readAt, s.at.sent)
	}
	s.flow.bytes = c.bytes - x.bytes
	x.counts()
	return false
}

// fail notes an error of the connection. When the client's own departure caused it, it is none.
func (x *transfer) fail(ctx context.Context, err error, otherwise string) {
	s := x.s
	s.at.end = x.sender.clock.now()
	s.flow.bytes = x.c.bytes - x.bytes
	s.err = failureKind(ctx, err, otherwise)
	if s.err == ErrTimeout && x.q.leave != nil && time.Duration(s.at.end-s.at.sent) < x.sender.timeout {
		s.err, s.left = "", true
	}
}

// failureKind classifies an error.
func failureKind(ctx context.Context, err error, otherwise string) string {
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
	s.at.firstByte = x.c.readAt
	if v := h.Peek("X-Penstock-Upstream"); len(v) > 0 {
		s.edge.upstream = x.sender.intern(v)
	}
	if v := h.Peek("X-Penstock-Attempts"); len(v) > 0 {
		if n, err := strconv.Atoi(string(v)); err == nil {
			s.edge.attempts = n
		}
	}
	if v := h.Peek("X-Penstock-Queue-Ms"); len(v) > 0 {
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			s.edge.queue = n * int64(time.Millisecond)
		}
	}
}

// refused reads the error object of an answer that is none.
func (x *transfer) refused(kind string) {
	x.s.err = kind
	body, err := x.c.readAll()
	if err == nil && x.c.doc.Parse(body, jsonx.Options{Record: 4}) == nil {
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
		if n > 0 && s.at.firstToken == none && head.take(c.buf[:n]) {
			s.at.firstToken = c.readAt
		}
		switch {
		case err == io.EOF && s.at.firstToken == none: //nolint:errorlint // io.Reader's contract is io.EOF itself
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
		if x.c.doc.Parse(body, jsonx.Options{Record: 4}) == nil {
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
			if x.q.leave != nil && x.q.leave.tokens > 0 && s.flow.chunks >= x.q.leave.tokens {
				s.left, s.at.end = true, x.sender.clock.now()
				return
			}
		}
	}
	switch {
	case p.failed:
		s.err, s.code = ErrInStream, p.code
	case !p.ended:
		p.faults.add(FaultNoEnd)
	case s.flow.chunks == 0:
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
	s.flow.chunks++
	if got.visible() && s.at.firstVisible == none {
		s.at.firstVisible = at
	}
	gap := int64(none)
	switch {
	case s.at.firstToken == none:
		s.at.firstToken = at
		x.cell = x.sender.watch.FirstToken(s)
	case c.reads == x.lastRead:
		s.flow.coalesced++
	default:
		gap = at - s.at.lastToken
		s.flow.gapSum += gap
		x.cell.record(gap)
		if x.sender.detailed {
			s.flow.gaps = append(s.flow.gaps, gap)
		}
	}
	x.sender.watch.Token(s, at, gap)
	s.at.lastToken, x.lastRead = at, c.reads
}

// counts takes the numbers of tokens from the server's usage.
func (x *transfer) counts() {
	s, p := x.s, &x.c.reply
	s.finish = p.finish
	if s.err != "" || s.left {
		return
	}
	s.tokens.in, s.tokens.out, s.tokens.cached = p.in, p.out, p.cached
	if s.tokens.in >= 0 {
		s.tokens.inSource = TokensFromUsage
	}
	if s.tokens.out >= 0 {
		s.tokens.outSource = TokensFromUsage
	}
}
