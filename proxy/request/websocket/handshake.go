package websocket

import (
	"bufio"
	"context"
	"net"
	"net/http"

	"github.com/coder/websocket"
	"github.com/valyala/fasthttp"

	"penstock/proxy/request/body"
	"penstock/translate/apierr"
)

// These are the sizes of a connection's permanent buffers. Larger messages bypass these buffers.
const (
	readBufferSize  = 1 << 10
	writeBufferSize = 2 << 10
)

// handshakeWriter is the http.ResponseWriter for websocket.Accept. It records the response, which
// fasthttp then sends.
type handshakeWriter struct {
	header http.Header
	status int
	conn   *deferredConn
}

func (h *handshakeWriter) Header() http.Header         { return h.header }
func (h *handshakeWriter) Write(p []byte) (int, error) { return len(p), nil }
func (h *handshakeWriter) WriteHeader(status int)      { h.status = status }

func (h *handshakeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(
		bufio.NewReaderSize(h.conn, readBufferSize), bufio.NewWriterSize(h.conn, writeBufferSize)), nil
}

func acceptHandshake(ctx *fasthttp.RequestCtx, protocols ...string) (*messageWriter, *apierr.Error) {
	from := &ctx.Request.Header
	if n := body.AnnouncedLength(from); n > 0 || n == -1 { // for a GET without a body, the length is -2
		ctx.SetConnectionClose()
		return nil, apierr.BadRequest("A request for WebSocket has no body: messages follow the answer.")
	}
	request := http.Request{Method: http.MethodGet, ProtoMajor: 1, Header: http.Header{}}
	if from.IsHTTP11() {
		request.ProtoMinor = 1
	}
	for _, name := range [...]string{"Connection", "Upgrade", "Sec-Websocket-Version", "Sec-Websocket-Key", "Sec-Websocket-Protocol"} {
		for _, value := range from.PeekAll(name) {
			request.Header.Add(name, string(value))
		}
	}
	if len(request.Header["Sec-Websocket-Version"]) > 1 { // the library reads only the first value
		request.Header.Del("Sec-Websocket-Version")
	}
	h := &handshakeWriter{header: http.Header{}, conn: &deferredConn{serverConn: ctx.Conn()}}
	p := &messageWriter{deferredConn: h.conn, writeSlot: make(chan struct{}, 1)}
	ws, err := websocket.Accept(h, &request, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the edge checks the origin of every request
		CompressionMode:    websocket.CompressionDisabled,
		Subprotocols:       protocols,
		OnPingReceived:     func(ctx context.Context, _ []byte) bool { return p.mayPong(ctx) },
	})
	response := &ctx.Response
	for _, name := range [...]string{"Connection", "Upgrade", "Sec-Websocket-Version", "Sec-Websocket-Accept", "Sec-Websocket-Protocol"} {
		if value := h.header.Get(name); value != "" {
			response.Header.Set(name, value)
		}
	}
	if err != nil { // the library's error may quote the client
		return nil, apierr.New(h.status, apierr.CodeBadRequest, "The WebSocket handshake is malformed (RFC 6455, 4.2.1).")
	}
	response.SetStatusCode(h.status)
	p.ws = ws
	return p, nil
}
