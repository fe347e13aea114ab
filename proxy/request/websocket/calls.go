package websocket

import (
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/valyala/fasthttp"

	"penstock/proxy/access/auth"
	"penstock/proxy/access/auth/cert"
	"penstock/proxy/front/listen"
	"penstock/proxy/request/call"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/telemetry/guard"
	"penstock/translate/apierr"
)

const (
	// maxQueued is the maximum number of calls waiting on a connection. longest is the maximum age
	// of a connection.
	maxQueued = 16
	longest   = 60 * time.Minute
)

// calls runs the calls of one connection one after another. Its goroutine exists only while there
// are calls to run. mu guards the fields below it.
type calls struct {
	terms  *terms
	peer   *peer
	key    *auth.Key // nil if no key is required
	head   []header
	query  []byte
	raw    net.Conn     // the server's connection
	client *listen.Conn // the listen.Conn wrapped by raw; nil in tests
	shown  *cert.Peer   // identity from the client's TLS certificate, or nil
	until  time.Time    // when the connection reaches its maximum age
	lanes  lanes

	mu        sync.Mutex
	queue     []*turn
	running   bool
	begun     int // number of calls whose response the client has not acknowledged yet
	over      bool
	idleSince time.Time // when the last call ended
}

// callHeaders lists the headers of the upgrade that each request repeats. headOf adds the header
// for the end user.
var callHeaders = [...]string{fasthttp.HeaderHost, fasthttp.HeaderAuthorization, "X-Api-Key", "Traceparent", "Tracestate"}

func (c *calls) keepHead(ctx *fasthttp.RequestCtx) {
	c.head = headOf(ctx, c.terms.services)
	c.query = append(c.query, ctx.URI().QueryString()...)
}

// headOf returns the headers of the upgrade that each request repeats.
func headOf(ctx *fasthttp.RequestCtx, services *call.Services) (head []header) {
	names := callHeaders[:]
	if n := services.Current().Secrets.EndUsers; n != nil && n.Header() != "" {
		names = append(slices.Clip(names), n.Header())
	}
	for _, name := range names {
		for _, value := range ctx.Request.Header.PeekAll(name) {
			head = append(head, header{name, string(value)})
		}
	}
	return head
}

func (c *calls) enqueue(t *turn) *apierr.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended():
		t.message.release()
		return nil
	case len(c.queue) >= maxQueued:
		return errQueueFull
	}
	if refused := c.mayWait(t.message); refused != nil {
		return refused
	}
	c.queue = append(c.queue, t)
	if !c.running {
		c.running = true
		go c.terms.services.Guard.Once(guard.WebSocket, c.work)
	}
	return nil
}

// keep returns an error if an incomplete message must not use more memory.
func (c *calls) keep(m *message) *apierr.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mayWait(m)
}

// mayWait returns an error if a message must not wait for earlier calls. The total size of the
// messages waiting on a connection is limited to the maximum size of one request. A key may have as
// many waiting messages as it may have concurrent calls. If no call is running, the message does
// not wait, and mayWait returns nil.
func (c *calls) mayWait(m *message) *apierr.Error {
	if !c.running {
		return nil
	}
	waiting := int64(0)
	for _, t := range c.queue {
		waiting += int64(len(t.message.bytes))
	}
	if waiting > 0 && waiting+int64(len(m.bytes)) > c.terms.bodyLimit(c.key) {
		return errQueueLong
	}
	if c.key == nil || m.waiting != nil {
		return nil
	}
	var refused *apierr.Error
	m.waiting, refused = call.CountWaiting(c.terms.services.Current(), c.key)
	return refused
}

func (c *calls) work() {
	for c.runNext() {
	}
}

func (c *calls) runNext() (more bool) {
	t := c.dequeue()
	if t == nil {
		return false
	}
	defer t.message.release()
	t.message.begin()
	defer c.terms.services.Guard.Catch(guard.WebSocket, func() {
		c.peer.panicked()
		more = true // dequeue decides whether more turns follow
	})
	c.terms.services.Guard.Point("websocket.turn")
	if c.outlived() {
		c.peer.refuse(t.lane, errOutlived)
		c.peer.close(websocket.StatusNormalClosure, reasonOutlived)
		return true
	}
	status := c.run(t)
	if code, reason := c.terms.verdict(c.key); code != 0 {
		c.peer.close(code, reason)
	} else if status == 401 { // later calls would get a 401 as well
		c.peer.close(websocket.StatusPolicyViolation, reasonKey)
	} else if status == 500 {
		c.peer.panicked()
	}
	return true
}

// dequeue removes the first turn from the queue and returns it. If the queue is empty, it marks the
// connection as idle. If the connection has also ended, it releases the connection's memory.
func (c *calls) dequeue() *turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended() && len(c.queue) > 0 {
		t := c.queue[0]
		// The turn is removed, so that an idle connection retains no messages.
		c.queue[0], c.queue = nil, c.queue[1:]
		c.begun++
		return t
	}
	c.running = false
	c.idleSince = time.Now()
	if c.over {
		c.release()
	}
	return nil
}

// acknowledge records that the client has processed a response. It returns false if the client has
// acknowledged more responses than it has made calls. Each excess acknowledgment counts as a
// request.
func (c *calls) acknowledge() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun == 0 {
		return false
	}
	c.begun--
	return true
}

