package sim

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"penstock/bench/sim/profile"
)

const (
	maxHeadBytes = 1 << 20   // maximum size of a request head
	maxBodyBytes = 256 << 20 // maximum size of a request body
)

// conn is a client connection. Its reader goroutine parses a request and starts a second goroutine
// that answers the request. The reader then continues to read, so it notices immediately when the
// client leaves.
type conn struct {
	e      *Engine
	nc     net.Conn
	buf    []byte // buf[r:w] is read but not yet parsed
	r, w   int
	served int // number of requests that were answered
	x      exchange

	clientGone chan struct{} // closed when the client has left or the engine closed the connection
	done       chan struct{} // receives a token for each completed response
	shut       atomic.Bool   // the engine closed the connection
	ended      chan struct{} // closed when shut is set
	nextFault  string        // what the fault keepalive-close does at the next request

	mu sync.Mutex
	// the response is complete, and a token is sent to done immediately afterwards
	idle         bool
	bytesWaiting bool // bytes arrived during a request, so handleRequest must wake the reader at the end
}

// Header is one header line of a request, as received.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Request is a request as received. It shares no memory with the engine.
type Request struct {
	Method string    `json:"method"`
	Target string    `json:"target"` // path and query
	Header []Header  `json:"header"`
	Body   []byte    `json:"body"` // without chunk framing
	Time   time.Time `json:"time"`
}

// Get returns the value of the first header with the given name, or "". The comparison of names is
// case-insensitive.
func (r *Request) Get(name string) string { return headerValue(r.Header, name) }

func headerValue(hs []Header, name string) string {
	for i := range hs {
		if len(hs[i].Name) == len(name) && strings.EqualFold(hs[i].Name, name) {
			return hs[i].Value
		}
	}
	return ""
}

func newConn(e *Engine, nc net.Conn) *conn {
	c := &conn{e: e, nc: nc, clientGone: make(chan struct{}), done: make(chan struct{}, 1), ended: make(chan struct{})}
	c.x.c, c.x.e, c.x.p = c, e, e.p
	return c
}

// close closes the connection with a FIN. It is safe for concurrent use.
func (c *conn) close() {
	if !c.shut.Swap(true) {
		close(c.ended)
		_ = c.nc.Close()
	}
}

// reset closes the connection with an RST. It is safe for concurrent use.
func (c *conn) reset() {
	if t, ok := c.nc.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.close()
}

func (c *conn) serve() {
	defer c.close()
	if c.acceptFault() {
		return
	}
	c.buf = make([]byte, 4096)
	for {
		ok, err := c.readRequest()
		if err != nil {
			var bad *malformedRequestError
			if errors.As(err, &bad) {
				c.e.counters.malformed.Add(1)
				c.x.begin()
				c.x.closing = true
				c.x.replyError(profile.APIError{Status: bad.status, Message: bad.text})
				c.x.out.flush()
			}
			return
		}
		if !ok { // the reader has already answered, so the connection is closed
			return
		}
		if c.x.req.path == realtimePath && c.x.req.requestsWebSocket() {
			c.serveRealtime()
			return
		}
		go c.handleRequest()
		if !c.readAhead() {
			return
		}
	}
}

// handleRequest answers the current request in a separate goroutine.
func (c *conn) handleRequest() {
	x := &c.x
	dispatchRequest(x)
	x.end()
	c.served++
	c.mu.Lock()
	c.idle = true
	switch {
	case x.closing:
		c.close()
	case c.bytesWaiting:
		_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // wake the reader, because the next request has arrived
	case c.e.p.Idle > 0:
		_ = c.nc.SetReadDeadline(time.Now().Add(c.e.p.Idle))
	}
	c.mu.Unlock()
	c.done <- struct{}{}
}

// readAhead continues to read during and after a request, until the next request starts. It returns
// false if the connection has ended.
func (c *conn) readAhead() bool {
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
	for {
		// Buffered bytes belong to the next request. Reading continues anyway, because otherwise
		// the engine would not notice if the client left.
		if c.w > 0 {
			c.mu.Lock()
			idle := c.idle
			c.bytesWaiting = true
			c.mu.Unlock()
			if idle || c.w == len(c.buf) && !c.growBuffer() {
				<-c.done
				return c.prepareNext()
			}
		}
		n, err := c.nc.Read(c.buf[c.w:])
		c.w += n
		if err == nil {
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// Only handleRequest sets a read deadline, and only after the response.
			<-c.done
			if c.w > 0 {
				return c.prepareNext()
			}
			return false
		}
		close(c.clientGone)
		// The connection is closed here, before serve closes it, to unblock a writer whose client
		// does not read.
		c.close()
		<-c.done
		return false
	}
}

// prepareNext prepares the connection for the next request.
func (c *conn) prepareNext() bool {
	if c.shut.Load() {
		return false
	}
	c.idle, c.bytesWaiting = false, false
	return c.nc.SetReadDeadline(time.Time{}) == nil
}

