package http1

import (
	"bytes"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // RFC 6455 requires it, and nothing relies on its strength
	"encoding/base64"
	"io"
	"net"
	"time"

	"penstock/upstreams/http1/httptoken"
)

// WebSocketHandshake is a client's WebSocket handshake (RFC 6455, 4.1). It is passed as
// Request.BodyReader, so requests without a handshake require no additional check.
type WebSocketHandshake struct {
	key string // base64 of 16 random bytes
}

// NewWebSocketHandshake returns a handshake with a new random key.
func NewWebSocketHandshake() *WebSocketHandshake {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails
	return &WebSocketHandshake{key: base64.StdEncoding.EncodeToString(nonce[:])}
}

// Read implements io.Reader and returns io.EOF, because a handshake has no body.
func (*WebSocketHandshake) Read([]byte) (int, error) { return 0, io.EOF }

// websocketGUID is defined in RFC 6455, 1.3.
const websocketGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// AcceptKey returns the value of Sec-WebSocket-Accept for a key.
func AcceptKey(key string) string {
	sum := sha1.Sum([]byte(key + websocketGUID)) //nolint:gosec // see the import
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (t *Transport) appendUpgrade(dst []byte, r *Request, u *WebSocketHandshake) []byte {
	dst = append(append(append(append(dst, "GET "...), t.base...), r.Path...), " HTTP/1.1\r\n"...)
	dst = append(dst, t.fixedHeaders...)
	dst = appendField(dst, "Connection", "Upgrade")
	dst = appendField(dst, "Upgrade", "websocket")
	dst = appendField(dst, "Sec-WebSocket-Version", "13")
	dst = appendField(dst, "Sec-WebSocket-Key", u.key)
	dst = appendField(dst, "X-Request-Id", r.RequestID)
	dst = appendField(dst, "traceparent", r.Traceparent)
	dst = appendField(dst, "tracestate", r.Tracestate)
	return append(dst, "\r\n"...)
}

var errHandshake = &wireError{ReasonInvalid, "the answer to the WebSocket handshake is malformed"}

// UpgradedConn returns the connection after a response with status 101. The exchange still owns the
// connection: Abort and Close close it. The caller must not use it after Close. If the response
// does not accept the handshake u, UpgradedConn fails the exchange and returns the failure.
func (x *Exchange) UpgradedConn(u *WebSocketHandshake) (net.Conn, error) {
	if err := x.life.checkOpen(); err != nil {
		return nil, err
	}
	in := &x.reply.received
	rest := bytes.Clone(in.unreadBytes())
	in.pos = in.end // otherwise these bytes would count as unsolicited
	if x.reply.head.status != 101 || x.reply.head.nextLine > len(in.b) || !isAcceptedHandshake(in.b[:x.reply.head.nextLine], AcceptKey(u.key)) {
		return nil, x.failInvalid(errHandshake)
	}
	c := x.delivery.c
	_ = c.nc.SetDeadline(time.Time{}) // fails only on a closed socket, and the next read reports that
	return &upgradedConn{Conn: c.nc, c: c, buffered: rest}, nil
}

// isAcceptedHandshake reports whether a response head accepts a handshake (RFC 6455, 4.1).
func isAcceptedHandshake(head []byte, want string) bool {
	upgrades, accepted, connected := false, false, false
	for line := range bytes.SplitSeq(head, []byte{'\n'}) {
		name, value, found := bytes.Cut(line, []byte{':'})
		if !found {
			continue
		}
		value = bytes.TrimSpace(value)
		switch {
		case httptoken.EqualFold(name, "upgrade"):
			upgrades = httptoken.EqualFold(value, "websocket")
		case httptoken.EqualFold(name, "sec-websocket-accept"):
			accepted = string(value) == want
		case httptoken.EqualFold(name, "connection"):
			for token := range bytes.SplitSeq(value, []byte{','}) {
				connected = connected || httptoken.EqualFold(bytes.TrimSpace(token), "upgrade")
			}
		}
	}
	return upgrades && accepted && connected
}

// upgradedConn is the connection after an upgrade.
type upgradedConn struct {
	net.Conn
	c        *conn
	buffered []byte // bytes of the new protocol that arrived together with the head
}

// Read implements net.Conn.
func (u *upgradedConn) Read(p []byte) (int, error) {
	if len(u.buffered) > 0 {
		n := copy(p, u.buffered)
		u.buffered = u.buffered[n:]
		return n, nil
	}
	return u.Conn.Read(p)
}

// Close implements net.Conn. The caller must still close the exchange.
func (u *upgradedConn) Close() error {
	u.c.close()
	return nil
}

// ConvertFailure fails the exchange because of an error of the upgraded connection, and returns the
// failure. Only the exchange's owner may call it, and only while no read or write is running.
func (x *Exchange) ConvertFailure(err error) error {
	if gone := x.life.checkOpen(); gone != nil {
		return gone
	}
	return x.failTruncated(err)
}
