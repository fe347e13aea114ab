package websocket

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/valyala/fasthttp"

	"penstock/proxy/access/auth/cert"
	"penstock/proxy/front/listen"
	"penstock/proxy/request/body"
	"penstock/proxy/request/call"
	"penstock/proxy/telemetry/guard"
	"penstock/translate/apierr"
)

// Socket is a client's WebSocket connection for protocols other than the Responses protocol. Only
// one goroutine may read from it. Any goroutine may write to it and close it.
type Socket struct {
	services          *call.Services
	peer              *messageWriter
	serverConn        net.Conn      // connection as passed by the server
	client            *listen.Conn  // listen.Conn wrapped by serverConn; nil in tests
	certPeer          *cert.Peer    // identity from the client's TLS certificate; nil if there is none
	upgradeHeaders    []headerField // upgrade headers that are repeated in each request
	maxAnnounced      atomic.Int64
	isReceiving       atomic.Bool
	handshakeResponse []byte // status line and headers of the handshake response
	serveFunc         func()
}

// NewSocket returns the Socket for a request that has not been upgraded yet. Accept completes the
// handshake.
func NewSocket(ctx *fasthttp.RequestCtx, services *call.Services) *Socket {
	return &Socket{
		services: services, serverConn: ctx.Conn(), client: listen.UnwrapConn(ctx.Conn()), certPeer: listen.TLSPeer(ctx.Conn()),
		upgradeHeaders: repeatedHeaders(ctx, services),
	}
}

// SetKey sets the credential for later requests of clients that cannot set the Authorization
// header.
func (s *Socket) SetKey(key string) {
	s.upgradeHeaders = append(s.upgradeHeaders, headerField{fasthttp.HeaderAuthorization, "Bearer " + key})
}

// Accept checks a handshake and prepares the response, or returns an error. If the client offers
// one of the given protocols, Accept selects it.
func (s *Socket) Accept(ctx *fasthttp.RequestCtx, protocols ...string) *apierr.Error {
	p, refused := acceptHandshake(ctx, protocols...)
	if refused != nil {
		return refused
	}
	p.guard, p.deferredConn.headerScanner.maxMessage = s.services.Guard, s.maxAnnounced.Load
	s.peer = p
	return nil
}

// Serve completes the handshake and runs f. It catches panics in f. It writes the response itself,
// because fasthttp would not run f if writing the response failed.
func (s *Socket) Serve(ctx *fasthttp.RequestCtx, f func()) {
	s.handshakeResponse = ctx.Response.Header.AppendBytes(nil)
	s.serveFunc = f
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(s.takeConn)
}

func (s *Socket) takeConn(from net.Conn) {
	g := s.services.Guard
	defer g.Catch(guard.PlaceWebSocket, nil)
	g.PanicIfInjected("websocket.hijack")
	if plain := setPeerConn(from, s.serverConn, s.peer); plain != nil {
		plain.DetachOnClose(func() { go g.RunWithRecover(guard.PlaceWebSocket, s.run) })
		return
	}
	s.run()
}

func (s *Socket) run() {
	defer s.closeNow()
	defer s.services.Guard.Catch(guard.PlaceWebSocket, s.peer.closePanicked)
	s.SetWriteTimeout(s.services.Current().Config.Timeouts.Write.D())
	// If Write fails, all later reads and writes also fail.
	_, _ = s.peer.deferredConn.Conn.Write(s.handshakeResponse)
	s.handshakeResponse = nil
	s.services.Guard.PanicIfInjected("websocket.serve")
	s.peer.ws.SetReadLimit(-1) // Receive enforces the limit
	s.serveFunc()
}

func (s *Socket) closeNow() {
	s.peer.hasEnded.Store(true)
	if s.client != nil {
		s.client.MarkClientGone()
	}
	_ = s.peer.ws.CloseNow()
}

// NewRequest returns a POST request with a JSON body on behalf of the connection's client.
func (s *Socket) NewRequest(path string, query, body []byte) *fasthttp.RequestCtx {
	return newRequestCtx(callConn{Conn: s.serverConn, client: s.client, certPeer: s.certPeer}, path, query, s.upgradeHeaders, [][]byte{body}, int64(len(body)))
}

// SetWriteTimeout sets the timeout for later writes.
func (s *Socket) SetWriteTimeout(d time.Duration) {
	if s.client != nil {
		s.client.SetWriteTimeout(d)
	}
}

// Message is a client's message. The next call to Receive with the Message reuses its buffer.
type Message struct {
	clientMessage
	byteCounter *atomic.Int64
}

