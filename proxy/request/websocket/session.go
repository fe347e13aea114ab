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

// idleTime is how long a connection may be without a call. This time is limited because an idle
// connection may store conversations.
const idleTime = 10 * time.Minute

// session is a client's connection. Its goroutine reads from the connection until the connection
// ends.
type session struct {
	terms  *terms
	key    *auth.Key
	raw    net.Conn     // the server's connection
	client *listen.Conn // the listen.Conn wrapped by raw; nil in tests
	peer   *peer
	calls  calls
	timer  *time.Timer
	opened func(*session)
	closed func(*session)
}

func newSession(
	t *terms, ctx *fasthttp.RequestCtx, key *auth.Key, p *peer, opened, closed func(*session),
) *session {
	s := &session{
		terms: t, key: key, raw: ctx.Conn(), client: listen.ConnOf(ctx.Conn()), peer: p, opened: opened, closed: closed,
	}
	p.refused, p.guard = t.services.Calls, t.services.Guard
	bodyLimit := func() int64 { return t.bodyLimit(key) }
	p.late.heads.most = bodyLimit
	now := time.Now()
	s.calls = calls{
		terms: t, key: key, peer: p, raw: s.raw, client: s.client,
		shown: listen.PeerOf(s.raw), until: now.Add(longest), idleSince: now,
		lanes: lanes{
			memory: &t.memory, limit: bodyLimit, ofKey: call.ConversationsOf(t.services.Current(), key),
		},
	}
	s.calls.keepHead(ctx)
	return s
}

// takeConn receives the connection after fasthttp has sent the response. A plain connection leaves
// fasthttp, which then releases its buffers (listen.Conn.DetachOnClose).
func (s *session) takeConn(from net.Conn) {
	g := s.terms.services.Guard
	defer g.Catch(guard.WebSocket, nil)
	g.Point("websocket.hijack")
	if plain := setConn(from, s.raw, s.peer); plain != nil {
		plain.DetachOnClose(func() { go g.Once(guard.WebSocket, s.serve) })
		return
	}
	s.serve()
}

// setConn sets the peer's connection. If the connection is plain and leaves fasthttp, setConn
// returns it.
func setConn(from, raw net.Conn, p *peer) *listen.Conn {
	listen.Upgraded(raw)
	plain, ok := raw.(*listen.Conn)
	if !ok {
		p.late.Conn = from
		return nil
	}
	p.late.Conn = plain
	return plain
}

func (s *session) serve() {
	defer s.end()
	g := s.terms.services.Guard
	defer g.Catch(guard.WebSocket, s.peer.panicked)
	g.Point("websocket.serve")
	if s.client != nil {
		s.client.SetWriteTimeout(s.terms.services.Current().Config.Timeouts.Write.D())
	}
	s.peer.ws.SetReadLimit(-1) // receive enforces its own limit
	s.opened(s)
	if code, reason := s.terms.verdict(s.key); code != 0 {
		s.peer.close(code, reason)
		return
	}
	s.timer = time.AfterFunc(idleTime, s.tick)
	s.timer.Reset(pingEvery) // set after the assignment, because tick uses the timer field
	for s.next() {
	}
}

func (s *session) next() bool {
	kind, r, err := s.peer.ws.Reader(context.Background())
	switch {
	case errors.Is(err, errAnnounced):
		s.tooLarge(apierr.TooLarge(s.terms.bodyLimit(s.key)))
		return false
	case err != nil:
		s.readFailed(err)
		return false
	case kind != websocket.MessageText:
		s.peer.close(websocket.StatusUnsupportedData, "messages are JSON, as text")
		return false
	}
	m, err := s.receive(r)
	if refused := (*apierr.Error)(nil); errors.As(err, &refused) {
		if refused.Code == apierr.CodeRequestTooLarge {
			s.tooLarge(refused)
			return false
		}
		s.calls.refuse("", refused)
		return true
	}
	if err != nil {
		s.readFailed(err)
		return false
	}
	return s.handle(m)
}

func (s *session) tooLarge(refused *apierr.Error) {
	s.calls.refuse("", refused)
	s.linger()
	s.peer.close(websocket.StatusMessageTooBig, refused.Message)
}

// linger lets a client that is still sending read why the connection is closed.
func (s *session) linger() { linger(s.client) }

func linger(client *listen.Conn) {
	if client != nil {
		client.Linger()
	}
}

const (
	typeCreate    = "response.create"
	typeSteer     = "response.steer"
	typeProcessed = "response.processed"
	typeCancel    = "response.cancel" // exists only in other APIs
)

// handle handles a message. It returns false if the connection has ended.
func (s *session) handle(m *message) bool {
	p := parsers.Get().(*parser)
	defer p.recycle()
	var v [memberCount]jsonx.Value
	kind, refused := p.read(m.bytes, &v)
	if refused != nil && !utf8.Valid(m.bytes) {
		m.release()
		s.peer.close(websocket.StatusInvalidFramePayloadData, "a message is not UTF-8")
		return false
	}
	switch {
	case refused != nil:
	case kind == typeCreate:
		var t *turn
		if t, refused = p.turn(m, &v); refused == nil {
			if refused = s.calls.enqueue(t); refused == nil {
				return true
			}
			m.release()
			s.calls.refuse(t.lane, refused)
			return true
		}
	case kind == typeSteer:
		if refused = s.chargeRequest(); refused == nil {
			_ = s.peer.send(steerFailed(&p.doc)) // if this fails, reading fails as well
		}
	case kind == typeProcessed: // needs no response
		if !s.calls.acknowledge() {
			refused = s.chargeRequest()
		}
	case kind == typeCancel:
		refused = errCancel
	default:
		refused = apierr.Invalid("type", apierr.CodeInvalidValue, "type must be response.create.")
	}
	m.release()
	if refused != nil {
		s.calls.refuse("", refused)
	}
	return true
}

// chargeRequest charges the key for a message that does not become a call. It returns an error if
// the key has no requests per minute left.
func (s *session) chargeRequest() *apierr.Error {
	return call.ChargeRequest(s.terms.services.Current(), s.key, time.Now())
}

// readFailed closes the connection after a failed read. If the connection has failed or was closed,
// it sends no close frame.
func (s *session) readFailed(err error) {
	if code, reason := closeFor(err); code != 0 {
		if errors.Is(err, errEmptyFrames) {
			s.linger()
		}
		s.peer.close(code, reason)
	}
}

func closeFor(err error) (code websocket.StatusCode, reason string) {
	var failed net.Error
	switch {
	case errors.Is(err, errSlow):
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

func (s *session) end() {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.calls.end()
	_ = s.peer.ws.CloseNow()
	s.closed(s)
}

func (s *session) tick() {
	defer s.terms.services.Guard.Catch(guard.WebSocket, nil)
	s.terms.services.Guard.Point("websocket.tick")
	idle := s.calls.idle()
	switch {
	case s.calls.outlived() && s.calls.endIdle():
		s.peer.refuse("", errOutlived)
		s.peer.close(websocket.StatusNormalClosure, reasonOutlived)
		return
	case idle >= idleTime && s.calls.endIdle():
		s.peer.close(websocket.StatusNormalClosure, "the connection was idle")
		return
	}
	if !s.peer.ping() && idle > 0 {
		_ = s.peer.ws.CloseNow()
		return
	}
	if !s.peer.ended.Load() {
		s.timer.Reset(pingEvery)
	}
}
