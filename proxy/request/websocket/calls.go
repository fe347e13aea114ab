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
	// maxQueued is the maximum number of calls waiting on a connection. maxConnAge is the maximum
	// age of a connection.
	maxQueued  = 16
	maxConnAge = 60 * time.Minute
)

// callQueue runs the calls of one connection one after another. Its goroutine exists only while
// there are calls to run. mu guards the fields below mu.
type callQueue struct {
	shared         *sharedState
	peer           *messageWriter
	key            *auth.Key // nil if no key is required
	upgradeHeaders []headerField
	query          []byte
	serverConn     net.Conn     // connection as passed by the server
	client         *listen.Conn // listen.Conn wrapped by serverConn; nil in tests
	certPeer       *cert.Peer   // identity from the client's TLS certificate; nil if there is none
	expiresAt      time.Time    // when the connection reaches its maximum age
	lanes          conversationLanes

	mu             sync.Mutex
	queue          []*responseTurn
	isRunning      bool
	unacknowledged int // number of calls whose response the client has not acknowledged yet
	connEnded      bool
	idleSince      time.Time // when the last call ended
}

// callHeaders lists the upgrade headers that are repeated in each request. repeatedHeaders adds the
// header for the end user.
var callHeaders = [...]string{fasthttp.HeaderHost, fasthttp.HeaderAuthorization, "X-Api-Key", "Traceparent", "Tracestate"}

func (c *callQueue) saveHeaders(ctx *fasthttp.RequestCtx) {
	c.upgradeHeaders = repeatedHeaders(ctx, c.shared.services)
	c.query = append(c.query, ctx.URI().QueryString()...)
}

// repeatedHeaders returns the upgrade headers that are repeated in each request.
func repeatedHeaders(ctx *fasthttp.RequestCtx, services *call.Services) (head []headerField) {
	names := callHeaders[:]
	if n := services.Current().Secrets.EndUsers; n != nil && n.HeaderName() != "" {
		names = append(slices.Clip(names), n.HeaderName())
	}
	for _, name := range names {
		for _, value := range ctx.Request.Header.PeekAll(name) {
			head = append(head, headerField{name, string(value)})
		}
	}
	return head
}

func (c *callQueue) enqueue(t *responseTurn) *apierr.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.isEnded():
		t.message.release()
		return nil
	case len(c.queue) >= maxQueued:
		return errQueueFull
	}
	if refused := c.checkQueueLimits(t.message); refused != nil {
		return refused
	}
	c.queue = append(c.queue, t)
	if !c.isRunning {
		c.isRunning = true
		go c.shared.services.Guard.RunWithRecover(guard.PlaceWebSocket, c.runAll)
	}
	return nil
}

// checkGrowth returns an error if an incomplete message must not occupy more memory.
func (c *callQueue) checkGrowth(m *clientMessage) *apierr.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checkQueueLimits(m)
}

// checkQueueLimits returns an error if a message must not wait for earlier calls. The total size of
// the messages waiting on a connection is limited to the maximum size of one request. A key may
// have as many waiting messages as it may have concurrent calls. If no call is running, the message
// does not wait, and checkQueueLimits returns nil.
func (c *callQueue) checkQueueLimits(m *clientMessage) *apierr.Error {
	if !c.isRunning {
		return nil
	}
	waiting := int64(0)
	for _, t := range c.queue {
		waiting += int64(len(t.message.bytes))
	}
	if waiting > 0 && waiting+int64(len(m.bytes)) > c.shared.bodyLimit(c.key) {
		return errQueueTooLarge
	}
	if c.key == nil || m.waitingKey != nil {
		return nil
	}
	var refused *apierr.Error
	m.waitingKey, refused = call.AdmitWaitingMessage(c.shared.services.Current(), c.key)
	return refused
}

func (c *callQueue) runAll() {
	for c.runNext() {
	}
}

func (c *callQueue) runNext() (more bool) {
	t := c.dequeue()
	if t == nil {
		return false
	}
	defer t.message.release()
	t.message.markCallStarted()
	defer c.shared.services.Guard.Catch(guard.PlaceWebSocket, func() {
		c.peer.closePanicked()
		more = true // dequeue decides whether more turns follow
	})
	c.shared.services.Guard.PanicIfInjected("websocket.turn")
	if c.isConnExpired() {
		c.peer.sendError(t.laneName, errConnExpired)
		c.peer.closeConn(websocket.StatusNormalClosure, reasonConnExpired)
		return true
	}
	status := c.runTurn(t)
	if code, reason := c.shared.checkConn(c.key); code != 0 {
		c.peer.closeConn(code, reason)
	} else if status == 401 { // later calls would also get a 401
		c.peer.closeConn(websocket.StatusPolicyViolation, reasonInvalidKey)
	} else if status == 500 {
		c.peer.closePanicked()
	}
	return true
}

// dequeue removes the first turn from the queue and returns it. If the queue is empty, it marks the
// connection as idle. If the connection has also ended, it releases the connection's memory.
func (c *callQueue) dequeue() *responseTurn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isEnded() && len(c.queue) > 0 {
		t := c.queue[0]
		// The turn is removed, so that an idle connection retains no messages.
		c.queue[0], c.queue = nil, c.queue[1:]
		c.unacknowledged++
		return t
	}
	c.isRunning = false
	c.idleSince = time.Now()
	if c.connEnded {
		c.release()
	}
	return nil
}

