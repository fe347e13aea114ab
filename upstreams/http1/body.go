package http1

import (
	"math"

	"penstock/upstreams/http1/chunked"
)

// replyRules are strict, apart from the exceptions that known engines need.
var replyRules = chunked.Rules{MaxDigits: 16, MaxExtensions: 1<<10 + 1, MaxTrailers: 8 << 10, Folded: true}

// bodyKind is the framing of a body.
type bodyKind uint8

const (
	bodyUnknown bodyKind = iota // the head is incomplete
	bodyNone
	bodySized
	bodyChunked
	bodyUntilClose
)

// body is the read position in a reply's body.
type body struct {
	kind    bodyKind
	done    bool  // it was read to its end
	surplus bool  // the read that returned the end also returned bytes after it
	left    int64 // unread bytes of a sized body
	chunks  chunked.Decoder
	later   error // a framing error after payload that was returned
}

// begin sets the kind and the length from the head (RFC 9112, 6.3).
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

// skipFraming returns the number of leading bytes of p that are framing.
func (b *body) skipFraming(p []byte) (n int, err error) {
	if b.kind == bodyChunked && !b.done {
		n, err = b.chunks.SkipFraming(p, &replyRules)
		b.done = b.chunks.Ended()
	}
	return n, err
}

// available returns the number of bytes of payload before the next framing.
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

// payload returns the payload in p, joined if it spans several chunks. It handles the end and
// errors like unframe, but also defers an error that comes before any payload.
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

// unframe moves the payload in p to the start of p and returns its length. Bytes after the end of
// the body do not belong to this exchange, and the connection is not used again.
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