// growBuffer enlarges the buffer, up to the maximum size of a head.
func (c *conn) growBuffer() bool {
	if c.r > 0 {
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
		if c.w < len(c.buf) {
			return true
		}
	}
	if len(c.buf) >= maxHeadBytes {
		return false
	}
	b := make([]byte, 2*len(c.buf))
	copy(b, c.buf[:c.w])
	c.buf = b
	return true
}

// readMore reads at least one more byte.
func (c *conn) readMore() error {
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
	if c.w == len(c.buf) && !c.growBuffer() {
		return &malformedRequestError{431, "request head is too large"}
	}
	n, err := c.nc.Read(c.buf[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// malformedRequestError is the error for a request that the engine does not accept as valid HTTP.
type malformedRequestError struct {
	status int
	text   string
}

func (m *malformedRequestError) Error() string { return m.text }

func badRequest(text string) error { return &malformedRequestError{400, text} }

// readRequest reads a complete request into c.x. It returns false without an error if a fault has
// handled the request.
func (c *conn) readRequest() (bool, error) {
	end, err := c.readHead()
	if err != nil {
		return false, err
	}
	x := &c.x
	x.begin()
	// One string contains the head. Names and values are substrings of this string.
	err = x.req.parseHead(string(c.buf[c.r:end]))
	c.r = end + 4
	if err != nil {
		return false, err
	}
	if c.nextFault != "" { // keepalive-close;when=next closes the connection before this request
		if c.nextFault == "next-reset" {
			c.reset()
		}
		return false, nil
	}
	x.setEarlyFaults() // selects faults from the schedule and from the request header
	if x.t.Early && x.client.pause(x.t.Delay) {
		refuseEarly(x)
		return false, nil
	}
	if x.req.expect && (x.req.chunked || x.req.length > int64(c.w-c.r)) {
		if _, err := io.WriteString(c.nc, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return false, err
		}
	}
	if x.req.chunked {
		err = c.readChunked()
	} else {
		err = c.readBody(x.req.length)
	}
	return err == nil, err
}

// readHead reads up to the empty line that ends the head, and returns the offset of that line.
func (c *conn) readHead() (int, error) {
	from := c.r
	for {
		// Some clients send an empty line between requests.
		for c.r < c.w && from == c.r && (c.buf[c.r] == '\r' || c.buf[c.r] == '\n') {
			c.r++
			from++
		}
		if i := bytes.Index(c.buf[from:c.w], crlfcrlf); i >= 0 {
			return from + i, nil
		}
		keep := max(c.r, c.w-3) - c.r
		if err := c.readMore(); err != nil {
			return 0, err
		}
		from = c.r + keep
	}
}

var (
	crlf     = []byte("\r\n")
	crlfcrlf = []byte("\r\n\r\n")
)

var bodyPool = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

func (c *conn) readBody(n int64) error {
	x := &c.x
	if n > maxBodyBytes {
		return &malformedRequestError{413, "request body is too large"}
	}
	if n == 0 {
		return nil
	}
	x.body = bodyPool.Get().(*[]byte)
	b := *x.body
	if int64(cap(b)) < n {
		b = make([]byte, 0, n)
	}
	b = b[:n]
	k := copy(b, c.buf[c.r:c.w])
	c.r += k
	*x.body = b
	x.req.body = b
	if k == len(b) {
		return nil
	}
	_, err := io.ReadFull(c.nc, b[k:])
	return err
}

// readChunked reads a chunked body and its trailer. It rejects any deviation from the syntax.
func (c *conn) readChunked() error {
	x := &c.x
	x.body = bodyPool.Get().(*[]byte)
	b := (*x.body)[:0]
	for {
		line, err := c.readLine()
		if err != nil {
			return err
		}
		size, _, _ := strings.Cut(line, ";")
		size = strings.TrimRight(size, " \t")
		n, err := strconv.ParseUint(size, 16, 32)
		if err != nil || size == "" || size[0] == '+' {
			return badRequest("bad chunk size")
		}
		if n == 0 {
			break
		}
		if int64(len(b))+int64(n) > maxBodyBytes {
			return &malformedRequestError{413, "request body is too large"}
		}
		for n > 0 {
			if c.r == c.w {
				if err := c.readMore(); err != nil {
					return err
				}
			}
			k := min(int(n), c.w-c.r)
			b = append(b, c.buf[c.r:c.r+k]...)
			c.r += k
			n -= uint64(k)
		}
		if line, err = c.readLine(); err != nil {
			return err
		}
		if line != "" {
			return badRequest("chunk data is longer than its size")
		}
	}
	for {
		line, err := c.readLine()
		if err != nil {
			return err
		}
		if line == "" {
			break
		}
	}
	*x.body = b
	x.req.body = b
	return nil
}

// readLine reads up to CRLF and returns the text before it.
func (c *conn) readLine() (string, error) {
	for {
		if i := bytes.Index(c.buf[c.r:c.w], crlf); i >= 0 {
			s := string(c.buf[c.r : c.r+i])
			c.r += i + 2
			return s, nil
		}
		if c.w-c.r > 8192 {
			return "", badRequest("line is too long")
		}
		if err := c.readMore(); err != nil {
			return "", err
		}
	}
}

// request is the request that a connection is processing. Its fields are valid until the response
// is complete.
type request struct {
	method, target, path, query string
	header                      []Header
	body                        []byte
	length                      int64
	minor                       int // minor version of HTTP/1.x
	chunked, expect, keepAlive  bool
}

// queryParam returns the value of a query parameter without unescaping it.
func (r *request) queryParam(name string) string {
	for one := range strings.SplitSeq(r.query, "&") {
		if k, v, _ := strings.Cut(one, "="); k == name {
			return v
		}
	}
	return ""
}

// parseHead parses a head without its final empty line. It rejects any head that two servers could
// interpret differently.
func (r *request) parseHead(head string) error {
	line, rest, _ := strings.Cut(head, "\r\n")
	method, line, ok1 := strings.Cut(line, " ")
	target, version, ok2 := strings.Cut(line, " ")
	if !ok1 || !ok2 || method == "" || target == "" {
		return badRequest("bad request line")
	}
	switch version {
	case "HTTP/1.1":
		r.minor = 1
	case "HTTP/1.0":
		r.minor = 0
	default:
		return &malformedRequestError{505, "HTTP version not supported"}
	}
	for i := range len(method) {
		if method[i] < 'A' || method[i] > 'Z' {
			return badRequest("bad method")
		}
	}
	r.method, r.target = method, target
	r.path, r.query, _ = strings.Cut(target, "?")
	if r.path == "" || r.path[0] != '/' {
		return badRequest("bad request target")
	}
	r.keepAlive = r.minor == 1
	lengths, hosts := 0, 0
	for rest != "" {
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t\r\n\x00") || strings.ContainsAny(value, "\r\n\x00") {
			return badRequest("bad header line")
		}
		value = strings.Trim(value, " \t")
		r.header = append(r.header, Header{name, value})
		switch {
		case equalFold(name, "Host"):
			hosts++
		case equalFold(name, "Content-Length"):
			lengths++
			n, err := strconv.ParseUint(value, 10, 62)
			if err != nil || value[0] == '+' {
				return badRequest("bad Content-Length")
			}
			r.length = int64(n)
		case equalFold(name, "Transfer-Encoding"):
			if r.chunked || !strings.EqualFold(value, "chunked") {
				return badRequest("bad Transfer-Encoding")
			}
			r.chunked = true
		case equalFold(name, "Expect"):
			r.expect = strings.EqualFold(value, "100-continue")
		case equalFold(name, "Connection"):
			for v := range strings.SplitSeq(value, ",") {
				switch v = strings.TrimSpace(v); {
				case strings.EqualFold(v, "close"):
					r.keepAlive = false
				case strings.EqualFold(v, "keep-alive"):
					r.keepAlive = true
				}
			}
		}
	}
	switch {
	case lengths > 1:
		return badRequest("more than one Content-Length")
	case lengths > 0 && r.chunked:
		return badRequest("Content-Length and Transfer-Encoding")
	case hosts > 1 || hosts == 0 && r.minor == 1:
		return badRequest("want exactly one Host")
	}
	return nil
}

func equalFold(name, want string) bool {
	return len(name) == len(want) && strings.EqualFold(name, want)
}

func (r *request) headerValue(name string) string { return headerValue(r.header, name) }

// requestRecorder stores the most recent requests for tests.
type requestRecorder struct {
	on   bool
	mu   sync.Mutex
	reqs []Request
}

const maxRecordedRequests = 256

func (r *requestRecorder) add(q *request) {
	if !r.on {
		return
	}
	one := Request{
		Method: q.method, Target: q.target, Header: append([]Header(nil), q.header...),
		Body: bytes.Clone(q.body), Time: time.Now(),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.reqs) >= maxRecordedRequests {
		r.reqs = append(r.reqs[:0], r.reqs[1:]...)
	}
	r.reqs = append(r.reqs, one)
}

func (r *requestRecorder) last() *Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.reqs) == 0 {
		return nil
	}
	q := r.reqs[len(r.reqs)-1]
	return &q
}

func (r *requestRecorder) clear() {
	r.mu.Lock()
	r.reqs = nil
	r.mu.Unlock()
}

// Recorded returns the most recent inference requests, oldest first, at most 256. If Options.Record
// is false, it returns no requests. The caller owns the slice, and the requests in it never change.
func (e *Engine) Recorded() []Request {
	e.record.mu.Lock()
	defer e.record.mu.Unlock()
	return append([]Request(nil), e.record.reqs...)
}
