//go:build unix

package http1

import (
	"errors"
	"io"
	"syscall"
	"time"

	"penstock/upstreams/http1/socket"
)

// stalePatience applies to TLS after a peek has found the socket empty, and to connections without
// a socket. The deadline is in the past, so the read checks only the buffers of the TLS layer or
// connection.
const stalePatience = -time.Second

// bind binds the functions to p, and makes the kernel record when bytes arrive.
func (p *poll) bind(raw syscall.RawConn) {
	_ = raw.Control(socket.StampArrivals) // fails on a closed socket only
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

// sendUnsent writes the request in unsent if nothing has arrived. It reports whether the whole
// request was written, so that the caller can wait for the response.
func (p *poll) sendUnsent(fd uintptr) bool {
	b := p.unsent.b
	if !p.quiet(fd, len(b)) {
		return false
	}
	if p.left, _ = socket.Send(fd, b); p.left < len(b) {
		return false // the next write returns the error
	}
	p.unsent.release()
	p.unsent = nil
	return true
}

// quiet reports whether nothing has arrived, so that a request can be written. size is the size of
// its first write. If the last response has just ended, quiet does not check the socket.
func (p *poll) quiet(fd uintptr, size int) bool {
	now := time.Now()
	p.count, p.left, p.err, p.found = 0, 0, errUnsent, peekedQuiet
	p.unlooked = p.stamped && now.Sub(p.kept) < unlookedFor
	p.sentAt, p.size = now, size
	if !p.unlooked {
		if p.look(fd); p.found != peekedQuiet {
			p.err = errUnsent // even if look found an error, because no byte of the request was sent
		}
	}
	return p.found == peekedQuiet
}

// recv reads into b. If the bytes are not a response to the request, it returns errLeftover.
func (p *poll) recv(fd uintptr, b []byte, justSent bool) (int, error) {
	if p.size == 0 {
		return socket.Recv(fd, b)
	}
	n, at, err := socket.RecvStamped(fd, b)
	if n == 0 {
		if err == syscall.EAGAIN { //nolint:errorlint // a system call returns it unwrapped
			p.unlooked = false // later bytes arrive after the request, even if a step of the clock suggests otherwise
		}
		return 0, err
	}
	wrong := p.leftover(fd, at, justSent)
	if p.size = 0; wrong {
		return 0, errLeftover
	}
	return n, nil
}

// leftover reports whether the first bytes read after a request cannot be its response. This is the
// case if they arrived before the request was written, or before the peer's host acknowledged any
// of it. at is when the bytes arrived, or 0 if unknown.
func (p *poll) leftover(fd uintptr, at int64, justSent bool) bool {
	p.stamped = at != 0
	return p.unlooked && at != 0 && at < p.sentAt.UnixNano() || justSent && p.unacked(fd, p.size)
}

// unacked reports whether the peer's host has not acknowledged any byte of a request. size is the
// size of the request's first write.
func (p *poll) unacked(fd uintptr, size int) bool {
	return !p.local && socket.UnackedBytes(fd) >= size
}

// sendPieces writes as much of pieces as the socket accepts without waiting.
func (p *poll) sendPieces(fd uintptr) {
	if p.left, p.err = socket.SendPieces(fd, p.pieces); errors.Is(p.err, syscall.EAGAIN) {
		p.err = nil
	}
}

// sendHead writes head, the start of a request, if nothing has arrived. Just after the write, it
// checks the socket again. Bytes found by this check cannot be the response if the peer's host has
// not acknowledged any of the request, or if they may have arrived before the write.
func (p *poll) sendHead(fd uintptr) {
	b := p.head
	if !p.quiet(fd, len(b)) {
		return
	}
	if p.left, _ = socket.Send(fd, b); p.left < len(b) {
		return
	}
	p.look(fd)
	p.err = nil // the read will return the error
	if p.found == peekedData && (p.unlooked || p.unacked(fd, len(b))) {
		p.err = errLeftover
	}
}

// unlookedFor is the time after a response during which the next request is written without
// checking the socket. Bytes that arrived in between are recognized by their time of arrival. An
// engine that closes idle connections does so later.
const unlookedFor = time.Millisecond

// tryFetch reads from the socket and reports whether anything has arrived: bytes, the end or an
// error. It uses the spare buffer, if set, or a pooled one. If nothing has arrived, it returns the
// buffer to the pool. Before the first read, it writes unsent.
func (p *poll) tryFetch(fd uintptr) bool {
	justSent := p.unsent != nil
	if justSent && !p.sendUnsent(fd) {
		return true
	}
	b := p.spare
	if p.spare = nil; b == nil {
		b = readBuffers.Get().(*[readBuffer]byte)
	}
	n, err := p.recv(fd, b[:], justSent)
	if n > 0 {
		p.fetched, p.count, p.err = b, n, nil
		// After a short read, the socket is empty, and later bytes or a hang-up wake the poller.
		return p.step == nil || !p.step() || n == len(b) || p.hungUp.Load()
	}
	readBuffers.Put(b)
	if err == syscall.EAGAIN { //nolint:errorlint // a system call returns it unwrapped
		return false
	}
	if err == nil {
		err = io.EOF
	}
	p.fetched, p.count, p.err = nil, 0, err
	return true
}

// wake ends a stay after the engine has hung up. Bytes that have arrived can still be read, and the
// poller reports the connection once more. A stay that begins later misses this report. It ends
// because of hungUp.
func (c *conn) wake() {
	c.poll.hungUp.Store(true)
	c.shutdown(syscall.SHUT_RD)
}

// interrupt ends a stay. It may be called from any goroutine. Closing the socket instead would
// block until a running step has returned.
func (c *conn) interrupt() { c.shutdown(syscall.SHUT_RDWR) }

func (c *conn) shutdown(how int) {
	_ = c.raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), how) }) // fails only on a closed socket
}