// ended reports whether no more calls may start. The listener may notice that the client has
// disconnected before a read fails.
func (c *calls) ended() bool {
	return c.peer.ended.Load() || c.client != nil && c.client.Gone()
}

// run runs a turn as a call, and writes the answer of the call. It returns the status of the call.
// If the turn did not become a call, it returns 0.
func (c *calls) run(t *turn) (status int) {
	to := c.lanes.at(t.lane)
	if to == nil {
		c.refuse(t.lane, errLanes)
		return 0
	}
	from := c.lanes.holding(t.previous)
	if t.previous != "" && from == nil {
		c.refuse(t.lane, errPrevious)
		return 0
	}
	var before []byte
	if from != nil {
		before = from.items
	}
	if most := c.terms.bodyLimit(c.key); from != nil && int64(len(before)+len(t.message.bytes)) > most {
		c.refuse(t.lane, conversationTooLarge(most))
		c.lanes.drop(from)
		return 0
	}
	ctx := c.request(t, before)
	handle := c.terms.create
	if t.warmUp {
		handle = c.terms.prepare
	}
	handle(ctx)
	events := &eventWriter{
		peer: c.peer, lanes: &c.lanes, turn: t, to: to, from: from,
		headers: headersOf(&ctx.Response, endpoint.HeaderDropped, endpoint.HeaderRetained), lead: leadOf(t.lane),
	}
	if c.answer(ctx, events) != nil {
		return fasthttp.StatusInternalServerError
	}
	if !events.stored && from != nil { // the protocol requires that a failed turn ends its chain
		c.lanes.drop(from)
	}
	return ctx.Response.StatusCode()
}

// refuse reports to the client that a message did not become a call. The message counts as a
// request of the key. If the key has no requests left, refuse reports that instead.
func (c *calls) refuse(lane string, e *apierr.Error) {
	if limited := call.ChargeRequest(c.terms.services.Current(), c.key, time.Now()); limited != nil {
		e = limited
	}
	c.peer.refuse(lane, e)
}

func (c *calls) request(t *turn, before []byte) *fasthttp.RequestCtx {
	pieces, size := t.body(before)
	return request(callConn{Conn: c.raw, client: c.client, shown: c.shown}, endpoint.Responses.Path, c.query, c.head, pieces, size)
}

func request(conn callConn, path string, query []byte, head []header, pieces [][]byte, size int64) *fasthttp.RequestCtx {
	ctx := new(fasthttp.RequestCtx)
	ctx.Init2(conn, nil, true)
	h := &ctx.Request.Header
	h.SetMethod(fasthttp.MethodPost)
	if len(query) > 0 {
		path += "?" + string(query)
	}
	h.SetRequestURI(path)
	h.SetContentType("application/json")
	for _, x := range head {
		h.Add(x.name, x.value)
	}
	body := net.Buffers(pieces)
	ctx.Request.SetBodyStream(&body, int(size))
	return ctx
}

func (c *calls) outlived() bool { return !time.Now().Before(c.until) }

const reasonOutlived = "the connection has lasted 60 minutes"

// answer writes the answer of a call. It is either the events of a stream, written while they are
// generated, or an error. answer returns an error if a write fails or the stream is incomplete.
func (c *calls) answer(ctx *fasthttp.RequestCtx, events *eventWriter) (err error) {
	response := &ctx.Response
	switch stream := response.BodyStream(); {
	case stream != nil:
		defer response.CloseBodyStream() //nolint:errcheck // it has none to give
		_, err = stream.(io.WriterTo).WriteTo(events)
	case ctx.Hijacked(): // the client has disconnected
	case response.StatusCode() == fasthttp.StatusOK:
		_, err = events.Write(response.Body())
	default:
		err = c.peer.send(errorEvent(events.turn.lane, response))
	}
	return err
}

// callConn is the connection as seen by a call. The body of the call is not read from it.
type callConn struct {
	net.Conn
	client net.Conn
	shown  *cert.Peer
}

// CertificatePeer returns the client's identity for listen.PeerOf.
func (c callConn) CertificatePeer() *cert.Peer { return c.shown }

// NetConn returns the client's connection for listen.ConnOf.
func (c callConn) NetConn() net.Conn { return c.client }

func (callConn) Read([]byte) (int, error) { return 0, io.EOF }

// SetReadDeadline implements net.Conn. It does nothing, because the message has already been read.
func (callConn) SetReadDeadline(time.Time) error { return nil }

// endIdle prevents new calls. It returns false if a call is running or if new calls have already
// been prevented. If it returns true, the caller must close the connection.
func (c *calls) endIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.running && c.peer.ended.CompareAndSwap(false, true)
}

// idle returns the time since the last call ended. During a call, it returns 0.
func (c *calls) idle() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running {
		return 0
	}
	return time.Since(c.idleSince)
}

// end cancels the running call because the connection has ended. The connection's memory is
// released after that call.
func (c *calls) end() {
	c.peer.ended.Store(true)
	if c.client != nil {
		c.client.Leave()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if !c.running {
		c.release()
	}
}

func (c *calls) release() {
	for _, t := range c.queue {
		t.message.release()
	}
	c.queue = nil
	c.lanes.release()
}
