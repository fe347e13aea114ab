package call

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"penstock/config/instant"
	"penstock/proxy/request/attempt"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/guard"
	"penstock/upstreams/http1"
)

// detachedStream is a committed stream on a plain connection. It leaves fasthttp after the first
// chunk, so that fasthttp releases its memory, and writes all later chunks itself. After a
// successful stream, fasthttp serves the next request on the connection. Like any open connection,
// a running stream delays the drain of the edge.
type detachedStream struct {
	relay
	conn            detachableConn
	unwritten       []byte // bytes that Conn.TryWrite could not write; sent before the next chunk
	keepAlive       bool   // whether the client may send another request on this connection
	hasLeftFasthttp bool   // if true, fasthttp does not finish the call
}

// detachableConn is a plain connection that can leave fasthttp and return to it (listen.Conn).
type detachableConn interface {
	net.Conn
	WriteWithNow(p []byte, now instant.Time) (int, error)
	TryWrite(p []byte) int
	DetachOnClose(then func())
	ResumeHTTP(idle time.Duration)
}

// chunkPrefixLen is the space before a relay's bytes that is reserved for the size line of a chunk:
// at most 8 digits, CR and LF.
const chunkPrefixLen = 10

const (
	chunkEnd  = "\r\n"
	lastChunk = "0\r\n\r\n"
)

// newDetachedStream returns a stream that will leave fasthttp. It returns nil if the stream must
// stay:
//
//   - The connection uses TLS, which fasthttp would shut down.
//   - Part of a form has not been read yet.
func newDetachedStream(r relay) *detachedStream {
	conn, plain := r.call.client.ctx.Conn().(detachableConn)
	if !plain || r.call.ep.Form {
		return nil
	}
	r.leavesFasthttp = true
	return &detachedStream{relay: r, conn: conn}
}

// errLeftFasthttp makes fasthttp release its memory and close the connection, which starts the
// detached stream. It wraps io.ErrUnexpectedEOF because fasthttp does not report that error.
var errLeftFasthttp = fmt.Errorf("the stream has left the server: %w", io.ErrUnexpectedEOF)

// WriteTo implements io.WriterTo. It writes the headers and the first chunk, and leaves fasthttp.
func (t *detachedStream) WriteTo(w io.Writer) (n int64, err error) {
	shared := t.call.services
	defer shared.Guard.Catch(guard.PlaceStream, func() {
		t.handlePanic()
		err = failure.ErrPanicked
	})
	shared.Guard.PanicIfInjected("stream.leave")
	if n, err = t.writeBody(fasthttpWriter{w}); !errors.Is(err, errLeftFasthttp) {
		return n, err
	}
	client := &t.call.client
	t.keepAlive = !client.ctx.Response.Header.ConnectionClose() // fasthttp copies the header of the request
	client.ctx = nil
	t.hasLeftFasthttp = true
	t.conn.DetachOnClose(t.serve)
	return n, err
}

// Close implements io.Closer, for fasthttp.
func (t *detachedStream) Close() error {
	if t.hasLeftFasthttp {
		return nil
	}
	return t.relay.Close()
}

func (t *detachedStream) handlePanic() {
	if t.call != nil {
		defer t.relay.Close() //nolint:errcheck // Close never returns an error
		recordCallFailure(&t.call.record, failure.Internal(failure.ErrPanicked))
	}
}

func (t *detachedStream) serve() {
	shared := t.call.services
	defer shared.Guard.Catch(guard.PlaceStream, t.closeAfterPanic)
	t.stepper = t
	_, err := t.writeBody(t)
	for errors.Is(err, errMustWaitForEngine) {
		t.waitForEngine()
		_, err = t.writeBody(t)
	}
	shared.Guard.PanicIfInjected("stream.serve")
	_ = t.relay.Close()
	t.closeOrReturnConn(shared, t.keepAlive && err == nil)
}

// closeAfterPanic closes the connection after a panic.
func (t *detachedStream) closeAfterPanic() {
	defer t.conn.Close()
	t.handlePanic()
}

// closeOrReturnConn closes the connection, or passes it to fasthttp if keep is true.
func (t *detachedStream) closeOrReturnConn(shared *Services, keep bool) {
	if !keep {
		_ = t.conn.Close()
		return
	}
	t.conn.ResumeHTTP(shared.Current().Config.Timeouts.ClientIdle.D())
	// ServeNext closes the connection. Its errors have already been reported to the client.
	_ = shared.ServeNext(t.conn)
}