// NewIncomingMessage returns an empty Message. The memory of the message counts as an incomplete
// body. If reading is not nil, reading also counts the message's bytes.
func (s *Socket) NewIncomingMessage(reading *atomic.Int64) *Message {
	return &Message{byteCounter: reading}
}

// Bytes returns the message.
func (m *Message) Bytes() []byte { return m.bytes }

const maxKeptBuffer = 64 << 10

// ReleaseIfLarge releases the memory of a large message.
func (m *Message) ReleaseIfLarge() {
	if cap(m.bytes) > maxKeptBuffer {
		m.Free()
	}
}

// Free releases the memory of the message.
func (m *Message) Free() {
	if cap(m.bytes) > 0 {
		m.release()
	}
}

// Receive reads the next message. most is the maximum size of the message in bytes. announced is
// the maximum length that frames may announce. announced may exceed most, because the frame header
// of a later message may already have arrived.
//
// After an error, the connection has been closed or is being closed with the required code. clean
// reports whether the client has sent a close frame.
func (s *Socket) Receive(m *Message, most, announced int64) (clean bool, err error) {
	s.maxAnnounced.Store(announced)
	s.isReceiving.Store(true)
	kind, r, err := s.peer.ws.Reader(context.Background())
	s.isReceiving.Store(false)
	if err == nil && kind != websocket.MessageText {
		s.peer.closeConn(websocket.StatusUnsupportedData, "messages are JSON, as text")
		return false, errNotText
	}
	if err == nil {
		err = s.readMessage(m, r, most)
	}
	if err == nil && !utf8.Valid(m.bytes) {
		s.peer.closeConn(websocket.StatusInvalidFramePayloadData, "a message is not UTF-8")
		return false, errNotText
	}
	if err == nil {
		return false, nil
	}
	var refused *apierr.Error
	switch {
	case errors.Is(err, errAnnouncedTooLarge), errors.As(err, &refused):
		if refused == nil {
			refused = apierr.TooLarge(most)
		}
		lingerOnClose(s.client)
		return false, refused
	case websocket.CloseStatus(err) >= 0:
		return true, err
	}
	if code, reason := errorCloseCode(err); code != 0 {
		lingerOnClose(s.client)
		s.peer.closeConn(code, reason)
	}
	return false, err
}

var errNotText = errors.New("the message is not text")

// readMessage reads a message. It returns an *apierr.Error if the message is too large or no memory
// is left.
func (s *Socket) readMessage(m *Message, r io.Reader, most int64) error {
	snap := s.services.Current()
	rate, begun, armed := int64(snap.Config.Limits.UploadRate), time.Now(), time.Time{}
	if cap(m.bytes) == 0 {
		m.reservation = body.NewReservation(s.services.Bodies, m.byteCounter)
	}
	m.bytes = m.bytes[:0]
	// The deadline is removed, because a client may be silent between messages.
	defer func() { _ = s.serverConn.SetReadDeadline(time.Time{}) }()
	for {
		now := time.Now()
		if body.IsTooSlow(now.Sub(begun), int64(len(m.bytes)), m.reservation.ReservedBytes(), rate) {
			return errMessageTooSlow
		}
		if now.Sub(armed) > time.Second {
			_ = s.serverConn.SetReadDeadline(now.Add(snap.Config.Timeouts.ClientBody.D()))
			armed = now
		}
		if len(m.bytes) == cap(m.bytes) && !m.grow(most) {
			return body.MemoryFullError()
		}
		n, err := r.Read(m.bytes[len(m.bytes):cap(m.bytes)])
		m.bytes = m.bytes[:len(m.bytes)+n]
		switch {
		case int64(len(m.bytes)) > most:
			return apierr.TooLarge(most)
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		default:
			return mapTimeout(err)
		}
	}
}

// Send writes a message.
func (s *Socket) Send(p []byte) error { return s.peer.send(p) }

// Close closes the connection with a code. The client has a few seconds to confirm the close.
func (s *Socket) Close(code int, reason string) {
	s.peer.closeConn(websocket.StatusCode(code), reason)
}

// CloseUnupgraded closes a Socket if its upgrade request gets an ordinary response.
func (s *Socket) CloseUnupgraded() { _ = s.peer.ws.CloseNow() }

// PingClient reports whether the client answers a ping. It returns true without sending a ping if a
// message is being written, or if no Receive is running that could read the pong.
func (s *Socket) PingClient() bool {
	return !s.isReceiving.Load() || s.peer.pingPeer() || !s.isReceiving.Load()
}

// CloseNow closes the connection without a close frame.
func (s *Socket) CloseNow() { _ = s.peer.ws.CloseNow() }
