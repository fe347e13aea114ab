package client

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

	"github.com/valyala/fasthttp"

	"penstock/bench/result"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Sender sends requests and reads their responses. It is safe for concurrent use.
type Sender struct {
	Clock   *Clock
	Targets []*Target
	Timeout time.Duration
	Gaps    bool // whether to record every gap
	Watch   tokenObserver

	heads         sync.Map // maps headKey to []byte
	mu            sync.Mutex
	upstreamNames map[string]string // upstream names, each stored only once
}

// tokenObserver receives tokens as they arrive. Its methods are called on the request's goroutine.
type tokenObserver interface {
	// RecordFirstToken returns the GapHistogram that counts the request's gaps.
	RecordFirstToken(s *Sample) *GapHistogram
	// RecordToken is called for every token event. gap is MissingValue for the first event, and for an
	// event that arrived in the same read as the event before it.
	RecordToken(s *Sample, at, gap int64)
}

// GapHistogram is a histogram of the gaps in a group of requests.
type GapHistogram struct {
	Mu sync.Mutex
	H  result.Histogram
}

func (c *GapHistogram) record(gap int64) {
	c.Mu.Lock()
	c.H.Record(gap)
	c.Mu.Unlock()
}

// Exchange sends a request and reads its response into s, whose scheduled time must be set. It
// returns the reply, which the next turn of the session needs. The caller must call done. After
// that, the reply is invalid.
func (c *Sender) Exchange(ctx context.Context, q *Request, wire []byte, s *Sample) (p *Reply, done func()) {
	t := c.Targets[q.Target]
	s.At.Sent = c.Clock.Now()
	for fresh := false; ; fresh = true {
		nc, err := t.acquireConn(ctx, fresh)
		if err != nil {
			s.At.End = c.Clock.Now()
			s.Err = failureKind(ctx, err, result.ErrConnect)
			return nil, func() {}
		}
		if !nc.used {
			s.At.Connect = c.Clock.Now() - s.At.Sent
		}
		x := &exchangeState{sender: c, c: nc, q: q, s: s, bytes: nc.bytes, reads: nc.reads}
		stale := x.sendAndReceive(ctx, wire)
		if stale && !fresh {
			nc.release(false) // not a fault: the server closed the connection while it was idle
			s.Err, s.At.End = "", MissingValue
			continue
		}
		return &nc.reply, func() { nc.release(s.Err == "" && !s.Left && nc.reusable()) }
	}
}

// headKey is the cache key of a request head.
type headKey struct {
	target int
	d      *Dialect
}

func (c *Sender) appendHead(dst []byte, q *Request, n int) []byte {
	key := headKey{q.Target, q.D}
	head, ok := c.heads.Load(key)
	if !ok {
		t := c.Targets[q.Target]
		head = fmt.Appendf(nil, "POST %s/v1%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: penstock-bench\r\nContent-Type: %s\r\n%sContent-Length: ",
			t.Path, q.D.path, t.host, cmp.Or(q.D.Mime, "application/json"), t.Headers)
		c.heads.Store(key, head)
	}
	dst = append(dst, head.([]byte)...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	if q.SessionID != "" {
		dst = append(append(dst, "\r\nX-Session-Id: "...), q.SessionID...)
	}
	return append(dst, "\r\n\r\n"...)
}

// internIdentifier returns b as a string, or "" if b is not an identifier. Equal values share one
// string.
func (c *Sender) internIdentifier(b []byte) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.upstreamNames[string(b)]
	if !ok {
		if c.upstreamNames == nil {
			c.upstreamNames = map[string]string{}
		}
		v = SafeIdentifier(b)
		c.upstreamNames[string(b)] = v
	}
	return v
}

// exchangeState is the state of a request on a connection.
type exchangeState struct {
	sender *Sender
	c      *conn
	q      *Request
	s      *Sample
	bytes  int64 // bytes read from the connection before this request
	reads  int

	lastRead int // value of c.reads after the read that returned the newest token
	cell     *GapHistogram
}

