//go:build unix

package http1

import (
	"errors"
	"io"
	"syscall"
	"time"

	"penstock/upstreams/http1/socket"
)

// stalePatience is used for TLS after a peek has found the socket empty, and for connections
// without a socket. With a deadline in the past, the read checks only their buffers.
const stalePatience = -time.Second

func (p *poll) bind() {
	p.probe, p.grab, p.begin, p.part = p.look, p.tryFetch, p.sendHead, p.sendPieces
}

func (p *poll) peek(raw syscall.RawConn) peeked {
	if err := raw.Control(p.probe); err != nil {
		p.err = err
		return peekedBroken
	}
	return p.found
}

func (p *poll) look(fd uintptr) {
	n, err := socket.Peek(fd, p.one[:])
	switch {
	case errors.Is(err, syscall.EAGAIN):
		p.found = peekedQuiet
	case err != nil:
		p.found, p.err = peekedBroken, err
	case n == 0:
		p.found = peekedEOF
	default:
		p.found = peekedData
	}
}

// sendUnsent writes the request in unsent, and reports whether only the reply remains to be
// awaited.
func (p *poll) sendUnsent(fd uintptr) bool {
	p.sendQuiet(fd, p.unsent.b)
	if errors.Is(p.err, errUnsent) {
		return false // the next write returns the error
	}
	p.unsent.release()
	p.unsent = nil
	return p.err == nil
}

// sendHead writes head.
func (p *poll) sendHead(fd uintptr) { p.sendQuiet(fd, p.head) }

// sendPieces writes as much of pieces as the socket accepts at once.
func (p *poll) sendPieces(fd uintptr) {
	if p.left, p.err = socket.SendPieces(fd, p.pieces); errors.Is(p.err, syscall.EAGAIN) {
		p.err = nil
	}
}

// sendQuiet writes b, the start of a request, if nothing has arrived. It peeks just before and just
// after the write. Bytes that arrive in between, while the peer's host has acknowledged nothing,
// cannot be the answer.
func (p *poll) sendQuiet(fd uintptr, b []byte) {
	p.look(fd)
	p.count, p.left, p.err = 0, 0, errUnsent
	if p.found != peekedQuiet {
		return
	}
	if p.left, _ = socket.Send(fd, b); p.left < len(b) {
		return
	}
	p.look(fd)
	p.err = nil // the read will return the error
	if p.found == peekedData && socket.UnackedBytes(fd) >= len(b) {
		p.err = errLeftover
	}
}

// tryFetch reads what has arrived and reports whether there was anything: bytes, the end or an
// error. It uses the spare buffer, if set, or a pooled one. If nothing has arrived, it returns the
// buffer to the pool.
func (p *poll) tryFetch(fd uintptr) bool {
	if p.unsent != nil {
		return !p.sendUnsent(fd)
	}
	b := p.spare
	if p.spare = nil; b == nil {
		b = readBuffers.Get().(*[readBuffer]byte)
	}
	n, err := socket.Recv(fd, b[:])
	if n > 0 {
		p.fetched, p.count, p.err = b, n, nil
		return true
	}
	readBuffers.Put(b)
	if err == syscall.EAGAIN { //nolint:errorlint // a system call returns it bare
		return false
	}
	if err == nil {
		err = io.EOF
	}
	p.fetched, p.count, p.err = nil, 0, err
	return true
}
