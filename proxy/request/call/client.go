package call

import (
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/front/listen"
	"penstock/proxy/request/body"
	"penstock/proxy/request/endpoint"
)

// client is the client's side of a call: its request and its connection.
type client struct {
	ctx       *fasthttp.RequestCtx // nil once the answer has left fasthttp
	conn      connection           // nil: one that cannot be watched
	requestID []byte
	http11    bool
}

// connection is what a call asks of its client's connection beside bytes. See listen.Conn, which is
// one.
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

func (cl *client) begin(ctx *fasthttp.RequestCtx) {
	cl.ctx, cl.conn, cl.http11 = ctx, connectionOf(ctx.Conn()), ctx.Request.Header.IsHTTP11()
	cl.requestID = endpoint.AppendRequestID(cl.requestID[:0])
}

// hasBody reports whether the client has announced a body.
func (cl *client) hasBody() bool { return body.Announced(&cl.ctx.Request.Header) != 0 }

// closeAfterResponse marks the call as answered before its body was read to the end: the connection
// ends with the answer, and lingers so that a client that is still sending can read it.
func (cl *client) closeAfterResponse() {
	cl.ctx.SetConnectionClose()
	if cl.conn != nil {
		cl.conn.Linger()
	}
}

// endChunked ends the connection with the answer when trailers followed the body's last chunk. The
// edge does not read them, and fasthttp accepts names in them that other parsers refuse, so the
// bytes that follow may be a request to fasthttp alone.
func (cl *client) endChunked() {
	if len(cl.ctx.Request.Header.PeekTrailerKeys()) > 0 {
		cl.ctx.SetConnectionClose()
	}
}

// extendWrite gives the next write to the client its time.
func (cl *client) extendWrite(d time.Duration) {
	if cl.conn != nil {
		cl.conn.SetWriteTimeout(d)
	}
}

// hangUp ends the connection without an answer: the client has left and reads none, and a client
// that has only closed its sending side must not take an answer for the end of its call.
func (cl *client) hangUp() {
	cl.ctx.HijackSetNoResponse(true)
	cl.ctx.Hijack(func(net.Conn) {}) // fasthttp closes it then
}
