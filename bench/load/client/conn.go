package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/bench/exit"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
	"penstock/upstreams/http1/chunked"
)

const (
	maxEventBytes = 8 << 20  // maximum size of an event in a stream
	maxReplyBytes = 64 << 20 // maximum size of a response that is not streamed
)

// Target is a server under test, together with its idle connections. It is safe for concurrent use.
type Target struct {
	Base    string // scheme://host[:port][/path], without /v1
	address string // host:port to dial
	host    string // Host header
	Path    string // path before /v1
	tls     *tls.Config
	Headers []byte // header lines sent with every request, each including CRLF
	Clock   *Clock

	mu     sync.Mutex
	idle   []*conn // the most recently used connection is last, and is reused first
	opened int
}

// Clock measures times in nanoseconds since the start of the run.
type Clock struct{ Start time.Time }

// Now returns the time since the start.
func (c *Clock) Now() int64 { return int64(time.Since(c.Start)) }

// NewTarget parses a base URL that may end in /v1. headers contains the header lines sent with
// every request, each including CRLF.
func NewTarget(base string, insecure bool, headers []byte) (*Target, error) {
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, exit.Usagef("base URL %q: %v", base, errors.Unwrap(err))
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, exit.Usagef("base URL %q: want http:// or https://", base)
	case u.Host == "" || u.User != nil || u.RawQuery != "":
		return nil, exit.Usagef("base URL %q: want scheme, host and perhaps a path", base)
	}
	t := &Target{
		Clock: &Clock{Start: time.Now()}, Headers: headers, host: u.Host, address: u.Host,
		Path: strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1"),
	}
	t.Base = u.Scheme + "://" + u.Host + t.Path
	port := "80"
	if u.Scheme == "https" {
		port = "443"
		t.tls = &tls.Config{ServerName: u.Hostname(), InsecureSkipVerify: insecure, NextProtos: []string{"http/1.1"}} //nolint:gosec // asked for by --insecure
	}
	if u.Port() == "" {
		t.address = net.JoinHostPort(u.Hostname(), port)
	}
	return t, nil
}

// conn is a connection together with all buffers that a request needs. Only one goroutine may use
// it at a time.
type conn struct {
	net.Conn
	t      *Target
	br     *bufio.Reader
	head   fasthttp.ResponseHeader
	body   responseBody
	events sse.Reader
	doc    jsonx.Doc
	reply  Reply
	out    []byte       // head and body of the request
	buf    bytes.Buffer // body of a response that is not streamed

	readAt      int64 // time of the last read that returned bytes
	reads       int   // number of reads that returned bytes
	bytes       int64 // number of bytes that reads have returned
	used        bool  // the connection has carried a request
	deadlineErr error // error from a read whose deadline had passed
}

// Read reads from the socket and records the time.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.readAt = c.t.Clock.Now()
		c.reads++
		c.bytes += int64(n)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.deadlineErr = err
	}
	return n, err
}

var connPool = sync.Pool{New: func() any {
	c := &conn{br: bufio.NewReaderSize(nil, 8<<10)}
	c.reply.doc = &c.doc
	return c
}}

// acquireConn returns an idle connection. If there is none, or fresh is true, it opens a new one.
func (t *Target) acquireConn(ctx context.Context, fresh bool) (*conn, error) {
	t.mu.Lock()
	if n := len(t.idle); n > 0 && !fresh {
		c := t.idle[n-1]
		t.idle = t.idle[:n-1]
		t.mu.Unlock()
		return c, nil
	}
	t.opened++
	t.mu.Unlock()
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: -1}
	nc, err := d.DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, err
	}
	if t.tls != nil {
		s := tls.Client(nc, t.tls)
		if err := s.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, err
		}
		nc = s
	}
	c := connPool.Get().(*conn)
	c.Conn, c.t, c.used = nc, t, false
	c.reads, c.bytes, c.readAt = 0, 0, 0
	c.br.Reset(c)
	return c, nil
}

