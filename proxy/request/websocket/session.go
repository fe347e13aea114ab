package websocket

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/valyala/fasthttp"

	"penstock/proxy/access/auth"
	"penstock/proxy/front/listen"
	"penstock/proxy/request/call"
	"penstock/proxy/telemetry/guard"
	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// idleTimeout is how long a connection may be without a call. The time is limited because an idle
// connection may store conversations.
const idleTimeout = 10 * time.Minute

// clientSession is a client's connection. Its goroutine reads from the connection until the
// connection ends.
type clientSession struct {
	shared     *sharedState
	key        *auth.Key
	serverConn net.Conn     // connection as passed by the server
	client     *listen.Conn // listen.Conn wrapped by serverConn; nil in tests
	peer       *messageWriter
	calls      callQueue
	timer      *time.Timer
	onOpen     func(*clientSession) bool
	onClose    func(*clientSession)
}

func newSession(
	t *sharedState, ctx *fasthttp.RequestCtx, key *auth.Key, p *messageWriter, opened func(*clientSession) bool, closed func(*clientSession),
) *clientSession {
	s := &clientSession{
		shared: t, key: key, serverConn: ctx.Conn(), client: listen.UnwrapConn(ctx.Conn()), peer: p, onOpen: opened, onClose: closed,
	}
	p.rejections, p.guard = t.services.Calls, t.services.Guard
	bodyLimit := func() int64 { return t.bodyLimit(key) }
	p.deferredConn.headerScanner.maxMessage = bodyLimit
	now := time.Now()
	s.calls = callQueue{
		shared: t, key: key, peer: p, serverConn: s.serverConn, client: s.client,
		certPeer: listen.TLSPeer(s.serverConn), expiresAt: now.Add(maxConnAge), idleSince: now,
		lanes: conversationLanes{
			memory: &t.conversations, limit: bodyLimit, keyBytes: call.ConversationByteCounter(t.services.Current(), key),
		},
	}
	s.calls.saveHeaders(ctx)
	return s
}

// takeConn receives the connection after fasthttp has sent the response. A plain connection leaves
// fasthttp, which then releases its buffers (listen.Conn.DetachOnClose).
func (s *clientSession) takeConn(from net.Conn) {
	g := s.shared.services.Guard
	defer g.Catch(guard.PlaceWebSocket, nil)
	g.PanicIfInjected("websocket.hijack")
	if plain := setPeerConn(from, s.serverConn, s.peer); plain != nil {
		plain.DetachOnClose(func() { go g.RunWithRecover(guard.PlaceWebSocket, s.serve) })
		return
	}
	s.serve()
}

// setPeerConn sets the peer's connection. If the connection is plain and leaves fasthttp, setPeerConn
// returns the connection.
func setPeerConn(from, raw net.Conn, p *messageWriter) *listen.Conn {
	listen.StopFramingCheck(raw)
	plain, ok := raw.(*listen.Conn)
	if !ok {
		p.deferredConn.Conn = from
		return nil
	}
	p.deferredConn.Conn = plain
	return plain
}

func (s *clientSession) serve() {
	defer s.endSession()
	g := s.shared.services.Guard
	defer g.Catch(guard.PlaceWebSocket, s.peer.closePanicked)
	g.PanicIfInjected("websocket.serve")
	if s.client != nil {
		s.client.SetWriteTimeout(s.shared.services.Current().Config.Timeouts.Write.D())
	}
	s.peer.ws.SetReadLimit(-1) // receive enforces the limit
	if !s.onOpen(s) {
		s.peer.closeConn(websocket.StatusTryAgainLater, "the key has reached its limit of WebSocket connections")
		return
	}
	if code, reason := s.shared.checkConn(s.key); code != 0 {
		s.peer.closeConn(code, reason)
		return
	}
	s.timer = time.AfterFunc(idleTimeout, s.checkTimeouts)
	s.timer.Reset(pingEvery) // set after the assignment, because checkTimeouts uses the timer field
	for s.handleNext() {
	}
}

func (s *clientSession) handleNext() bool {
	kind, r, err := s.peer.ws.Reader(context.Background())
	switch {
	case errors.Is(err, errAnnouncedTooLarge):
		s.rejectTooLarge(apierr.TooLarge(s.shared.bodyLimit(s.key)))
		return false
	case err != nil:
		s.closeAfterReadError(err)
		return false
	case kind != websocket.MessageText:
		s.peer.closeConn(websocket.StatusUnsupportedData, "messages are JSON, as text")
		return false
	}
	m, err := s.receive(r)
	if refused := (*apierr.Error)(nil); errors.As(err, &refused) {
		if refused.Code == apierr.CodeRequestTooLarge {
			s.rejectTooLarge(refused)
			return false
		}
		s.calls.rejectMessage("", refused)
		return true
	}
	if err != nil {
		s.closeAfterReadError(err)
		return false
	}
	return s.handleMessage(m)
}

