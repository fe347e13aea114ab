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

const maxEngineMessage = 1 << 20

// adoptConn returns the library's client connection for conn. Package http1 has already completed
// the handshake of conn. The library insists on a handshake, so adoptConn simulates a successful
// one.
func adoptConn(conn net.Conn) (*websocket.Conn, error) {
	ws, _, err := websocket.Dial(context.Background(), "ws://engine/", &websocket.DialOptions{
		HTTPClient:      &http.Client{Transport: adoptedTransport{conn}},
		CompressionMode: websocket.CompressionDisabled,
	})
	if err == nil {
		ws.SetReadLimit(maxEngineMessage)
	}
	return ws, err
}

type adoptedTransport struct{ conn net.Conn }

func (a adoptedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Request: r, Body: a.conn,
		Header: http.Header{
			"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
			"Sec-Websocket-Accept": {http1.AcceptKey(r.Header.Get("Sec-WebSocket-Key"))},
		},
	}, nil
}

// readTextMessage reads the next message into buf. It returns errBinaryMessage if the message is
// not text.
func readTextMessage(ws *websocket.Conn, buf *bytes.Buffer) error {
	kind, r, err := ws.Reader(context.Background())
	if err != nil {
		return err
	}
	if kind != websocket.MessageText {
		return errBinaryMessage
	}
	if buf.Cap() > maxReusedBuffer {
		*buf = bytes.Buffer{}
	}
	buf.Reset()
	_, err = io.Copy(buf, r)
	return err
}

// maxReusedBuffer is the maximum size of a buffer that is reused for the next message.
const maxReusedBuffer = 16 << 10
