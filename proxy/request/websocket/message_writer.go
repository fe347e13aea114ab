package websocket

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/valyala/fasthttp"

	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/observe"
	"penstock/translate/apierr"
)

const (
	// pingEvery is the interval between pings. Pings also prevent load balancers from closing the
	// connection. A peer that does not answer within this time counts as disconnected.
	pingEvery = 30 * time.Second
	// pongTimeout is the maximum time for which a pong waits while another message is being
	// written.
	pongTimeout = 4 * time.Second
	// closeTimeout is how long the peer may take to confirm a close frame. Without this limit, the
	// library could wait forever for the end of an unfinished message.
	closeTimeout = 5 * time.Second
)

// messageWriter writes to a connection. Its methods may be called by multiple goroutines.
type messageWriter struct {
	ws           *websocket.Conn
	deferredConn *deferredConn
	writeSlot    chan struct{} // contains one element while a message is being written
	joinBuf      []byte        // used only by the goroutine that is writing
	hasEnded     atomic.Bool   // whether no more messages may be sent
	rejections   *observe.Calls
	guard        *guard.Guard
}

// deferredConn is a connection that is set after fasthttp has sent the handshake response.
type deferredConn struct {
	net.Conn
	serverConn    net.Conn
	headerScanner frameHeaderScanner
}

// Read implements net.Conn. It returns an error after a frame header that violates the protocol.
func (c *deferredConn) Read(p []byte) (int, error) {
	if c.headerScanner.violation != nil {
		return 0, c.headerScanner.violation
	}
	n, err := c.Conn.Read(p)
	if seen := c.headerScanner.scan(p[:n]); seen < n {
		return seen, c.headerScanner.violation
	}
	return n, err
}

// Close implements net.Conn. It does nothing while the connection belongs to fasthttp.
func (c *deferredConn) Close() error {
	if c.Conn == nil {
		return nil
	}
	return c.serverConn.Close()
}

func (p *messageWriter) closeConn(code websocket.StatusCode, reason string) {
	p.hasEnded.Store(true)
	defer time.AfterFunc(closeTimeout, p.cutConn).Stop()
	_ = p.ws.Close(code, reason) // the library closes the connection even if this fails
}

func (p *messageWriter) cutConn() {
	defer p.guard.Catch(guard.PlaceWebSocket, nil)
	_ = p.deferredConn.Close()
}

func (p *messageWriter) closePanicked() { p.closeConn(websocket.StatusInternalError, "internal error") }

func (p *messageWriter) sendError(lane string, e *apierr.Error) {
	p.rejections.CountRefused(e.Code)
	var headers []headerField
	if n := e.RetryAfterSeconds(); n > 0 {
		headers = []headerField{{fasthttp.HeaderRetryAfter, strconv.Itoa(n)}}
	}
	// If send fails, reading also fails.
	_ = p.send(appendError(nil, lane, e.Status, e.AppendBody(nil), headers))
}

// pingPeer reports whether the peer answers a ping. It also returns true if a message is being
// written.
func (p *messageWriter) pingPeer() bool {
	select {
	case p.writeSlot <- struct{}{}:
		<-p.writeSlot
	default:
		return true
	}
	limit, cancel := context.WithTimeout(context.Background(), pingEvery)
	defer cancel()
	return p.ws.Ping(limit) == nil
}

// mayPong reports whether the library may answer a ping. It returns false if the peer does not read
// the message that is being written. In that case, waiting to send the pong would end the
// connection.
func (p *messageWriter) mayPong(ctx context.Context) bool {
	limit, cancel := context.WithTimeout(ctx, pongTimeout)
	defer cancel()
	select {
	case p.writeSlot <- struct{}{}:
		<-p.writeSlot
		return true
	case <-limit.Done():
		return false
	}
}

// maxJoinedWriteBytes is the maximum size of a message whose pieces are joined before the message is
// written. A larger message is written piece by piece.
const maxJoinedWriteBytes = 64 << 10

// send writes a message that consists of pieces. The write timeout of listen.Conn applies.
func (p *messageWriter) send(pieces ...[]byte) error {
	p.writeSlot <- struct{}{}
	defer func() { <-p.writeSlot }()
	size := 0
	for _, piece := range pieces {
		size += len(piece)
	}
	if len(pieces) == 1 || size <= maxJoinedWriteBytes {
		message := pieces[0]
		if len(pieces) > 1 {
			message = p.joinPieces(pieces)
		}
		return p.ws.Write(context.Background(), websocket.MessageText, message)
	}
	w, err := p.ws.Writer(context.Background(), websocket.MessageText)
	for i := 0; i < len(pieces) && err == nil; i++ {
		_, err = w.Write(pieces[i])
	}
	if err != nil {
		return err
	}
	return w.Close()
}

// joinPieces joins the pieces of a message. It reuses a small buffer for later messages.
func (p *messageWriter) joinPieces(pieces [][]byte) []byte {
	message := p.joinBuf[:0]
	for _, piece := range pieces {
		message = append(message, piece...)
	}
	if cap(message) <= writeBufferSize {
		p.joinBuf = message
	}
	return message
}
