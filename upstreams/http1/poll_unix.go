//go:build unix

package http1

import (
	"errors"
	"io"
	"syscall"
	"time"

	"penstock/upstreams/http1/socket"
)

// staleCheckTimeout is used for TLS connections after a peek has found the socket empty, and for
// connections without a socket. The deadline is in the past, so the read checks only the buffers of
// the TLS layer or of the connection.
const staleCheckTimeout = -time.Second

// bindFuncs binds the functions to p, and makes the kernel record when bytes arrive.
func (p *pollOps) bindFuncs(raw syscall.RawConn) {
	_ = raw.Control(socket.EnableTimestamps) // fails only on a closed socket
	p.probeFunc, p.fetchFunc, p.sendHeadFunc, p.sendPiecesFunc = p.checkQueue, p.tryFetch, p.sendHead, p.sendPieces
}

func (p *pollOps) peek(raw syscall.RawConn) receiveQueueState {
	if err := raw.Control(p.probeFunc); err != nil {
		p.err = err
		return queueBroken
	}
	return p.peekResult
}

func (p *pollOps) checkQueue(fd uintptr) {
	n, err := socket.Peek(fd, p.probeBuf[:])
	switch {
	case err == syscall.EAGAIN: //nolint:errorlint // a system call returns it unwrapped
		p.peekResult = queueEmpty
	case err != nil:
		p.peekResult, p.err = queueBroken, err
	case n == 0:
		p.peekResult = queueEOF
	default:
		p.peekResult = queueHasData
	}
}

// sendUnsent writes unsentRequest if nothing has arrived. It reports whether the whole request was
// written, so that the caller can wait for the response.
func (p *pollOps) sendUnsent(fd uintptr) bool {
	b := p.unsentRequest.b
	if !p.isQuiet(fd, len(b)) {
		return false
	}
	if p.sentBytes, _ = socket.Send(fd, b); p.sentBytes < len(b) {
		return false // the next write will return the error
	}
	p.unsentRequest.release()
	p.unsentRequest = nil
	return true
}

// isQuiet reports whether nothing has arrived, so that a request can be written. size is the size
// of the request's first write. If the last response has just ended, isQuiet does not check the
// socket.
func (p *pollOps) isQuiet(fd uintptr, size int) bool {
	now := time.Now()
	p.fetchedBytes, p.sentBytes, p.err, p.peekResult = 0, 0, errUnsent, queueEmpty
	p.uncheckedWrite = p.hasTimestamps && now.Sub(p.idleSince) < uncheckedWindow
	p.sentAt, p.firstWriteSize = now.UnixNano(), size
	if !p.uncheckedWrite {
		if p.checkQueue(fd); p.peekResult != queueEmpty {
			p.err = errUnsent // even if checkQueue has found an error, because no byte of the request was sent
		}
	}
	return p.peekResult == queueEmpty
}

// recv reads into b. If the bytes are not a response to the request, it returns
// errBytesBeforeRequestArrived.
func (p *pollOps) recv(fd uintptr, b []byte, justSent bool) (int, error) {
	if p.firstWriteSize == 0 {
		return socket.Recv(fd, b)
	}
	n, at, err := socket.RecvTimestamped(fd, b)
	if n == 0 {
		if err == syscall.EAGAIN { //nolint:errorlint // a system call returns it unwrapped
			p.uncheckedWrite = false // later bytes arrive after the request, even if the clock steps back
		}
		return 0, err
	}
	wrong := p.isUnsolicited(fd, at, justSent)
	if p.firstWriteSize = 0; wrong {
		return 0, errBytesBeforeRequestArrived
	}
	return n, nil
}

// isUnsolicited reports whether the first bytes read after a request cannot be its response. Such
// bytes arrived before the request was written, or before the peer's host acknowledged any of it.
// at is when the bytes arrived, or 0 if unknown.
func (p *pollOps) isUnsolicited(fd uintptr, at int64, justSent bool) bool {
	p.hasTimestamps = at != 0
	return p.uncheckedWrite && at != 0 && at < p.sentAt || justSent && p.isUnacked(fd, p.firstWriteSize)
}

