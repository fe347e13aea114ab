package call

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"penstock/proxy/front/listen"
	"penstock/proxy/request/attempt"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/guard"
	"penstock/upstreams/http1"
)

// detachedStream is a committed stream on a plain connection. It leaves fasthttp after the first
// chunk, so that fasthttp releases its memory, and writes the other chunks itself. After a
// successful stream, fasthttp serves the next request on the connection. Like any open connection, a
// running stream delays the drain of the edge.
type detachedStream struct {
	relay
	conn *listen.Conn
	rest []byte // bytes that Conn.TryWrite could not write; sent before the next chunk
	keep bool   // whether the client may send another request on this connection
	left bool   // whether the stream has left fasthttp, which then does not finish the call
}

// chunkRoom is the space before a relay's bytes that is reserved for the size line of a chunk: up
// to 8 digits, CR and LF.
const chunkRoom = 10

const (
	chunkEnd  = "\r\n"
	lastChunk = "0\r\n\r\n"
)

// detached returns the stream that is to leave fasthttp, or nil if it must stay:
//
//   - The connection uses TLS, which fasthttp would shut down.
//   - Part of a form has not been read yet.
func detached(r relay) *detachedStream {
	conn, plain := r.call.client.ctx.Conn().(*listen.Conn)
	if !plain || r.call.ep.Form {
		return nil
	}
	r.leaves = true
	return &detachedStream{relay: r, conn: conn}
}

// errLeft makes fasthttp release its memory and close the connection. This call of Close starts the
// stream. fasthttp does not report an unexpected EOF.
var errLeft = fmt.Errorf("the stream has left the server: %w", io.ErrUnexpectedEOF)

// WriteTo implements io.WriterTo. It writes the headers and the first chunk, and leaves fasthttp.
func (t *detachedStream) WriteTo(w io.Writer) (n int64, err error) {
	shared := t.call.shared
	defer shared.Guard.Catch(guard.Stream, func() {
		t.panicked()
		err = failure.ErrPanicked
	})
	shared.Guard.Point("stream.leave")
	if n, err = t.run(fasthttpWriter{w}); !errors.Is(err, errLeft) {
		return n, err
	}
	client := &t.call.client
	t.keep = !client.ctx.Response.Header.ConnectionClose() // fasthttp copies the header of the request
	client.ctx = nil
	t.left = true
	t.conn.DetachOnClose(t.serve)
	return n, err
}

// Close implements io.Closer, for fasthttp.
func (t *detachedStream) Close() error {
	if t.left {
		return nil
	}
	return t.relay.Close()
}

func (t *detachedStream) panicked() {
	if t.call != nil {
		defer t.relay.Close() //nolint:errcheck // it has none to give
		t.call.fail(failure.Internal(failure.ErrPanicked))
	}
}

func (t *detachedStream) serve() {
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
	t.conn = nil
	if !keep {
		_ = conn.Close()
		return
	}
	conn.Resume(shared.Current().Config.Timeouts.ClientIdle.D())
	// ServeNext closes the connection. Its errors have already been reported to the client.
	_ = shared.ServeNext(conn)
}

// write sends the chunk and the last chunk in one write.
func (t *detachedStream) write(out *[]byte, last bool) (int, error) {
	if len(t.rest) > 0 {
		if _, err := t.conn.WriteNow(t.rest, t.now); err != nil {
			return 0, err
		}
		t.rest = nil
	}
	payload := len(*out) - chunkRoom
	b, before := frame(out, last)
	if len(b) == 0 {
		return 0, nil
	}
	if n, err := t.conn.WriteNow(b, t.now); err != nil {
		return min(max(n-before, 0), payload), err
	}
	return payload, nil
}

// frame returns the bytes for the client: the chunk in out, and the last chunk if last is set. before
// is the number of bytes before the chunk's payload.
func frame(out *[]byte, last bool) (b []byte, before int) {
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
	return b[start:], chunkRoom - start
}

// leastRoom is the room that the translation of a token needs. If it needs more, append allocates.
const leastRoom = 1 << 10

// pass is the step of a stream that stays in the poller. It translates newly arrived events into the
// rest of the buffer in which they arrived, and writes them to the client. It returns false if run
// must continue: before the first event has been recorded, at the end, after an error, after many
// bytes, or if the client's socket is full.
func (t *detachedStream) pass() bool {
	c, room := t.call, t.call.attempt.Reply.Room()
	if c.record.TTFT == 0 || c.body.Held() || len(room) < leastRoom {
		return false
	}
	out, done, err := c.attempt.Pull(room[:chunkRoom], atOnce, t.stream)
	payload := out[chunkRoom:]
	switch {
	case len(payload) == 0 && !done && errors.Is(err, http1.ErrNotYet): // only part of an event has arrived
		return true
	case done || err != nil:
		t.putOff(out, done, err)
		return false
	}
	b, _ := frame(&out, false)
	n := t.conn.TryWrite(b)
	t.noteEvents()
	t.shown = t.now
	c.participants.shown(payload)
	c.record.BytesOut += int64(len(payload))
	if n < len(b) {
		t.rest = keepUnsent(b[n:], cap(out))
		t.putOff(out[:chunkRoom], false, nil)
		return false
	}
	if cap(out) > attempt.MaxPooled {
		c.memory.Free(attempt.PartOut)
	}
	return true
}

// keepUnsent returns unsent bytes of a buffer of the given size for the time after the step. A small
// buffer may be the engine's, so its bytes are copied. A large one is counted as attempt.PartOut
// until recycleOut, and a copy would not be counted.
func keepUnsent(b []byte, size int) []byte {
	if size > attempt.MaxPooled {
		return b
	}
	return slices.Clone(b)
}

// putOff leaves what pass has pulled to run.
func (t *detachedStream) putOff(out []byte, done bool, err error) {
	t.out, t.pulled = attempt.NewBuffer(), pulled{true, done, err}
	*t.out = append(*t.out, out...)
}

// sizeLine writes the size line of a chunk with n bytes to the end of room, and returns the offset
// of the line.
func sizeLine(room []byte, n int) (start int) {
	i := len(room) - len(chunkEnd)
	room[i], room[i+1] = chunkEnd[0], chunkEnd[1]
	for ; n > 0; n >>= 4 {
		i--
		room[i] = "0123456789abcdef"[n&15]
	}
	return i
}