// release returns a connection to the pool if it can carry another request, and closes it
// otherwise.
func (c *conn) release(reusable bool) {
	t := c.t
	if reusable && c.br.Buffered() == 0 {
		c.used = true
		t.mu.Lock()
		t.idle = append(t.idle, c)
		t.mu.Unlock()
		return
	}
	c.Conn.Close()
	c.Conn, c.t = nil, nil
	c.events.Reset(nil, 0)
	connPool.Put(c)
}

// Close closes the idle connections.
func (t *Target) Close() {
	t.mu.Lock()
	idle := t.idle
	t.idle = nil
	t.mu.Unlock()
	for _, c := range idle {
		c.release(false)
	}
}

// ConnectionCount returns the number of connections opened so far.
func (t *Target) ConnectionCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.opened
}

// readHead skips interim responses and reads the head of the final response.
func (c *conn) readHead() error {
	for {
		c.deadlineErr = nil
		if err := c.head.Read(c.br); err != nil {
			if c.deadlineErr != nil {
				return c.deadlineErr // the parser would report only that the head is incomplete
			}
			return err
		}
		if s := c.head.StatusCode(); s < 100 || s > 199 {
			break
		}
	}
	n := int64(c.head.ContentLength()) // -1: chunked; -2: the body ends when the connection closes
	c.body = responseBody{br: c.br, left: max(n, 0), chunked: n == -1, untilClose: n < -1, done: n == 0}
	return nil
}

// reusable reports whether the connection can carry another request.
func (c *conn) reusable() bool { return c.body.done && !c.body.untilClose && !c.head.ConnectionClose() }

// readAll reads the remaining body into the connection's buffer. The bytes are valid until the next
// request.
func (c *conn) readAll() ([]byte, error) {
	c.buf.Reset()
	if n, err := c.buf.ReadFrom(io.LimitReader(&c.body, maxReplyBytes+1)); err != nil {
		return nil, err
	} else if n > maxReplyBytes {
		return nil, fmt.Errorf("answer of more than %d MiB", maxReplyBytes>>20)
	}
	return c.buf.Bytes(), nil
}

// responseBody reads a response body. The body has a known length, is chunked, or ends when the
// connection closes.
type responseBody struct {
	br                  *bufio.Reader
	left                int64 // remaining bytes in the body or chunk
	frames              chunked.Decoder
	chunked, untilClose bool
	done                bool
}

// chunkLimits are the limits for chunked responses. They are more tolerant than those of the edge.
var chunkLimits = chunked.ExtraLimits{MaxDigits: 15, MaxExtensions: 4 << 10, MaxTrailers: 64 << 10, Folded: true}

// Read returns available bytes from at most one chunk. It returns io.EOF at the end of the body,
// and io.ErrUnexpectedEOF if the connection ends earlier.
func (b *responseBody) Read(p []byte) (int, error) {
	if b.chunked && !b.done {
		if err := b.nextChunk(); err != nil {
			return 0, unexpectedEOF(err)
		}
	}
	switch {
	case b.done:
		return 0, io.EOF
	case b.untilClose:
		n, err := b.br.Read(p)
		b.done = err == io.EOF
		return n, err
	}
	n, err := b.br.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if b.chunked {
		b.frames.Consume(int64(n))
	} else {
		b.done = b.left == 0
	}
	return n, unexpectedEOF(err)
}

// nextChunk skips the framing that precedes the next payload or the end of the body.
func (b *responseBody) nextChunk() error {
	for b.frames.PayloadLeft() == 0 && !b.frames.HasEnded() {
		if _, err := b.br.Peek(1); err != nil {
			return err
		}
		buffered, _ := b.br.Peek(b.br.Buffered()) // cannot fail, because the bytes are buffered
		n, err := b.frames.SkipFraming(buffered, &chunkLimits)
		_, _ = b.br.Discard(n) // cannot fail either
		if err != nil {
			return err
		}
	}
	b.left, b.done = b.frames.PayloadLeft(), b.frames.HasEnded()
	return nil
}

func unexpectedEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // io.Reader's contract is io.EOF itself
		return io.ErrUnexpectedEOF
	}
	return err
}