// isUnacked reports whether the peer's host has not acknowledged any byte of a request. size is the
// size of the request's first write.
func (p *pollOps) isUnacked(fd uintptr, size int) bool {
	return !p.isUnixSocket && socket.UnackedBytes(fd) >= size
}

// sendPieces writes as much of pieces as the socket accepts without waiting.
func (p *pollOps) sendPieces(fd uintptr) {
	if p.sentBytes, p.err = socket.SendPieces(fd, p.pieces); errors.Is(p.err, syscall.EAGAIN) {
		p.err = nil
	}
}

// sendHead writes head, the start of a request, if nothing has arrived. The engine cannot respond
// before it has the rest of the request, so bytes that arrive before sendHead returns are not the
// response. The next read recognizes them by their time of arrival. If the kernel does not record
// this time, sendHead checks the socket again. It then finds only bytes that arrived before the
// peer's host acknowledged any of the request.
func (p *pollOps) sendHead(fd uintptr) {
	b := p.head
	if !p.isQuiet(fd, len(b)) {
		return
	}
	if p.sentBytes, _ = socket.Send(fd, b); p.sentBytes < len(b) {
		return
	}
	if p.err = nil; p.hasTimestamps { // the read will return other errors
		p.sentAt, p.uncheckedWrite = time.Now().UnixNano(), true
		return
	}
	if p.checkQueue(fd); p.peekResult == queueHasData && p.isUnacked(fd, len(b)) {
		p.err = errBytesBeforeRequestArrived
		return
	}
	p.err = nil
}

// uncheckedWindow is the time after a response during which the next request is written without
// checking the socket. Bytes that arrived between the response and the request are recognized by
// their time of arrival. An engine closes idle connections only after a longer time.
const uncheckedWindow = time.Millisecond

// tryFetch reads from the socket and reports whether anything has arrived: bytes, the end of the
// stream or an error. It uses the spare buffer, if set, or a pooled buffer. If nothing has arrived,
// it returns the buffer to the pool. Before the first read, it writes unsentRequest.
func (p *pollOps) tryFetch(fd uintptr) bool {
	justSent := p.unsentRequest != nil
	if justSent && !p.sendUnsent(fd) {
		return true
	}
	b := p.spare
	if p.spare = nil; b == nil {
		b = readBufferPool.Get().(*[readBufferSize]byte)
	}
	n, err := p.recv(fd, b[:], justSent)
	if n > 0 {
		p.fetched, p.fetchedBytes, p.err = b, n, nil
		// After a short read, the socket is empty, and later bytes or a hang-up wake the poller.
		return p.staying == nil || !p.staying.runStep(p) || n == len(b) || p.engineHungUp.Load()
	}
	readBufferPool.Put(b)
	if err == syscall.EAGAIN { //nolint:errorlint // a system call returns it unwrapped
		return false
	}
	if err == nil {
		err = io.EOF
	}
	p.fetched, p.fetchedBytes, p.err = nil, 0, err
	return true
}

// endStayOnHangUp ends a stay after the engine has hung up. Bytes that have arrived can still be
// read, and the poller reports the connection once more. A stay that begins later misses this
// report, and ends because engineHungUp is set.
func (c *conn) endStayOnHangUp() {
	c.poll.engineHungUp.Store(true)
	c.shutdown(syscall.SHUT_RD)
}

// interruptStay ends a stay. It may be called from any goroutine. Closing the socket instead would
// block until a running step has returned.
func (c *conn) interruptStay() { c.shutdown(syscall.SHUT_RDWR) }

func (c *conn) shutdown(how int) {
	_ = c.raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), how) }) // fails only on a closed socket
}
