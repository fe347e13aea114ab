package call

import (
	"errors"
	"net"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/front/listen"
	"penstock/proxy/request/body"
	"penstock/translate/apierr"
)

type callClient struct {
	ctx              *fasthttp.RequestCtx // nil once the stream has left fasthttp
	conn             clientConn           // nil if the connection cannot be watched
	isHTTP11         bool
	hasCommonHeaders bool // whether the headers common to all answers are set
}

type clientConn interface {
	WatchDisconnect(w listen.DisconnectWaiter) (gone bool)
	UnwatchDisconnect(w listen.DisconnectWaiter)
	MarkAuthenticated()
	LingerOnClose()
	SetWriteTimeout(d time.Duration)
}

func clientConnection(c net.Conn) clientConn {
	if ours := listen.UnwrapConn(c); ours != nil {
		return ours
	}
	other, _ := c.(clientConn)
	return other
}

// clientAddress returns the client's IP address for the log, or "unix" for a Unix socket.
func clientAddress(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return a.Network()
}

func (cl *callClient) initFromRequest(ctx *fasthttp.RequestCtx) {
	cl.ctx, cl.conn, cl.isHTTP11 = ctx, clientConnection(ctx.Conn()), ctx.Request.Header.IsHTTP11()
}

const maxProxyRequestIDBytes = 128

// proxyRequestID returns the request id set by a trusted proxy. If no trusted proxy set an id, or
// if the id contains unsafe characters, it returns "".
func (cl *callClient) proxyRequestID() string {
	if ours := listen.UnwrapConn(cl.ctx.Conn()); ours == nil || !ours.IsFromListedProxy() {
		return ""
	}
	given := cl.ctx.Request.Header.PeekAll("X-Request-Id")
	if len(given) != 1 || len(given[0]) > maxProxyRequestIDBytes {
		return ""
	}
	for _, b := range given[0] {
		if (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && (b < '0' || b > '9') && strings.IndexByte("._-:/+=@", b) < 0 {
			return ""
		}
	}
	return string(given[0])
}

func (cl *callClient) hasBody() bool { return body.AnnouncedLength(&cl.ctx.Request.Header) != 0 }

// closeAfterResponse closes the connection after the response, because the body was not read
// completely. The connection lingers, so that a client that is still sending can read the response.
func (cl *callClient) closeAfterResponse() {
	cl.ctx.SetConnectionClose()
	if cl.conn != nil {
		cl.conn.LingerOnClose()
	}
}

// closeIfRequestTrailers closes the connection after the response if the chunked body had trailers.
// fasthttp accepts trailer names that other parsers reject, so it might parse the bytes after the
// trailers as a request.
func (cl *callClient) closeIfRequestTrailers() {
	if len(cl.ctx.Request.Header.PeekTrailerKeys()) > 0 {
		cl.ctx.SetConnectionClose()
	}
}

// refuseUnread returns err, with which a request is rejected before its body is read. If the
// request has a body, the connection closes after the response.
func (cl *callClient) refuseUnread(err error) error {
	if e := (*apierr.Error)(nil); errors.As(err, &e) && cl.hasBody() {
		cl.closeAfterResponse()
	}
	return err
}

// refuseBody returns err, with which a request is rejected whose body was not read completely. The
// connection closes after the response.
func (cl *callClient) refuseBody(err error) error {
	cl.closeAfterResponse()
	return err
}

func (cl *callClient) setWriteTimeout(d time.Duration) {
	if cl.conn != nil {
		cl.conn.SetWriteTimeout(d)
	}
}

// closeWithoutResponse closes the connection without a response. A client that disconnected cannot
// read a response. A client that closed only its sending side might mistake a response for the end
// of the answer.
func (cl *callClient) closeWithoutResponse() {
	cl.ctx.HijackSetNoResponse(true)
	cl.ctx.Hijack(func(net.Conn) {}) // fasthttp closes the connection when this function returns
}
