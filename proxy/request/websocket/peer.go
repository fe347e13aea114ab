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
	// pongPatience is how long a pong waits until the current message has been written.
	pongPatience = 4 * time.Second
	// closeTime is how long the peer may take to confirm a close frame. Without this limit, the
	// library could wait forever for the end of an unfinished message.
	closeTime = 5 * time.Second
)

// peer writes to a connection. Its methods may be called by multiple goroutines.
type peer struct {
	ws      *websocket.Conn
	late    *lateConn
	writing chan struct{} // contains an element while a message is being written
	joint   []byte        // used only by the current writer
	ended   atomic.Bool   // whether no more messages may be sent
	refused *observe.Calls
	guard   *guard.Guard
}

// lateConn is a connection that is set only after fasthttp has sent the handshake response.
type lateConn struct {
	net.Conn
	raw   net.Conn
	heads frameHeads
}

// Read implements net.Conn. It returns an error after a frame header that violates the protocol.
func (c *lateConn) Read(p []byte) (int, error) {
	if c.heads.wrong != nil {
		return 0, c.heads.wrong
	}
	n, err := c.Conn.Read(p)
	if seen := c.heads.scan(p[:n]); seen < n {
		return seen, c.heads.wrong
	}
	return n, err
}

// Close implements net.Conn. It does nothing while the connection belongs to fasthttp.
func (c *lateConn) Close() error {
	if c.Conn == nil {
		return nil
	}
	return c.raw.Close()
}

func (p *peer) close(code websocket.StatusCode, reason string) {
	p.ended.Store(true)
	defer time.AfterFunc(closeTime, p.cut).Stop()
	_ = p.ws.Close(code, reason) // the library closes the connection even if this fails
}

func (p *peer) cut() {
	defer p.guard.Catch(guard.WebSocket, nil)
	_ = p.late.Close()
}

func (p *peer) panicked() { p.close(websocket.StatusInternalError, "internal error") }

func (p *peer) refuse(lane string, e *apierr.Error) {
	p.refused.Refused(e.Code)
	var headers []header
	if n := e.RetryAfterSeconds(); n > 0 {
		headers = []header{{fasthttp.HeaderRetryAfter, strconv.Itoa(n)}}
	}
	// If this fails, reading fails as well.
	_ = p.send(appendError(nil, lane, e.Status, e.Append(nil), headers))
}

// ping reports whether the peer answers a ping. It also returns true if a message is being written.
func (p *peer) ping() bool {
	select {
	case p.writing <- struct{}{}:
		<-p.writing
	default:
		return true
	}
	limit, cancel := context.WithTimeout(context.Background(), pingEvery)
	defer cancel()
	return p.ws.Ping(limit) == nil
}

// mayPong reports whether to answer a ping. It returns false if the peer does not read the message
// that is being written. Waiting to send the pong would then end the connection.
func (p *peer) mayPong(ctx context.Context) bool {
	limit, cancel := context.WithTimeout(ctx, pongPatience)
	defer cancel()
	select {
	case p.writing <- struct{}{}:
		<-p.writing
		return true
	case <-limit.Done():
		return false
	}
}

// joined is the maximum size of a message whose pieces are joined before the message is written. A
// larger message is written piece by piece.
const joined = 64 << 10

// send writes a message that consists of pieces. The write timeout of listen.Conn applies.
func (p *peer) send(pieces ...[]byte) error {
	p.writing <- struct{}{}
	defer func() { <-p.writing }()
	size := 0
	for _, piece := range pieces {
		size += len(piece)
	}
	if len(pieces) == 1 || size <= joined {
		message := pieces[0]
		if len(pieces) > 1 {
			message = p.join(pieces)
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

// join joins the pieces of a message. It reuses a small buffer for the next message.
func (p *peer) join(pieces [][]byte) []byte {
	message := p.joint[:0]
	for _, piece := range pieces {
		message = append(message, piece...)
	}
	if cap(message) <= writeBuffer {
		p.joint = message
	}
	return message
}