// sendAndReceive sends the request and reads the response. It reports whether the connection was
// stale: a reused connection that the server closed before it sent a byte.
func (x *exchangeState) sendAndReceive(ctx context.Context, wire []byte) (stale bool) {
	c, s := x.c, x.s
	c.reply.reset(x.q.Keep)
	_ = c.SetDeadline(time.Now().Add(x.sender.Timeout))
	nc := c.Conn // copied, because the function may run after c was released
	undo := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer undo()
	if x.q.Leave != nil && x.q.Leave.After > 0 {
		gone := make(chan struct{})
		timer := time.AfterFunc(x.q.Leave.After, func() {
			_ = c.SetDeadline(time.Unix(1, 0))
			close(gone)
		})
		defer func() {
			if !timer.Stop() {
				<-gone // otherwise the function could abort the next request on the connection
			}
		}()
	}
	c.out = x.sender.appendHead(c.out[:0], x.q, len(wire))
	c.out = append(c.out, wire...)
	if _, err := c.Write(c.out); err != nil {
		x.recordError(ctx, err, result.ErrSend)
		return c.used && s.Err == result.ErrSend
	}
	if err := c.readHead(); err != nil {
		x.recordError(ctx, err, result.ErrHTTP)
		return c.used && c.reads == x.reads && s.Err == result.ErrClosed
	}
	s.Status = c.head.StatusCode()
	x.recordHeaders()
	switch {
	case s.Status != 200:
		x.readRefusal(result.ErrStatus)
	case x.q.D.isAudio:
		x.readAudio(ctx)
	case x.q.Stream && x.isJSON() && !x.q.D.Tokens: // engines may ignore `stream`, as whisper-1 does
		s.Stream = false
		x.readFullResponse(ctx)
	case x.q.Stream && x.isJSON():
		s.Err = result.ErrBody // a stream was requested, but the response is not a stream
		if _, err := c.readAll(); err != nil {
			x.recordError(ctx, err, result.ErrBody)
		}
	case x.q.Stream:
		x.readStream(ctx)
	default:
		x.readFullResponse(ctx)
	}
	if s.At.End == MissingValue {
		s.At.End = max(c.readAt, s.At.Sent)
	}
	s.Flow.bytes = c.bytes - x.bytes
	x.recordCounts()
	return false
}

// recordError records a connection error, unless the client disconnected on purpose.
func (x *exchangeState) recordError(ctx context.Context, err error, otherwise string) {
	s := x.s
	s.At.End = x.sender.Clock.Now()
	s.Flow.bytes = x.c.bytes - x.bytes
	s.Err = failureKind(ctx, err, otherwise)
	if s.Err == result.ErrTimeout && x.q.Leave != nil && time.Duration(s.At.End-s.At.Sent) < x.sender.Timeout {
		s.Err, s.Left = "", true
	}
}

func failureKind(ctx context.Context, err error, otherwise string) string {
	var ne net.Error
	switch {
	case ctx.Err() != nil:
		return result.ErrInterrupted
	case errors.As(err, &ne) && ne.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		return result.ErrTimeout
	case otherwise == result.ErrConnect:
		return result.ErrConnect
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(*net.OpError)):
		if otherwise == result.ErrSend {
			return result.ErrSend
		}
		return result.ErrClosed
	}
	return otherwise
}

func (x *exchangeState) recordHeaders() {
	h, s := &x.c.head, x.s
	s.At.firstByte = x.c.readAt
	if v := h.Peek("X-Penstock-Upstream"); len(v) > 0 {
		s.Edge.Upstream = x.sender.internIdentifier(v)
	}
	if v := h.Peek("X-Penstock-Attempts"); len(v) > 0 {
		if n, err := strconv.Atoi(string(v)); err == nil {
			s.Edge.attempts = n
		}
	}
	if v := h.Peek("X-Penstock-Queue-Ms"); len(v) > 0 {
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			s.Edge.queue = n * int64(time.Millisecond)
		}
	}
	if s.Status >= 400 {
		s.Retry = retryAfter(h.Peek("Retry-After"), time.Now())
	}
}

// maxRetryAfter is the longest Retry-After delay that the client honours.
const maxRetryAfter = 10 * time.Minute

// retryAfter parses a Retry-After header. It returns 0 if the value is invalid or in the past.
func retryAfter(v []byte, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(string(v), 10, 31); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if at, err := fasthttp.ParseHTTPDate(v); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter)
	}
	return 0
}

// readRefusal reads the error object of a refused request.
func (x *exchangeState) readRefusal(kind string) {
	x.s.Err = kind
	body, err := x.c.readAll()
	if err == nil && x.c.doc.Parse(body, jsonx.Options{Record: 4}) == nil {
		root := x.c.doc.Root()
		if e := root.Get("error"); e.IsObject() {
			root = e
		}
		x.s.Code = errorCode(root)
	}
}

// isJSON reports whether the response is JSON, according to its head.
func (x *exchangeState) isJSON() bool {
	return bytes.HasPrefix(x.c.head.ContentType(), []byte("application/json"))
}

