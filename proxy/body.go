package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/listen"
	"penstock/translate/apierr"
	"penstock/upstreams/http1/httptoken"
)

// Bodies are read to their end before any slot is taken: a client that sends slowly must not hold
// capacity. The memory budget bounds all bodies together; it is reserved before a byte is read.

const (
	pooledBody = 64 << 10 // buffers up to this size are kept for the next request
	largeBody  = 2 << 20  // and larger ones up to this in a pool of their own
	firstChunk = 4 << 10  // what a chunked body reserves before its size is known

	// slowBody is the rate in bytes per second that a JSON body must keep after its first
	// slowGrace, so that a client that drips bytes is ended, too. A large body must also fill the
	// memory that is reserved for it within slowFill, or arrive at limits.upload_rate if that is
	// less: otherwise a few clients that announce much and send little would keep all others out.
	slowBody  = 1 << 10
	slowGrace = 10 * time.Second
	slowFill  = 2 * time.Minute
)

var (
	bodyPool      = sync.Pool{New: func() any { b := make([]byte, 0, firstChunk); return &b }}
	largeBodyPool = sync.Pool{New: func() any { return new([]byte) }}
)

// readBody reads the request's body into c.body, within limit bytes.
func (c *Call) readBody(limit int64) *apierr.Error {
	h := &c.ctx.Request.Header
	if e := checkBodyHead(h, c.ep); e != nil {
		return c.closeAfterResponse(e)
	}
	n := announced(h)
	if n > limit {
		return c.closeAfterResponse(bodyTooLarge(limit))
	}
	if c.ep.form != nil {
		return c.readUpload(n, limit)
	}
	if n == 0 {
		return nil
	}
	if !c.reserve(max(n, 0)) {
		return c.closeAfterResponse(bodyMemoryFull())
	}
	src := c.ctx.RequestBodyStream()
	if src == nil {
		return nil
	}
	if e := c.fill(src, n, limit); e != nil {
		return c.closeAfterResponse(e)
	}
	if n < 0 {
		if err := listen.BodyFramingError(c.ctx.Conn()); err != nil {
			return c.closeAfterResponse(bodyBroken(c.ctx.Conn(), err))
		}
		c.endChunked()
	}
	c.record.BytesIn = int64(len(*c.body))
	return nil
}

// fill reads src to its end: n bytes, or until EOF when n is negative.
func (c *Call) fill(src io.Reader, n, limit int64) *apierr.Error {
	c.body = bodyBuffer(n)
	buf := (*c.body)[:0]
	start := c.record.Start
	silence := c.snap.Config.Timeouts.ClientBody.D()
	var armed time.Time // headReceived has armed the deadline for the first byte
	reads, arrived := 0, n > 0 && listen.RequestComplete(c.ctx.Conn())
	for int64(len(buf)) != n {
		if len(buf) == cap(buf) { // of a chunked body: the others have their size from the start
			grown := int64(cap(buf))
			if !c.reserve(grown) {
				*c.body = buf
				return bodyMemoryFull()
			}
			buf = append(make([]byte, 0, 2*grown), buf...)
		}
		if len(buf) > 0 && !arrived {
			now := time.Now()
			if now.Sub(armed) > min(time.Second, silence/8) {
				// Moved now and then only: a deadline costs more than a read.
				if late := now.Sub(start) - slowGrace; late > 0 && int64(len(buf)) < int64(late.Seconds())*c.pace() {
					*c.body = buf
					return slowClient(nil)
				}
				_ = c.ctx.Conn().SetReadDeadline(now.Add(silence))
				armed = now
			}
		}
		m, err := src.Read(buf[len(buf):cap(buf)])
		reads++
		buf = buf[:len(buf)+m]
		if int64(len(buf)) > limit {
			*c.body = buf
			return bodyTooLarge(limit)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			*c.body = buf
			return bodyBroken(c.ctx.Conn(), err)
		}
	}
	*c.body = buf
	if reads > 1 && !arrived { // one read is what had come with the head
		c.bodyWait = time.Now().Sub(start)
	}
	if n >= 0 && int64(len(buf)) < n {
		return bodyBroken(c.ctx.Conn(), io.ErrUnexpectedEOF)
	}
	return nil
}

// pace is how many bytes a second of a JSON body must come.
func (c *Call) pace() int64 {
	return max(slowBody, min(c.reserved/int64(slowFill/time.Second), int64(c.snap.Config.Limits.UploadRate)))
}

// reserve takes n more bytes from the body-memory budget for this call.
func (c *Call) reserve(n int64) bool {
	if !c.shared.Bodies.Reserve(n) {
		return false
	}
	c.reserved += n
	return true
}

// releaseBody gives the request's bytes back as soon as no attempt can need them any more.
func (c *Call) releaseBody() {
	if c.body != nil {
		recycleBody(c.body)
		c.body = nil
	}
	if c.native != nil {
		recycleBody(c.native)
		c.native = nil
	}
	if c.payload != nil {
		c.payload.release()
	}
	c.shared.Bodies.Release(c.reserved)
	c.reserved = 0
}

