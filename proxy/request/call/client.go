package call

import (
	"net"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/front/listen"
	"penstock/proxy/request/body"
	"penstock/proxy/request/endpoint"
)

// client is the client's side of a call: the request and the connection.
type client struct {
	ctx       *fasthttp.RequestCtx // nil once the answer has left fasthttp
	conn      connection           // nil: the connection cannot be watched
	requestID []byte
	lines     []byte // the header lines that every answer has, once they are set
	http11    bool
}

// connection has the methods that a call needs from the client's connection in addition to reading
// and writing. listen.Conn implements it.
type connection interface {
	Watch(w listen.Waiter) (gone bool)
	Unwatch(w listen.Waiter)
	ShowedKey()
	Linger()
	SetWriteTimeout(d time.Duration)
}

func connectionOf(c net.Conn) connection {
	if ours := listen.ConnOf(c); ours != nil {
		return ours
	}
	other, _ := c.(connection)
	return other
}

// clientAddress returns the address of a client for the log: its IP address, or "unix" for a peer at
// a Unix socket.
func clientAddress(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return a.Network()
}

func (cl *client) begin(ctx *fasthttp.RequestCtx) {
	cl.ctx, cl.conn, cl.http11 = ctx, connectionOf(ctx.Conn()), ctx.Request.Header.IsHTTP11()
	cl.requestID = endpoint.AppendRequestID(cl.requestID[:0])
}

// longestProxyID is the maximum length of a request id from a proxy.
const longestProxyID = 128

// proxyRequestID returns the request id from a proxy if the proxy is a listed peer and the id is
// plain, otherwise "".
func (cl *client) proxyRequestID() string {
	if ours := listen.ConnOf(cl.ctx.Conn()); ours == nil || !ours.FromProxy() {
		return ""
	}
	given := cl.ctx.Request.Header.PeekAll("X-Request-Id")
	if len(given) != 1 || len(given[0]) > longestProxyID {
		return ""
	}
	for _, b := range given[0] {
		if (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && (b < '0' || b > '9') && strings.IndexByte("._-:/+=@", b) < 0 {
			return ""
		}
	}
	return string(given[0])
}

// hasBody reports whether the client has announced a body.
func (cl *client) hasBody() bool { return body.Announced(&cl.ctx.Request.Header) != 0 }

// closeAfterResponse closes the connection after the answer, because the body was not read to its
// end. The connection lingers, so that a client that is still sending can read the answer.
func (cl *client) closeAfterResponse() {
	cl.ctx.SetConnectionClose()
	if cl.conn != nil {
		cl.conn.Linger()
	}
}

// endChunked closes the connection after the answer if trailers followed the body's last chunk. The
// edge does not read trailers, and fasthttp accepts names in trailers that other parsers refuse, so
// fasthttp might take the bytes after the trailers for a request.
func (cl *client) endChunked() {
	if len(cl.ctx.Request.Header.PeekTrailerKeys()) > 0 {
		cl.ctx.SetConnectionClose()
	}
}

// extendWrite sets how long the next write to the client may take.
func (cl *client) extendWrite(d time.Duration) {
	if cl.conn != nil {
		cl.conn.SetWriteTimeout(d)
	}
}

// hangUp closes the connection without an answer. A client that has left would not read one. A
// client that has closed only its sending side must not mistake one for the end of its call.
func (cl *client) hangUp() {
	cl.ctx.HijackSetNoResponse(true)
	cl.ctx.Hijack(func(net.Conn) {}) // fasthttp then closes the connection
}