// recordProcessedResponse records that the client has processed a response. It returns false if the
// client has acknowledged more responses than it has made calls. The caller counts each excess
// acknowledgment as a request.
func (c *callQueue) recordProcessedResponse() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unacknowledged == 0 {
		return false
	}
	c.unacknowledged--
	return true
}

// isEnded reports whether no more calls may start. The listener may notice that the client has
// disconnected before a read from the connection fails.
func (c *callQueue) isEnded() bool {
	return c.peer.hasEnded.Load() || c.client != nil && c.client.IsClientGone()
}

// runTurn runs a turn as a call, and writes the answer of the call. It returns the status of the
// call. If the turn did not become a call, runTurn returns 0.
func (c *callQueue) runTurn(t *responseTurn) (status int) {
	to := c.lanes.getOrCreate(t.laneName)
	if to == nil {
		c.rejectMessage(t.laneName, errTooManyLanes)
		return 0
	}
	from := c.lanes.findByResponse(t.previousID)
	if t.previousID != "" && from == nil {
		c.rejectMessage(t.laneName, errPreviousNotFound)
		return 0
	}
	var before []byte
	if from != nil {
		before = from.inputItems
	}
	if most := c.shared.bodyLimit(c.key); from != nil && int64(len(before)+len(t.message.bytes)) > most {
		c.rejectMessage(t.laneName, conversationTooLarge(most))
		c.lanes.dropConversation(from)
		return 0
	}
	ctx := c.buildRequest(t, before)
	handle := c.shared.createResponse
	if t.isWarmUp {
		handle = c.shared.warmUp
	}
	handle(ctx)
	events := &eventWriter{
		peer: c.peer, lanes: &c.lanes, turn: t, toLane: to, fromLane: from,
		responseHeaders: selectResponseHeaders(&ctx.Response, endpoint.HeaderDropped, endpoint.HeaderCallRetained), messagePrefix: laneMessagePrefix(t.laneName),
	}
	if c.writeAnswer(ctx, events) != nil {
		return fasthttp.StatusInternalServerError
	}
	if !events.isStored && from != nil { // the protocol ends the conversation of a failed turn
		c.lanes.dropConversation(from)
	}
	return ctx.Response.StatusCode()
}

// rejectMessage reports to the client that a message did not become a call. The message counts as a
// request of the key. If the key has no requests left, rejectMessage reports that error instead of
// e.
func (c *callQueue) rejectMessage(lane string, e *apierr.Error) {
	if limited := call.ChargeRejectedRequest(c.shared.services.Current(), c.key, time.Now()); limited != nil {
		e = limited
	}
	c.peer.sendError(lane, e)
}

func (c *callQueue) buildRequest(t *responseTurn, before []byte) *fasthttp.RequestCtx {
	pieces, size := t.bodyPieces(before)
	return newRequestCtx(callConn{Conn: c.serverConn, client: c.client, certPeer: c.certPeer}, endpoint.ResponsesEndpoint.Path, c.query, c.upgradeHeaders, pieces, size)
}

func newRequestCtx(conn callConn, path string, query []byte, head []headerField, pieces [][]byte, size int64) *fasthttp.RequestCtx {
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

func (c *callQueue) isConnExpired() bool { return !time.Now().Before(c.expiresAt) }

const reasonConnExpired = "the connection has lasted 60 minutes"

// writeAnswer writes the answer of a call. The answer is either an error or the events of a stream,
// which are written while they are generated. writeAnswer returns an error if a write fails or the
// stream is incomplete.
func (c *callQueue) writeAnswer(ctx *fasthttp.RequestCtx, events *eventWriter) (err error) {
	response := &ctx.Response
	switch stream := response.BodyStream(); {
	case stream != nil:
		defer response.CloseBodyStream() //nolint:errcheck // closing the body never returns an error
		_, err = stream.(io.WriterTo).WriteTo(events)
	case ctx.Hijacked(): // the client has disconnected
	case response.StatusCode() == fasthttp.StatusOK:
		_, err = events.Write(response.Body())
	default:
		err = c.peer.send(errorMessage(events.turn.laneName, response))
	}
	return err
}

// callConn is the connection from the perspective of a call. The call does not read its body from
// callConn.
type callConn struct {
	net.Conn
	client   net.Conn
	certPeer *cert.Peer
}

// CertificatePeer returns the client's identity for listen.TLSPeer.
func (c callConn) CertificatePeer() *cert.Peer { return c.certPeer }

// NetConn returns the client's connection for listen.UnwrapConn.
func (c callConn) NetConn() net.Conn { return c.client }

func (callConn) Read([]byte) (int, error) { return 0, io.EOF }

// SetReadDeadline implements net.Conn. It does nothing, because the message has already been read.
func (callConn) SetReadDeadline(time.Time) error { return nil }

// endIfIdle prevents new calls. It returns false if a call is running or if new calls have already
// been prevented. If it returns true, the caller must close the connection.
func (c *callQueue) endIfIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.isRunning && c.peer.hasEnded.CompareAndSwap(false, true)
}

// idleTime returns the time since the last call ended. While a call is running, it returns 0.
func (c *callQueue) idleTime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isRunning {
		return 0
	}
	return time.Since(c.idleSince)
}

// endConn cancels the running call because the connection has ended. The connection's memory is
// released after the call.
func (c *callQueue) endConn() {
	c.peer.hasEnded.Store(true)
	if c.client != nil {
		c.client.MarkClientGone()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connEnded = true
	if !c.isRunning {
		c.release()
	}
}

func (c *callQueue) release() {
	for _, t := range c.queue {
		t.message.release()
	}
	c.queue = nil
	c.lanes.release()
}
