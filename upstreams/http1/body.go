package http1

import (
	"math"

	"penstock/upstreams/http1/chunked"
)

// replyChunkLimits are the rules for chunked responses. They are strict, with exceptions for known
// engines.
var replyChunkLimits = chunked.ExtraLimits{MaxDigits: 16, MaxExtensions: 1<<10 + 1, MaxTrailers: 8 << 10, Folded: true}

// bodyKind is the framing of a body.
type bodyKind uint8

const (
	bodyUnknown bodyKind = iota // the head is incomplete
	bodyNone
	bodySized
	bodyChunked
	bodyUntilClose
)

// bodyPosition tracks the read position in a response body.
type bodyPosition struct {
	kind        bodyKind
	isDone      bool  // the body was read to its end
	hasSurplus  bool  // the read that returned the end of the body also returned later bytes
	left        int64 // unread bytes, if kind is bodySized
	chunks      chunked.Decoder
	deferredErr error // framing error, returned once the preceding payload has been read
}

// setFraming sets the framing from the response head (RFC 9112, 6.3).
func (b *bodyPosition) setFraming(method string, h *responseHead) {
	switch {
	case method == "HEAD", h.status == 101, h.status == 204, h.status == 304, h.hasLength && h.length == 0:
		b.kind, b.isDone = bodyNone, true
	case h.isChunked:
		b.kind = bodyChunked
	case h.hasLength:
		b.kind, b.left = bodySized, h.length
	default:
		b.kind, b.left = bodyUntilClose, math.MaxInt64
	}
}

// skipFraming parses the framing at the start of p and returns its length.
func (b *bodyPosition) skipFraming(p []byte) (n int, err error) {
	if b.kind == bodyChunked && !b.isDone {
		n, err = b.chunks.SkipFraming(p, &replyChunkLimits)
		b.isDone = b.chunks.HasEnded()
	}
	return n, err
}

// payloadAvailable returns how many payload bytes precede the next framing.
func (b *bodyPosition) payloadAvailable() int64 {
	if b.kind == bodyChunked {
		return b.chunks.PayloadLeft()
	}
	return b.left
}

func (b *bodyPosition) consume(n int64) {
	switch b.kind {
	case bodyChunked:
		b.chunks.Consume(n)
	case bodySized:
		b.left -= n
		b.isDone = b.left == 0
	}
}

// takePayload returns the payload in p. If the payload spans more than one chunk, takePayload moves
// the parts next to each other. It handles the end of the body like unframe, but defers all errors
// to the next read.
func (b *bodyPosition) takePayload(p []byte) []byte {
	if b.kind == bodyChunked {
		if whole := b.chunks.SingleChunkPayload(p); whole != nil {
			return whole
		}
	}
	start, err := b.skipFraming(p)
	n := 0
	if err == nil {
		n, err = b.unframe(p[start:])
	}
	if err != nil {
		b.deferredErr = err
	}
	return p[start : start+n : start+n]
}

// unframe moves the payload in p to the start of p and returns the payload's length. Bytes after
// the end of the body do not belong to this exchange, and prevent the reuse of the connection.
func (b *bodyPosition) unframe(p []byte) (n int, err error) {
	if b.kind != bodyChunked {
		n = int(min(int64(len(p)), b.left))
		b.hasSurplus = n < len(p)
		b.consume(int64(n))
		return n, nil
	}
	n, read, err := b.chunks.Unframe(p, &replyChunkLimits)
	b.isDone = b.chunks.HasEnded()
	b.hasSurplus = b.isDone && read < len(p)
	if err != nil && n > 0 {
		b.deferredErr, err = err, nil // first return the payload that precedes the error
	}
	return n, err
}
