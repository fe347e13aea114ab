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
// without a socket. With a deadline in the past, the read checks only the buffers of the TLS layer
// or connection.
const stalePatience = -time.Second

// bind binds the functions, and prepares the socket for recv.
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

// sendUnsent writes the request in unsent, if nothing has arrived, and reports whether the reply
// remains to be awaited.
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

// quiet reports whether a request can be written whose first write has the given size: nothing has
// arrived. It does not look if the last reply has just ended.
func (p *poll) quiet(fd uintptr, size int) bool {
	now := time.Now()
	p.count, p.left, p.err, p.found = 0, 0, errUnsent, peekedQuiet
	p.unlooked = p.stamped && now.Sub(p.kept) < unlookedFor
	p.sentAt, p.size = now, size
	if !p.unlooked {
		if p.look(fd); p.found != peekedQuiet {
			p.err = errUnsent // also if look found an error: nothing of the request has left
		}
	}
	return p.found == peekedQuiet
}

// recv reads into b, and returns errLeftover instead of bytes that do not answer the request.
func (p *poll) recv(fd uintptr, b []byte, justSent bool) (int, error) {
	if p.size == 0 {
		return socket.Recv(fd, b)
	}
	n, at, err := socket.RecvStamped(fd, b)
	if n == 0 {
		if err == syscall.EAGAIN { //nolint:errorlint // a system call returns it bare
			p.unlooked = false // what arrives from now on arrives after the request, whatever the clock says
		}
		return 0, err
	}
	wrong := p.leftover(fd, at, justSent)
	if p.size = 0; wrong {
		return 0, errLeftover
	}
	return n, nil
}

// leftover reports whether the first bytes after a request do not answer it: they arrived before
// the request was written, or while the peer's host had acknowledged nothing of it. at is when
// they arrived, or 0 if that is unknown.
func (p *poll) leftover(fd uintptr, at int64, justSent bool) bool {
	p.stamped = at != 0
	return p.unlooked && at != 0 && at < p.sentAt.UnixNano() || justSent && p.unacked(fd, p.size)
}

// unacked reports whether the peer's host has acknowledged nothing of a request whose first write
// had the given size.
func (p *poll) unacked(fd uintptr, size int) bool {
	return !p.local && socket.UnackedBytes(fd) >= size
}

// sendPieces writes as much of pieces as the socket accepts without waiting.
func (p *poll) sendPieces(fd uintptr) {
	if p.left, p.err = socket.SendPieces(fd, p.pieces); errors.Is(p.err, syscall.EAGAIN) {
		p.err = nil
	}
}

// sendHead writes head, the start of a request, if nothing has arrived, and looks at the socket
// just after the write. Bytes that have arrived then, while the peer's host has acknowledged
// nothing, cannot be the answer. Nor are they if they may have arrived before the write.
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

// unlookedFor is the time after a reply during which the next request is written without a look at
// the socket. Bytes that came in between are then recognised by the time at which they arrived. An
// engine that closes kept connections does so later.
const unlookedFor = time.Millisecond

// tryFetch reads what has arrived and reports whether there was anything: bytes, the end or an
// error. It uses the spare buffer, if set, or a pooled one. If nothing has arrived, it returns the
// buffer to the pool. Before the first read it writes unsent.
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
		// After a short read nothing is left in the socket, and what comes later wakes the poller.
		return p.step == nil || !p.step() || n == len(b)
	}
	readBuffers.Put(b)
	if err == syscall.EAGAIN { //nolint:errorlint // a system call does not wrap it
		return false
	}
	if err == nil {
		err = io.EOF
	}
	p.fetched, p.count, p.err = nil, 0, err
	return true
}
