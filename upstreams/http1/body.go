package http1

import (
	"math"

	"penstock/upstreams/http1/chunked"
)

// replyRules are strict where nothing is known to need more.
var replyRules = chunked.Rules{MaxDigits: 16, MaxExtensions: 1<<10 + 1, MaxTrailers: 8 << 10, Folded: true}

// bodyKind is how a body is framed.
type bodyKind uint8

const (
	bodyUnknown bodyKind = iota // the head has not come
	bodyNone
	bodySized
	bodyChunked
	bodyUntilClose
)

// body is a place in the body of a reply.
type body struct {
	kind    bodyKind
	done    bool  // it was read to its end
	surplus bool  // bytes came behind its end, in the read that brought the end
	left    int64 // of a sized body
	chunks  chunked.Decoder
	later   error // wrong framing behind payload that was returned
}

// begin takes the kind and the length from the head (RFC 9112, 6.3).
func (b *body) begin(method string, h *head) {
	switch {
	case method == "HEAD", h.status == 101, h.status == 204, h.status == 304, h.hasLength && h.length == 0:
		b.kind, b.done = bodyNone, true
	case h.chunked:
		b.kind = bodyChunked
	case h.hasLength:
		b.kind, b.left = bodySized, h.length
	default:
		b.kind, b.left = bodyUntilClose, math.MaxInt64
	}
}

// skipFraming returns how many bytes of framing p begins with.
func (b *body) skipFraming(p []byte) (n int, err error) {
	if b.kind == bodyChunked && !b.done {
		n, err = b.chunks.SkipFraming(p, &replyRules)
		b.done = b.chunks.Ended()
	}
	return n, err
}

// available returns how much payload follows without framing in between.
func (b *body) available() int64 {
	if b.kind == bodyChunked {
		return b.chunks.Payload()
	}
	return b.left
}

// consumed counts payload that was consumed.
func (b *body) consumed(n int64) {
	switch b.kind {
	case bodyChunked:
		b.chunks.Take(n)
	case bodySized:
		b.left -= n
		b.done = b.left == 0
	}
}

// payload returns the payload in p, moved together if it is in several chunks. What it says of the
// end and of errors is as unframe has it, but for an error before any payload, which is kept, too.
func (b *body) payload(p []byte) []byte {
	start, err := b.skipFraming(p)
	n := 0
	if err == nil {
		n, err = b.unframe(p[start:])
	}
	if err != nil {
		b.later = err
	}
	return p[start : start+n : start+n]
}

// unframe moves the payload in p to its beginning and returns its length. What follows the end of
// the body is no part of this exchange, and the connection is not used again.
func (b *body) unframe(p []byte) (n int, err error) {
	if b.kind != bodyChunked {
		n = int(min(int64(len(p)), b.left))
		b.surplus = n < len(p)
		b.consumed(int64(n))
		return n, nil
	}
	n, read, err := b.chunks.Unframe(p, &replyRules)
	b.done = b.chunks.Ended()
	b.surplus = b.done && read < len(p)
	if err != nil && n > 0 {
		b.later, err = err, nil // after the payload before it
	}
	return n, err
}
