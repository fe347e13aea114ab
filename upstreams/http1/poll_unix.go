//go:build unix

package http1

import (
	"errors"
	"io"
	"syscall"
	"time"

	"penstock/upstreams/http1/socket"
)

// canPeek says that peek sees what has come without taking it.
const canPeek = true

// stalePatience is for TLS only, where a peek has found the socket empty already: a deadline that
// has passed makes the read look into the TLS buffers and no further.
const stalePatience = -time.Second

func (p *poll) bind() { p.probe, p.grab = p.look, p.tryFetch }

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

// sendUnsent writes unsent and reports whether all that is left to do is to wait for the reply.
func (p *poll) sendUnsent(fd uintptr) bool {
	p.look(fd)
	p.count, p.err = 0, errUnsent
	if p.found != peekedQuiet {
		return false
	}
	if p.left, _ = socket.Send(fd, p.unsent.b); p.left < len(p.unsent.b) {
		return false // the next write returns the error
	}
	size := len(p.unsent.b)
	p.unsent.release()
	p.unsent = nil
	if p.look(fd); p.found == peekedData && socket.UnackedBytes(fd) >= size {
		p.err = errLeftover
		return false
	}
	return true
}

// tryFetch reads what has come and reports whether that was anything: bytes, the end or an error.
// The buffer is of the size that one event fits in, and it goes back if there is nothing.
func (p *poll) tryFetch(fd uintptr) bool {
	if p.unsent != nil {
		return !p.sendUnsent(fd)
	}
	b := readBuffers.Get().(*[readBuffer]byte)
	n, err := socket.Recv(fd, b[:])
	if n > 0 {
		p.fetched, p.count, p.err = b, n, nil
		return true
	}
	readBuffers.Put(b)
	if errors.Is(err, syscall.EAGAIN) {
		return false
	}
	if err == nil {
		err = io.EOF
	}
	p.fetched, p.count, p.err = nil, 0, err
	return true
}
