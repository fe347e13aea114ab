package realtime

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"

	"github.com/coder/websocket"

	"penstock/upstreams/http1"
)

// mostOfEngine is the maximum length of an engine's message.
const mostOfEngine = 1 << 20

// adopt returns the library's client end of a connection whose handshake package http1 has made.
// The library insists on a handshake, so adopt gives it one that has already succeeded.
func adopt(conn net.Conn) (*websocket.Conn, error) {
	ws, _, err := websocket.Dial(context.Background(), "ws://engine/", &websocket.DialOptions{
		HTTPClient:      &http.Client{Transport: adopted{conn}},
		CompressionMode: websocket.CompressionDisabled,
	})
	if err == nil {
		ws.SetReadLimit(mostOfEngine)
	}
	return ws, err
}

// adopted is the http.RoundTripper of adopt.
type adopted struct{ conn net.Conn }

// RoundTrip implements http.RoundTripper.
func (a adopted) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Request: r, Body: a.conn,
		Header: http.Header{
			"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
			"Sec-Websocket-Accept": {http1.AcceptOf(r.Header.Get("Sec-WebSocket-Key"))},
		},
	}, nil
}

// readText reads the next message into buf. It returns errBinary for a message that is not text.
func readText(ws *websocket.Conn, buf *bytes.Buffer) error {
	kind, r, err := ws.Reader(context.Background())
	if err != nil {
		return err
	}
	if kind != websocket.MessageText {
		return errBinary
	}
	if buf.Cap() > keptBuffer {
		*buf = bytes.Buffer{}
	}
	buf.Reset()
	_, err = io.Copy(buf, r)
	return err
}

// keptBuffer is the maximum size of a buffer that is kept for the next message.
const keptBuffer = 16 << 10