// readAudio reads an audio response, and records only the time of its first audio byte.
func (x *exchangeState) readAudio(ctx context.Context) {
	c, s := x.c, x.s
	if x.isJSON() {
		x.readRefusal(result.ErrBody)
		return
	}
	var head audioStartFinder
	piece := make([]byte, 32<<10)
	for {
		n, err := c.body.Read(piece)
		if n > 0 && s.At.FirstToken == MissingValue && head.addPiece(piece[:n]) {
			s.At.FirstToken = c.readAt
		}
		switch {
		case err == io.EOF && s.At.FirstToken == MissingValue: //nolint:errorlint // io.Reader returns io.EOF unwrapped
			s.Err = result.ErrBody // the response contained no audio
			return
		case err == io.EOF: //nolint:errorlint // io.EOF is not wrapped
			c.reply.ended = true
			return
		case err != nil:
			x.recordError(ctx, err, result.ErrBody)
			return
		}
	}
}

func (x *exchangeState) readFullResponse(ctx context.Context) {
	body, err := x.c.readAll()
	switch {
	case err != nil:
		x.recordError(ctx, err, result.ErrBody)
	case !x.q.D.readResponse(&x.c.reply, body):
		x.s.Err = result.ErrBody
		if x.c.doc.Parse(body, jsonx.Options{Record: 4}) == nil {
			x.s.Code = errorCode(x.c.doc.Root().Get("error"))
		}
	case x.c.reply.failed:
		x.s.Err, x.s.Code = result.ErrInStream, x.c.reply.code
	}
}

func (x *exchangeState) readStream(ctx context.Context) {
	c, s, p := x.c, x.s, &x.c.reply
	c.events.Reset(&c.body, maxEventBytes)
	for {
		ev, err := c.events.NextEvent()
		if err == io.EOF { //nolint:errorlint // Next returns io.EOF unwrapped
			break
		}
		if errors.Is(err, sse.ErrTooLong) {
			p.faults.Add(result.FaultUnparsed)
			break
		}
		if err != nil {
			x.recordError(ctx, err, result.ErrHTTP)
			if s.Err == result.ErrClosed {
				p.faults.Add(result.FaultNoEnd)
			}
			s.Faults = p.faults
			return
		}
		if got := x.q.D.event(p, ev); got.hasToken() {
			x.recordToken(got)
			if x.q.Leave != nil && x.q.Leave.Tokens > 0 && s.Flow.Chunks >= x.q.Leave.Tokens {
				s.Left, s.At.End = true, x.sender.Clock.Now()
				return
			}
		}
	}
	switch {
	case p.failed:
		s.Err, s.Code = result.ErrInStream, p.code
	case !p.ended:
		p.faults.Add(result.FaultNoEnd)
	case s.Flow.Chunks == 0:
		p.faults.Add(result.FaultEmpty)
	}
	if !p.failed && p.ended && p.out < 0 && x.q.D.Tokens {
		p.faults.Add(result.FaultNoUsage)
	}
	x.q.D.end(p)
	s.Faults = p.faults
	if s.Err == "" && s.Faults.isFatal() {
		s.Err = result.ErrStream
	}
}

// recordToken records an event that contains a token. If one read returns more than one such event,
// only the first gets a timestamp.
func (x *exchangeState) recordToken(got contentKinds) {
	c, s := x.c, x.s
	at := c.readAt
	s.Flow.Chunks++
	if got.hasVisible() && s.At.firstVisible == MissingValue {
		s.At.firstVisible = at
	}
	gap := int64(MissingValue)
	switch {
	case s.At.FirstToken == MissingValue:
		s.At.FirstToken = at
		x.cell = x.sender.Watch.RecordFirstToken(s)
	case c.reads == x.lastRead:
		s.Flow.Coalesced++
	default:
		gap = at - s.At.lastToken
		s.Flow.gapSum += gap
		x.cell.record(gap)
		if x.sender.Gaps {
			s.Flow.Gaps = append(s.Flow.Gaps, gap)
		}
	}
	x.sender.Watch.RecordToken(s, at, gap)
	s.At.lastToken, x.lastRead = at, c.reads
}

// recordCounts records the token counts that the server reported as usage.
func (x *exchangeState) recordCounts() {
	s, p := x.s, &x.c.reply
	s.Finish = p.finish
	if s.Err != "" || s.Left {
		return
	}
	s.Tokens.In, s.Tokens.Out, s.Tokens.Cached = p.in, p.out, p.cached
	if s.Tokens.In >= 0 {
		s.Tokens.InSource = result.TokensFromUsage
	}
	if s.Tokens.Out >= 0 {
		s.Tokens.OutSource = result.TokensFromUsage
	}
}
