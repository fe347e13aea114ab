package http1

import (
	"io"
	"strconv"
	"strings"
	"time"

	"penstock/upstreams/http1/httptoken"
)

// smallRequest is the maximum size of a request whose head and body are copied together and sent in
// one write.
const smallRequest = 16 << 10

// Request describes a request to send. The transport adds Host, User-Agent, Accept-Encoding:
// identity and, if configured, Authorization; it never sends another header.
//
// The body is either Body or BodyReader, or neither.
type Request struct {
	// Path starts with a slash and follows the transport's base path; it may include a query.
	Method, Path string

	ContentType, Accept    string // "": the header is omitted
	RequestID, Traceparent []byte // X-Request-Id and traceparent, likewise
	Tracestate             []byte // tracestate, likewise

	// Body is the body in pieces. The pieces must not change until Await has returned the head of
	// the reply or the exchange has ended. The outer slice is not modified.
	Body [][]byte

	// BodyReader yields the body up to io.EOF. It is sent in chunks as it is read, on the goroutine
	// that calls Send. Such a request cannot be sent twice, so it never uses a keep-alive
	// connection. An *Upgrade makes the request a WebSocket handshake, which has no body.
	BodyReader io.Reader

	ConnectTimeout time.Duration // time limit of resolving, connecting and TLS together; 0: 10 s
	WriteTimeout   time.Duration // maximum time without a byte taken by the engine; 0: no limit
	At             time.Time     // the time, if the caller has just read the clock; zero: Send reads it
	// NoReplay sends the request at most once. The request therefore uses a new connection, because
	// a keep-alive connection may be dead.
	NoReplay bool
}

// appendFixed writes the header lines that all requests of a transport share.
func appendFixed(dst []byte, host, agent, authorization string) []byte {
	dst = appendField(dst, "Host", host)
	dst = appendField(dst, "User-Agent", agent)
	dst = appendField(dst, "Accept-Encoding", "identity")
	return appendField(dst, "Authorization", authorization)
}

// appendField appends a header line, or nothing if the value is empty.
func appendField[T string | []byte](dst []byte, name string, value T) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// check refuses bytes that would end a line of the head early, or that could smuggle another
// request.
func (r *Request) check() error {
	fit := httptoken.IsToken(r.Method) && strings.HasPrefix(r.Path, "/") &&
		!httptoken.HasControl(r.ContentType) && !httptoken.HasControl(r.Accept) &&
		!httptoken.HasControl(r.RequestID) && !httptoken.HasControl(r.Traceparent) && !httptoken.HasControl(r.Tracestate)
	for i := 0; fit && i < len(r.Path); i++ {
		fit = r.Path[i] > ' ' && r.Path[i] != 0x7f
	}
	if !fit {
		return errUnfit
	}
	return nil
}

// size returns the length of Body.
func (r *Request) size() (n int64) {
	for _, b := range r.Body {
		n += int64(len(b))
	}
	return n
}

// appendHead writes the head of r. length is the length of the body, or -1 for a chunked body.
func (t *Transport) appendHead(dst []byte, r *Request, length int64) []byte {
	dst = append(dst, r.Method...)
	dst = append(dst, ' ')
	dst = append(dst, t.base...)
	dst = append(dst, r.Path...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	dst = append(dst, t.fixed...)
	dst = appendField(dst, "Content-Type", r.ContentType)
	switch {
	case length < 0:
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	case length > 0 || r.Method != "GET" && r.Method != "HEAD":
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, length, 10)
		dst = append(dst, "\r\n"...)
	}
	dst = appendField(dst, "Accept", r.Accept)
	dst = appendField(dst, "X-Request-Id", r.RequestID)
	dst = appendField(dst, "traceparent", r.Traceparent)
	dst = appendField(dst, "tracestate", r.Tracestate)
	return append(dst, "\r\n"...)
}

// copyWhole writes the whole request into o.b.
func (t *Transport) copyWhole(o *outgoing, r *Request) {
	o.b = t.appendHead(o.b[:0], r, r.size())
	for _, b := range r.Body {
		o.b = append(o.b, b...)
	}
}
