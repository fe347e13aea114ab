package call

import (
	"errors"
	"net"
	"slices"

	"penstock/proxy/front/listen"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/guard"
	"penstock/upstreams/http1"
)

// hijackedStream is a committed stream on a plain connection that has left fasthttp. It writes the
// headers and the chunks without fasthttp. After a successful stream, fasthttp serves the next
// request on the connection. Like any open connection, a running stream delays the drain of the
// edge.
type hijackedStream struct {
	relay
	conn *listen.Conn
	head []byte // response headers, written with the first chunk
	rest []byte // bytes that Conn.TryWrite could not write; sent before the next chunk
	keep bool   // whether the client may send another request on this connection
}

// chunkRoom is the space before a relay's bytes that is reserved for the size line of a chunk: up
// to 8 digits, CR and LF.
const chunkRoom = 10

const (
	chunkEnd  = "\r\n"
	lastChunk = "0\r\n\r\n"
)

// hijack moves a stream out of fasthttp after the handler has returned. It returns false if the
// stream must stay:
//
//   - The connection uses TLS, and fasthttp would close it at the end of a hijack.
//   - Part of a form has not been read yet.
//
// A stream over HTTP/1.0 always leaves fasthttp, because fasthttp cannot write it.
func hijack(r relay) bool {
	c := r.call
	ctx := c.client.ctx
	if !c.client.http11 {
		hijackHTTP10(r)
		return true
	}
	conn, plain := ctx.Conn().(*listen.Conn)
	if !plain || c.ep.Form {
		return false
	}
	t := &hijackedStream{relay: r, conn: conn}
	c.relay = &t.relay
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(t.takeConn)
	return true
}

// headRoom is large enough for the headers and the first chunk of nearly every stream.
const headRoom = 1 << 10

// takeConn receives the connection after the handler has returned. If fasthttp's reader has
// buffered bytes of the next request, takeConn puts them back into the connection. fasthttp then
// releases its memory and calls Close. This call starts the stream and does not close the
// connection.
func (t *hijackedStream) takeConn(from net.Conn) {
	defer t.call.shared.Guard.Catch(guard.Stream, t.panicked)
	ctx := t.call.client.ctx
	t.call.client.ctx = nil
	t.call.shared.Guard.Point("stream.hijack")
	h := &ctx.Response.Header
	h.SetContentLength(-1)
	t.keep = !ctx.Request.Header.ConnectionClose() && !h.ConnectionClose()
	if !t.keep {
		h.SetConnectionClose()
	}
	t.head = h.AppendBytes(make([]byte, 0, headRoom))
	t.conn.Unread(from)
	t.conn.DetachOnClose(t.serve)
}

// panicked ends a stream after a panic outside of run. The caller closes the connection.
func (t *hijackedStream) panicked() {
	if t.call != nil {
		defer t.relay.Close() //nolint:errcheck // it has none to give
		t.call.fail(failure.Internal(failure.ErrPanicked))
	}
}

func (t *hijackedStream) serve() {
	shared, conn := t.call.shared, t.conn
	defer shared.Guard.Catch(guard.Stream, func() {
		defer conn.Close() //nolint:errcheck // it is closed either way
		t.panicked()
	})
	t.step = t.pass
	_, err := t.run(t)
	shared.Guard.Point("stream.serve")
	_ = t.relay.Close()
	keep := t.keep && err == nil
	t.conn, t.head = nil, nil
	if !keep {
		_ = conn.Close()
		return
	}
	conn.Resume(shared.Current().Config.Timeouts.ClientIdle.D())
	// ServeNext closes the connection. Its errors have already been reported to the client.
	_ = shared.ServeNext(conn)
}

// write sends the headers, the chunk and the last chunk in one write.
func (t *hijackedStream) write(out *[]byte, last bool) (int, error) {
	if len(t.rest) > 0 {
		if _, err := t.conn.WriteNow(t.rest, t.now); err != nil {
			return 0, err
		}
		t.rest = nil
	}
	payload := len(*out) - chunkRoom
	b, before := t.frame(out, last)
	if len(b) == 0 {
		return 0, nil
	}
	if n, err := t.conn.WriteNow(b, t.now); err != nil {
		return min(max(n-before, 0), payload), err
	}
	return payload, nil
}

// frame returns the bytes for the client: the headers if they have not been sent yet, the chunk in
// out, and the last chunk if last is set. before is the number of bytes before the chunk's payload.
func (t *hijackedStream) frame(out *[]byte, last bool) (b []byte, before int) {
	b, payload := *out, len(*out)-chunkRoom
	start := chunkRoom
	if payload > 0 {
		start = sizeLine(b[:chunkRoom], payload)
		b = append(b, chunkEnd...)
	}
	if last {
		b = append(b, lastChunk...)
	}
	*out = b // append may have reallocated the buffer
	b = b[start:]
	before = chunkRoom - start + len(t.head)
	if len(t.head) > 0 {
		b = append(t.head, b...)
		t.head = nil
	}
	return b, before
}

// pass is the step of a stream that stays in the poller. It translates newly arrived events and
// writes them to the client. It returns false if run must continue: before the first event has been
// recorded, at the end, after an error, or if the client's socket is full.
func (t *hijackedStream) pass() bool {
	c := t.call
	if c.record.TTFT == 0 || c.body.Held() {
		return false
	}
	t.out = newOut()
	if t.pull(atOnce); len(*t.out) == chunkRoom && !t.pulled.done && errors.Is(t.pulled.err, http1.ErrNotYet) {
		t.recycleOut() // only part of an event has arrived
		t.pulled = pulled{}
		return true
	}
	if t.pulled.done || t.pulled.err != nil {
		return false
	}
	payload := len(*t.out) - chunkRoom
	b, _ := t.frame(t.out, false)
	n := t.conn.TryWrite(b)
	t.noteEvents()
	t.shown = t.now
	c.participants.shown((*t.out)[chunkRoom : chunkRoom+payload])
	c.record.BytesOut += int64(payload)
	if n < len(b) {
		t.rest = slices.Clone(b[n:])
		*t.out = (*t.out)[:chunkRoom]
		return false
	}
	t.recycleOut()
	t.pulled = pulled{}
	return true
}

// sizeLine writes the size line of a chunk with n bytes to the end of room, and returns the offset
// of the line.
func sizeLine(room []byte, n int) (start int) {
	i := len(room)
	i -= copy(room[i-len(chunkEnd):], chunkEnd)
	for ; n > 0; n >>= 4 {
		i--
		room[i] = "0123456789abcdef"[n&15]
	}
	return i
}