// bodyBuffer returns an empty buffer with room for n bytes; recycleBody takes it back.
func bodyBuffer(n int64) *[]byte {
	pool := &bodyPool
	if n > pooledBody && n <= largeBody {
		pool = &largeBodyPool
	}
	buf := pool.Get().(*[]byte)
	if n > int64(cap(*buf)) {
		*buf = make([]byte, 0, n)
	}
	return buf
}

// recycleBody gives a buffer of a body back to its pool, or lets a huge one go.
func recycleBody(buf *[]byte) {
	*buf = (*buf)[:0]
	switch n := cap(*buf); {
	case n <= pooledBody:
		bodyPool.Put(buf)
	case n <= largeBody:
		largeBodyPool.Put(buf)
	}
}

// closeAfterResponse marks the call as answered before its body was read to the end: the connection
// ends with the answer, and lingers so that a client that is still sending can read it.
func (c *Call) closeAfterResponse(e *apierr.Error) *apierr.Error {
	c.ctx.SetConnectionClose()
	if c.conn != nil {
		c.conn.Linger()
	}
	return e
}

// endChunked ends the connection with the answer when trailers followed the body's last chunk. The
// edge does not read them, and fasthttp accepts names in them that other parsers refuse, so the
// bytes that follow may be a request to fasthttp alone.
func (c *Call) endChunked() {
	if len(c.ctx.Request.Header.PeekTrailerKeys()) > 0 {
		c.ctx.SetConnectionClose()
	}
}

// checkBodyHead refuses encoded bodies and media types that the endpoint does not take.
func checkBodyHead(h *fasthttp.RequestHeader, ep *endpoint) *apierr.Error {
	if enc := h.ContentEncoding(); len(enc) > 0 && !httptoken.EqualFold(enc, "identity") {
		return apierr.New(415, apierr.CodeUnsupportedMediaType, "A request body with a Content-Encoding is not accepted: send it as it is.")
	}
	t := h.ContentType()
	if ep.form != nil {
		if len(t) > 0 && !isForm(t) { // without one there is no boundary either, which is another mistake
			return apierr.New(415, apierr.CodeUnsupportedMediaType, "The request body must be a form: send it as multipart/form-data.")
		}
		return nil
	}
	if len(t) > 0 && !isJSON(t) {
		return apierr.New(415, apierr.CodeUnsupportedMediaType, "The request body must be JSON: send the header Content-Type: application/json.")
	}
	return nil
}

// isForm reports whether a media type, parameters apart, is multipart/form-data.
func isForm(t []byte) bool { return httptoken.EqualFold(bareType(t), "multipart/form-data") }

// bareType is a media type without its parameters.
func bareType(t []byte) []byte {
	for i, b := range t {
		if b == ';' || b == ' ' {
			return t[:i]
		}
	}
	return t
}

// isJSON reports whether a media type, parameters apart, is application/json or ends in +json.
func isJSON(t []byte) bool {
	t = bareType(t)
	return httptoken.EqualFold(t, "application/json") || len(t) > 5 && httptoken.EqualFold(t[len(t)-5:], "+json")
}

func bodyTooLarge(limit int64) *apierr.Error {
	return apierr.TooLarge(limit)
}

// codeBodyMemory is the code of a refusal for lack of memory; no engine causes it.
const codeBodyMemory = "no_body_memory"

func bodyMemoryFull() *apierr.Error {
	e := apierr.New(503, codeBodyMemory, "The edge holds as many request bytes as it may. Retry shortly.")
	e.RetryAfter = jitter(retrySoon)
	return e
}

func slowClient(cause error) *apierr.Error {
	e := apierr.New(408, apierr.CodeRequestTimeout, "The request body came too slowly.")
	e.Cause = cause
	return e
}

// bodyBroken returns the error for a body that did not arrive in full on conn: its client was too
// slow, has left, or has sent broken framing. A client that has left is recorded as gone; the
// answer reaches it only if it has closed no more than its sending side.
func bodyBroken(conn net.Conn, err error) *apierr.Error {
	switch {
	case timedOut(err):
		return slowClient(err)
	case listen.RequestTruncated(conn):
		return bodyCut()
	}
	return misframedBody(err)
}

// bodyCut is the answer to a client that closed its side before all of its body was read.
func bodyCut() *apierr.Error {
	e := badHead("The request body ended early: the client closed its side of the connection before all of it was read.")
	e.Cause = errClientGone
	return e
}

func misframedBody(cause error) *apierr.Error {
	e := badHead("The request body ended early or its framing is broken.")
	e.Cause = cause
	return e
}

// timedOut reports whether reading has failed because a deadline had passed.
func timedOut(err error) bool {
	var timeout net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
