package proxy

import (
	"net"

	"penstock/proxy/guard"
	"penstock/proxy/listen"
)

// carrier is a committed stream on a plain connection, which it takes out of fasthttp's hands: a stream may last an hour,
// and fasthttp would hold its read buffer (as large as the largest head), write buffer, context and a deep stack all that
// time, and copy every event once more. The carrier writes the head and the chunks itself. When the stream has ended well
// the connection goes back to fasthttp for its next request.
//
// A drain waits for it as for every open connection.
type carrier struct {
	relay
	conn *listen.Conn
	head []byte // of the answer; goes out with the first chunk
	keep bool   // the client may send another request on this connection
}

// chunkRoom is the room before a relay's bytes for the size line of their chunk: up to 8 digits, CR and LF.
const chunkRoom = 10

const (
	chunkEnd  = "\r\n"
	lastChunk = "0\r\n\r\n"
)

// carry arranges that r leaves fasthttp once the handler has returned. It returns false, and does nothing, when r has to
// stay: under TLS, whose closing fasthttp's end of a hijack would bring about, and while an upload is still to be read.
func (c *Call) carry(r relay) bool {
	conn, plain := c.ctx.Conn().(*listen.Conn)
	if !plain || c.upload != nil {
		return false
	}
	t := &carrier{relay: r, conn: conn}
	c.relay = &t.relay
	c.ctx.HijackSetNoResponse(true)
	c.ctx.Hijack(t.take)
	return true
}

// take is called by fasthttp when the handler has returned. After it fasthttp lets go of everything and closes the
// connection, which starts the stream instead. What its reader holds already of a next request goes back first.
func (t *carrier) take(from net.Conn) {
	defer t.call.edge.guard.Catch(guard.Stream, t.lose)
	ctx := t.call.ctx
	t.call.ctx = nil
	t.call.edge.guard.Point("carrier.take")
	h := &ctx.Response.Header
	h.SetContentLength(-1)
	t.keep = !ctx.Request.Header.ConnectionClose() && !h.ConnectionClose()
	if !t.keep {
		h.SetConnectionClose()
	}
	t.head = h.AppendBytes(make([]byte, 0, 512))
	t.conn.Unread(from)
	t.conn.DetachOnClose(t.serve)
}

// lose ends a stream that has panicked outside of run. The connection is closed by fasthttp, or by serve.
func (t *carrier) lose() {
	if t.call != nil {
		defer t.relay.Close() //nolint:errcheck // it has none to give
		t.call.fail(internalError(errPanicked))
	}
}

// serve runs the stream, and after it whatever follows on the connection.
func (t *carrier) serve() {
	e, conn := t.call.edge, t.conn
	defer e.guard.Catch(guard.Stream, func() {
		defer conn.Close() //nolint:errcheck // it is closed either way
		t.lose()
	})
	_, err := t.run(t)
	e.guard.Point("carrier.serve")
	_ = t.relay.Close()
	keep := t.keep && err == nil
	t.conn, t.head = nil, nil
	if !keep {
		_ = conn.Close()
		return
	}
	conn.Resume(e.current.Load().Config.Timeouts.ClientIdle.D())
	_ = e.public.ServeConn(conn) // closes it; what went wrong was the client's and has been answered
}

// write implements outlet: one write holds the head if it has not gone, the chunk, and the last chunk if it is time.
func (t *carrier) write(out *[]byte, last bool) (int, error) {
	b, payload := *out, len(*out)-chunkRoom
	start := chunkRoom
	if payload > 0 {
		start = sizeLine(b[:chunkRoom], payload)
		b = append(b, chunkEnd...)
	}
	if last {
		b = append(b, lastChunk...)
	}
	*out = b // may have grown
	b = b[start:]
	if len(t.head) > 0 {
		b = append(t.head, b...) // a fresh slice, once in a stream
		t.head = nil
	}
	if len(b) == 0 {
		return 0, nil
	}
	if _, err := t.conn.Write(b); err != nil {
		return 0, err
	}
	return payload, nil
}

// sizeLine writes the size line of a chunk of n bytes to the end of room and returns where it begins.
func sizeLine(room []byte, n int) (start int) {
	i := len(room)
	i -= copy(room[i-len(chunkEnd):], chunkEnd)
	for ; n > 0; n >>= 4 {
		i--
		room[i] = "0123456789abcdef"[n&15]
	}
	return i
}