func (s *clientSession) rejectTooLarge(refused *apierr.Error) {
	s.calls.rejectMessage("", refused)
	s.lingerOnClose()
	s.peer.closeConn(websocket.StatusMessageTooBig, refused.Message)
}

// lingerOnClose keeps the connection open for a short time after the close. A client that is still
// sending can then read why the connection was closed.
func (s *clientSession) lingerOnClose() { lingerOnClose(s.client) }

func lingerOnClose(client *listen.Conn) {
	if client != nil {
		client.LingerOnClose()
	}
}

const (
	messageTypeCreate    = "response.create"
	messageTypeSteer     = "response.steer"
	messageTypeProcessed = "response.processed"
	messageTypeCancel    = "response.cancel" // exists only in other APIs
)

// handleMessage handles a message. It returns false if the connection has ended.
func (s *clientSession) handleMessage(m *clientMessage) bool {
	p := parserPool.Get().(*eventParser)
	defer p.recycle()
	var v [memberCount]jsonx.Value
	kind, refused := p.parseMessage(m.bytes, &v)
	if refused != nil && !utf8.Valid(m.bytes) {
		m.release()
		s.peer.closeConn(websocket.StatusInvalidFramePayloadData, "a message is not UTF-8")
		return false
	}
	switch {
	case refused != nil:
	case kind == messageTypeCreate:
		var t *responseTurn
		if t, refused = p.parseTurn(m, &v); refused == nil {
			if refused = s.calls.enqueue(t); refused == nil {
				return true
			}
			m.release()
			s.calls.rejectMessage(t.laneName, refused)
			return true
		}
	case kind == messageTypeSteer:
		if refused = s.chargeRequest(); refused == nil {
			_ = s.peer.send(steerFailedMessage(&p.doc)) // if send fails, reading also fails
		}
	case kind == messageTypeProcessed: // needs no response
		if !s.calls.recordProcessedResponse() {
			refused = s.chargeRequest()
		}
	case kind == messageTypeCancel:
		refused = errCancelUnsupported
	default:
		refused = apierr.Invalid("type", apierr.CodeInvalidValue, "type must be response.create.")
	}
	m.release()
	if refused != nil {
		s.calls.rejectMessage("", refused)
	}
	return true
}

// chargeRequest charges the key for a message that does not become a call. It returns an error if
// the key has no requests per minute left.
func (s *clientSession) chargeRequest() *apierr.Error {
	return call.ChargeRejectedRequest(s.shared.services.Current(), s.key, time.Now())
}

// closeAfterReadError closes the connection after a failed read. If the connection has failed or
// was closed, closeAfterReadError sends no close frame.
func (s *clientSession) closeAfterReadError(err error) {
	if code, reason := errorCloseCode(err); code != 0 {
		if errors.Is(err, errEmptyFrames) {
			s.lingerOnClose()
		}
		s.peer.closeConn(code, reason)
	}
}

func errorCloseCode(err error) (code websocket.StatusCode, reason string) {
	var failed net.Error
	switch {
	case errors.Is(err, errMessageTooSlow):
		return websocket.StatusPolicyViolation, "the message came too slowly"
	case errors.Is(err, errEmptyFrames):
		return websocket.StatusPolicyViolation, "the message has too many empty frames"
	case errors.Is(err, errCloseReason):
		return websocket.StatusInvalidFramePayloadData, "the reason of the close is not UTF-8"
	case websocket.CloseStatus(err) >= 0, errors.Is(err, net.ErrClosed), errors.As(err, &failed),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return 0, ""
	}
	return websocket.StatusProtocolError, ""
}

func (s *clientSession) endSession() {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.calls.endConn()
	_ = s.peer.ws.CloseNow()
	s.onClose(s)
}

func (s *clientSession) checkTimeouts() {
	defer s.shared.services.Guard.Catch(guard.PlaceWebSocket, nil)
	s.shared.services.Guard.PanicIfInjected("websocket.tick")
	idle := s.calls.idleTime()
	switch {
	case s.calls.isConnExpired() && s.calls.endIfIdle():
		s.peer.sendError("", errConnExpired)
		s.peer.closeConn(websocket.StatusNormalClosure, reasonConnExpired)
		return
	case idle >= idleTimeout && s.calls.endIfIdle():
		s.peer.closeConn(websocket.StatusNormalClosure, "the connection was idle")
		return
	}
	if !s.peer.pingPeer() && idle > 0 {
		_ = s.peer.ws.CloseNow()
		return
	}
	if !s.peer.hasEnded.Load() {
		s.timer.Reset(pingEvery)
	}
}
