package http1

import (
	"io"
	"strconv"
	"strings"
	"time"

	"penstock/upstreams/http1/httptoken"
)

// maxSmallBody is the maximum body size of a request that is copied into one buffer and sent in one
// write.
const maxSmallBody = 16 << 10

// Request is a request to send. The transport adds Host, User-Agent, Accept-Encoding: identity and,
// if configured, Authorization. It adds no other headers.
//
// The bytes of RequestID, Traceparent, Tracestate and Body must not change or be reused until
// Await has returned the response head or the exchange has been closed. Until then, the exchange
// may send the request again on a new connection.
//
// Set at most one of Body and BodyReader.
type Request struct {
	// Path starts with a slash and may include a query. It is appended to the transport's base
	// path.
	Method, Path string

	ContentType, Accept    string // if empty, the header is omitted
	RequestID, Traceparent []byte // X-Request-Id and traceparent; if empty, the header is omitted
	Tracestate             []byte // tracestate; if empty, the header is omitted

	Body [][]byte // the body in pieces; the outer slice is not modified

	// BodyReader returns the body up to io.EOF. Send reads the body and sends it in chunks. A
	// request with a BodyReader cannot be sent twice, so it always uses a new connection. If
	// BodyReader is an *Upgrade, the request is a WebSocket handshake without a body.
	BodyReader io.Reader

	ConnectTimeout time.Duration // timeout for name resolution, connect and TLS together; 0 means 10 s
	WriteTimeout   time.Duration // maximum time for which the engine may accept no byte; 0 means no limit
	At             time.Time     // the current time; if zero, Send reads the clock
	// NoReplay ensures that the request is sent at most once. The request then uses a new
	// connection, because a keep-alive connection may be dead.
	NoReplay bool
}

// appendFixedHeaders appends the header lines that all requests of a transport share.
func appendFixedHeaders(dst []byte, host, agent, authorization string) []byte {
	dst = appendField(dst, "Host", host)
	dst = appendField(dst, "User-Agent", agent)
	dst = appendField(dst, "Accept-Encoding", "identity")
	return appendField(dst, "Authorization", authorization)
}

// appendField appends a header line, unless the value is empty.
func appendField[T string | []byte](dst []byte, name string, value T) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// check rejects bytes that would end a header line early and could smuggle in another request.
func (r *Request) check() error {
	fit := httptoken.IsToken(r.Method) && strings.HasPrefix(r.Path, "/") &&
		!httptoken.HasControl(r.ContentType) && !httptoken.HasControl(r.Accept) &&
		!httptoken.HasControl(r.RequestID) && !httptoken.HasControl(r.Traceparent) && !httptoken.HasControl(r.Tracestate)
	for i := 0; fit && i < len(r.Path); i++ {
		fit = r.Path[i] > ' ' && r.Path[i] != 0x7f
	}
	if !fit {
		return errUnsendable
	}
	return nil
}

func (r *Request) size() (n int64) {
	for _, b := range r.Body {
		n += int64(len(b))
	}
	return n
}

// appendHead appends the head of r. length is the length of the body, or -1 for a chunked body.
func (t *Transport) appendHead(dst []byte, r *Request, length int64) []byte {
	dst = append(dst, r.Method...)
	dst = append(dst, ' ')
	dst = append(dst, t.base...)
	dst = append(dst, r.Path...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	dst = append(dst, t.fixedHeaders...)
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

func (t *Transport) appendFullRequest(o *writeBuffers, r *Request) {
	o.b = t.appendHead(o.b[:0], r, r.size())
	for _, b := range r.Body {
		o.b = append(o.b, b...)
	}
}
