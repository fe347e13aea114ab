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
	// maxQueued is the maximum number of calls that wait for the running call.
	maxQueued = 16
	// longest is the protocol's maximum age of a connection.
	longest = 60 * time.Minute
)

// calls holds the calls of one connection. They run one after the other, on a goroutine that exists
// only while there are calls. mu guards the fields below it, which other goroutines use.
type calls struct {
	terms  *terms
	peer   *peer
	key    *auth.Key // nil: the edge requires none
	head   []header  // the headers of each call's request
	query  []byte
	raw    net.Conn     // the server's own connection value
	client *listen.Conn // the listen.Conn beneath raw; nil if there is none (tests)
	shown  *cert.Peer   // the client's identity from its certificate; nil: no certificate
	until  time.Time    // when the connection ends because of its age
	lanes  lanes

	mu      sync.Mutex
	queue   []*turn
	running bool      // a goroutine runs calls
	begun   int       // calls whose response the client has not yet reported as processed
	over    bool      // the connection has ended
	heard   time.Time // when the last call ended
}

// callHeaders lists the headers of the upgrade that a call reads, in addition to the end-user
// header.
var callHeaders = [...]string{fasthttp.HeaderHost, fasthttp.HeaderAuthorization, "X-Api-Key", "Traceparent", "Tracestate"}

// keepHead keeps the headers of the upgrade that each call's request repeats.
func (c *calls) keepHead(ctx *fasthttp.RequestCtx) {
	c.head = headOf(ctx, c.terms.services)
	c.query = append(c.query, ctx.URI().QueryString()...)
}

// headOf returns the headers of an upgrade that a call reads.
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

// enqueue queues a turn to run after the earlier ones, or refuses the turn.
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

// keep returns an error if an incomplete message must not take more memory.
func (c *calls) keep(m *message) *apierr.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mayWait(m)
}

// mayWait returns an error if a message may not wait for the calls before it. The waiting messages
// of a connection must together be no longer than one request, and a key may have no more waiting
// messages than concurrent calls. A message does not wait if there is no call before it.
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
	if c.key == nil || m.place != nil {
		return nil
	}
	var refused *apierr.Error
	m.place, refused = call.TakeWaiting(c.terms.services.Current(), c.key)
	return refused
}

// work runs turns until no turn is waiting.
func (c *calls) work() {
	for c.runNext() {
	}
}

// runNext runs the turn that has waited longest. It returns false if no turn is waiting or none
// may run.
func (c *calls) runNext() (more bool) {
	t := c.dequeue()
	if t == nil {
		return false
	}
	defer t.message.release()
	t.message.begin()
	defer c.terms.services.Guard.Catch(guard.WebSocket, func() {
		c.peer.panicked()
		more = true // dequeue decides whether there are more turns
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
	} else if status == 401 { // all further calls would get a 401 as well
		c.peer.close(websocket.StatusPolicyViolation, reasonKey)
	} else if status == 500 {
		c.peer.panicked()
	}
	return true
}

// dequeue takes the turn that has waited longest. If there is none, the connection becomes idle.
// If the connection has ended, dequeue releases its memory.
func (c *calls) dequeue() *turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended() && len(c.queue) > 0 {
		t := c.queue[0]
		c.queue[0], c.queue = nil, c.queue[1:] // an idle connection must not hold messages
		c.begun++
		return t
	}
	c.running = false
	c.heard = time.Now()
	if c.over {
		c.release()
	}
	return nil
}

// acknowledge records that the client has processed a response. It returns false if the client has
// reported more responses than there were calls. Such reports count as requests.
func (c *calls) acknowledge() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun == 0 {
		return false
	}
	c.begun--
	return true
}

// ended reports whether no further call may start. If a client leaves silently, the edge notices
// this before a read from the connection fails. The running call then also ends.
func (c *calls) ended() bool {
	return c.peer.ended.Load() || c.client != nil && c.client.Gone()
}

// run runs a turn as a call, and writes its answer. It returns the status of the call, or 0 if
// there was no call.
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
		told: headersOf(&ctx.Response, endpoint.HeaderDropped, endpoint.HeaderRetained), lead: leadOf(t.lane),
	}
	if c.answer(ctx, events) != nil {
		return fasthttp.StatusInternalServerError
	}
	if !events.kept && from != nil { // a failed turn ends its chain (protocol)
		c.lanes.drop(from)
	}
	return ctx.Response.StatusCode()
}

// refuse tells the client that its message does not become a call. The message counts as a request
// of the key. If the key has no requests left, refuse reports that instead.
func (c *calls) refuse(lane string, e *apierr.Error) {
	if limited := call.TakeRequest(c.terms.services.Current(), c.key, time.Now()); limited != nil {
		e = limited
	}
	c.peer.refuse(lane, e)
}

// request makes a turn's request, which is a POST with the relevant headers of the upgrade.
func (c *calls) request(t *turn, before []byte) *fasthttp.RequestCtx {
	pieces, size := t.body(before)
	return request(callConn{Conn: c.raw, client: c.client, shown: c.shown}, endpoint.Responses.Path, c.query, c.head, pieces, size)
}

// request makes the request of a call from its parts.
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

// outlived reports whether the connection has reached its maximum age.
func (c *calls) outlived() bool { return !time.Now().Before(c.until) }

const reasonOutlived = "the connection has lasted 60 minutes"

// answer writes a call's answer: the events of a stream, which may still be generated, or an error.
// It returns an error if the connection has failed or the stream breaks off.
func (c *calls) answer(ctx *fasthttp.RequestCtx, events *eventWriter) (err error) {
	response := &ctx.Response
	switch stream := response.BodyStream(); {
	case stream != nil:
		defer response.CloseBodyStream() //nolint:errcheck // it has none to give
		_, err = stream.(io.WriterTo).WriteTo(events)
	case ctx.Hijacked(): // the client has left
	case response.StatusCode() == fasthttp.StatusOK:
		_, err = events.Write(response.Body())
	default:
		err = c.peer.send(errorEvent(events.turn.lane, response))
	}
	return err
}

// callConn is the connection that a call sees. The call's body is not read from the connection.
type callConn struct {
	net.Conn
	client net.Conn
	shown  *cert.Peer
}

// CertificatePeer lets listen.PeerOf find the client's certificate.
func (c callConn) CertificatePeer() *cert.Peer { return c.shown }

// NetConn lets listen.ConnOf find the connection.
func (c callConn) NetConn() net.Conn { return c.client }

// Read implements net.Conn.
func (callConn) Read([]byte) (int, error) { return 0, io.EOF }

// SetReadDeadline implements net.Conn. The message has already arrived.
func (callConn) SetReadDeadline(time.Time) error { return nil }

// endIdle prevents further calls, unless a call is running or further calls are already prevented.
// If it returns true, the caller must close the connection.
func (c *calls) endIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.running && c.peer.ended.CompareAndSwap(false, true)
}

// idle returns the time since the last call ended, or 0 while a call is running.
func (c *calls) idle() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running {
		return 0
	}
	return time.Since(c.heard)
}

// end runs after the connection has ended. It ends a running call, whose client has left. The
// memory of the connection is released after that call.
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

// release releases the memory that the connection holds.
func (c *calls) release() {
	for _, t := range c.queue {
		t.message.release()
	}
	c.queue = nil
	c.lanes.release()
}
