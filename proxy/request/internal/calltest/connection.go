package calltest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config/instant"
	"penstock/proxy/request/endpoint"
)

// Connection is a client's end of a plain connection. In contrast to Edge.Send, fasthttp serves the
// connection. The test therefore sees the bytes on the wire, and a stream leaves fasthttp as it
// does on a socket. The connection has no buffer, so each write of the edge blocks until the test
// has read the bytes.
type Connection struct {
	net.Conn
	edge *serverConn
	in   *bufio.Reader
}

// Connect opens a connection, which is closed at the latest when the test ends.
func (e *Edge) Connect() *Connection {
	near, far := net.Pipe()
	edge := &serverConn{clientConn: clientConn{Conn: far}}
	c := &Connection{Conn: near, edge: edge, in: bufio.NewReader(near)}
	e.connections = append(e.connections, c)
	e.served.Go(func() { _ = e.server.ServeConn(edge) })
	return c
}

func (e *Edge) newServer() *fasthttp.Server {
	return &fasthttp.Server{
		// The date would need a goroutine that never ends.
		NoDefaultDate: true, NoDefaultServerHeader: true, NoDefaultContentType: true,
		StreamRequestBody: true, DisablePreParseMultipartForm: true, Logger: quietLogger{},
		Handler: func(ctx *fasthttp.RequestCtx) {
			if !ctx.Request.Header.IsHTTP11() {
				ctx.SetConnectionClose()
			}
			ep := endpoint.EndpointByPath(ctx.Path())
			if ep == nil {
				e.t.Errorf("no endpoint is at %s", ctx.Path())
				return
			}
			e.Services.Handler(ep)(ctx)
		},
	}
}

// Post sends body to the endpoint at path with HTTP/1.1, and returns the response before its body
// has been read.
func (c *Connection) Post(path, body string, headers ...string) (*http.Response, error) {
	return c.PostProto("HTTP/1.1", path, body, headers...)
}

// PostProto is Post with another version of HTTP.
func (c *Connection) PostProto(proto, path, body string, headers ...string) (*http.Response, error) {
	lines := slices.Concat([]string{
		"POST " + path + " " + proto, "Host: edge", "Content-Type: application/json", fmt.Sprint("Content-Length: ", len(body)),
	}, headers, []string{"", body})
	if _, err := io.WriteString(c.Conn, strings.Join(lines, "\r\n")); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.in, nil)
}

// Close closes the connection. The running call notices it, because the edge watches the
// connections of running calls.
func (c *Connection) Close() error {
	err := c.Conn.Close()
	c.edge.mu.Lock()
	defer c.edge.mu.Unlock()
	if w := c.edge.waiter; w != nil {
		w.OnDisconnect()
	}
	return err
}

// serverConn is the edge's end of a Connection. It does what a listen.Conn does.
type serverConn struct {
	clientConn
	writeTimeout time.Duration
	onDetach     func()
}

func (c *serverConn) SetReadDeadline(t time.Time) error  { return c.Conn.SetReadDeadline(t) }
func (c *serverConn) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(t) }
func (c *serverConn) SetWriteTimeout(d time.Duration)    { c.writeTimeout = d }
func (c *serverConn) DetachOnClose(then func())          { c.onDetach = then }
func (c *serverConn) ResumeHTTP(time.Duration)           {}
func (c *serverConn) TryWrite([]byte) int                { return 0 }

func (c *serverConn) WriteWithNow(p []byte, _ instant.Time) (int, error) { return c.Write(p) }

func (c *serverConn) Write(p []byte) (int, error) {
	if c.writeTimeout > 0 {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(c.writeTimeout))
	}
	return c.Conn.Write(p)
}

func (c *serverConn) Close() error {
	if then := c.onDetach; then != nil {
		c.onDetach = nil
		then()
		return nil
	}
	return c.Conn.Close()
}