// writeChunk sends the chunk and, if last is true, the empty chunk that ends the body. It uses a
// single write for both.
func (t *detachedStream) writeChunk(out *[]byte, last bool) (int, error) {
	if len(t.unwritten) > 0 {
		if _, err := t.conn.WriteWithNow(t.unwritten, t.readAt); err != nil {
			return 0, err
		}
		t.unwritten = nil
	}
	payload := len(*out) - chunkPrefixLen
	b, before := frameChunk(out, last)
	if len(b) == 0 {
		return 0, nil
	}
	if n, err := t.conn.WriteWithNow(b, t.readAt); err != nil {
		return min(max(n-before, 0), payload), err
	}
	return payload, nil
}

// frameChunk returns the bytes for the client. They consist of the chunk in out and, if last is
// true, the empty chunk that ends the body. before is the number of bytes before the chunk's
// payload.
func frameChunk(out *[]byte, last bool) (b []byte, before int) {
	b, payload := *out, len(*out)-chunkPrefixLen
	start := chunkPrefixLen
	if payload > 0 {
		start = putChunkSizeLine(b[:chunkPrefixLen], payload)
		b = append(b, chunkEnd...)
	}
	if last {
		b = append(b, lastChunk...)
	}
	*out = b // append may have reallocated the buffer
	return b[start:], chunkPrefixLen - start
}

// minEventSpace is the space that the translation of a token usually needs. If a translation needs
// more, append allocates.
const minEventSpace = 1 << 10

// Step implements http1.Stepper. It translates newly arrived events into the unused part of the
// buffer in which they arrived, and writes them to the client. It returns false if writeBody must
// continue:
//
//   - before the first event has been recorded;
//   - at the end of the stream;
//   - after an error;
//   - after many bytes;
//   - if the client's socket is full.
func (t *detachedStream) Step() bool {
	c, room := t.call, t.call.attempt.Reply.SpareBuffer()
	if c.record.TTFT == 0 || c.body.HasBytes() || len(room) < minEventSpace {
		return false
	}
	out, done, err := c.attempt.PullStream(room[:chunkPrefixLen], expiredDeadline, t.streamCodec)
	payload := out[chunkPrefixLen:]
	switch {
	case len(payload) == 0 && !done && errors.Is(err, http1.ErrNoBytesYet): // only part of an event has arrived
		return true
	case done || err != nil:
		t.deferToRelay(out, done, err)
		return false
	}
	b, _ := frameChunk(&out, false)
	n := t.conn.TryWrite(b)
	t.recordEvents()
	t.lastSentAt = t.readAt
	c.participants.notifyAnswerWritten(payload)
	c.record.BytesOut += int64(len(payload))
	if n < len(b) {
		t.unwritten = keepUnsent(b[n:], cap(out))
		t.deferToRelay(out[:chunkPrefixLen], false, nil)
		return false
	}
	if cap(out) > attempt.MaxPooled {
		c.memory.FreePart(attempt.ClientOutputMemory)
	}
	return true
}

// keepUnsent returns the unsent bytes of a buffer of the given size, so that they stay valid after
// Step returns. A small buffer may be the engine's, so its bytes are copied. A large buffer counts
// as attempt.ClientOutputMemory until recycleOutBuffer, but a copy would not be counted.
func keepUnsent(b []byte, size int) []byte {
	if size > attempt.MaxPooled {
		return b
	}
	return slices.Clone(b)
}

// deferToRelay stores what Step has pulled. The relay's goroutine processes it later (fillStream).
func (t *detachedStream) deferToRelay(out []byte, done bool, err error) {
	t.out, t.pulled = attempt.NewBuffer(), pullResult{true, done, err}
	*t.out = append(*t.out, out...)
}

// putChunkSizeLine writes the size line of a chunk of n bytes right-aligned into room. It returns
// the offset of the line in room.
func putChunkSizeLine(room []byte, n int) (start int) {
	i := len(room) - len(chunkEnd)
	room[i], room[i+1] = chunkEnd[0], chunkEnd[1]
	for ; n > 0; n >>= 4 {
		i--
		room[i] = "0123456789abcdef"[n&15]
	}
	return i
}
