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
	// pingEvery is the interval at which the peer is pinged. The pings also keep balancers in front
	// of the edge from closing the connection. A peer that does not answer within this time counts
	// as gone.
	pingEvery = 30 * time.Second
	// pongPatience is how long the answer to a ping may wait for the current message to be written.
	pongPatience = 4 * time.Second
	// closeTime is the time that the peer has to confirm a close frame. The library would read the
	// rest of a message without a limit.
	closeTime = 5 * time.Second
)

// peer is the writing side of a connection. Any goroutine may call its methods.
type peer struct {
	ws      *websocket.Conn
	late    *lateConn
	writing chan struct{} // holds an element while a message is being written
	joint   []byte        // only the current writer uses it
	ended   atomic.Bool   // no new message may be started
	refused *observe.Calls
	guard   *guard.Guard
}

// lateConn is a connection that is set once fasthttp has sent the answer to its request.
type lateConn struct {
	net.Conn
	raw   net.Conn // the connection that Close closes
	heads frameHeads
}

// Read implements net.Conn. It reads nothing after the head of a frame that violates the protocol.
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

// Close implements net.Conn. A connection that was never set still belongs to fasthttp and is not
// closed.
func (c *lateConn) Close() error {
	if c.Conn == nil {
		return nil
	}
	return c.raw.Close()
}

// close closes the connection with a code. No new message is started, and the peer has closeTime to
// confirm.
func (p *peer) close(code websocket.StatusCode, reason string) {
	p.ended.Store(true)
	defer time.AfterFunc(closeTime, p.cut).Stop()
	_ = p.ws.Close(code, reason) // the connection is closed either way
}

// cut closes the socket.
func (p *peer) cut() {
	defer p.guard.Catch(guard.WebSocket, nil)
	_ = p.late.Close()
}

// panicked ends the connection after a panic.
func (p *peer) panicked() { p.close(websocket.StatusInternalError, "internal error") }

// refuse tells the client that its message does not become a call, and counts the refusal.
func (p *peer) refuse(lane string, e *apierr.Error) {
	p.refused.Refused(e.Code)
	var headers []header
	if n := e.RetryAfterSeconds(); n > 0 {
		headers = []header{{fasthttp.HeaderRetryAfter, strconv.Itoa(n)}}
	}
	_ = p.send(appendError(nil, lane, e.Status, e.Append(nil), headers)) // if this fails, reading fails, too
}

// ping reports whether the peer answers, or a message to it is still being written.
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

// mayPong reports whether to answer a ping. A peer that does not read the message that is being
// written gets no answer. It would not see the answer, and waiting for it would end the connection.
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

// joined is the maximum length of a message whose pieces are joined before it is written. A longer
// message is written piece by piece.
const joined = 64 << 10

// send writes a message, given in pieces, within the time that listen.Conn.SetWriteTimeout gave.
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

// join joins pieces. It keeps the buffer of a small message for the next message.
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
