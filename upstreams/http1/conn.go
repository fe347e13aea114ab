package http1

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"penstock/upstreams/http1/socket"
)

// conn is a connection to an engine. It has one owner at a time: an exchange, or the idle pool of
// its transport. Other goroutines may call only close.
//
// conn changes the socket's deadlines as rarely as possible, because each change moves a runtime
// timer. When a deadline expires, read and send compare the clock with the caller's limit. A
// deadline left by an earlier exchange therefore costs only one check.
type conn struct {
	nc    net.Conn        // connection to read and write: a plainConn, or TLS over it
	sock  net.Conn        // the underlying socket
	raw   syscall.RawConn // for system calls; noSocket if there is no descriptor
	isTLS bool            // nc is TLS
	poll  pollOps

	lateReads     lateReadLimit // applies to all reads, including those by the TLS layer
	readDeadline  time.Time     // current read deadline of the socket, or zero
	writeDeadline time.Time     // current write deadline of the socket, or zero

	reuseUntil     time.Time // when the connection may no longer be reused; set when it first becomes idle
	idleUntil      time.Time // while idle: when the connection must be closed
	hasUnsolicited bool      // unsolicited bytes arrived right after a response

	watch        *HostWatch          // the HostWatch that tracks the connection until it is closed
	addr         string              // the host's address in watch
	hostVanished atomic.Bool         // watch closed the connection because the host has vanished
	hangUp       socket.HangUpHandle // the connection's handle in engineHangUps
}

// newConn wraps a connected socket. sock may also be a connection without a descriptor, such as
// net.Pipe.
func newConn(sock net.Conn) (*conn, error) {
	described, ok := sock.(socket.Conn)
	if !ok {
		return &conn{nc: sock, sock: sock, raw: noSocket{}}, nil
	}
	raw, err := described.SyscallConn()
	if err != nil {
		return nil, err
	}
	plain := &plainConn{Conn: sock}
	if err := plain.stream.Attach(described); err != nil {
		return nil, err
	}
	c := &conn{nc: plain, sock: sock, raw: raw}
	plain.lateReads = &c.lateReads
	c.poll.isUnixSocket = sock.LocalAddr().Network() == "unix"
	c.poll.bindFuncs(raw)
	return c, nil
}

// noSocket is the RawConn of a connection without a descriptor.
type noSocket struct{}

func (noSocket) Control(func(uintptr)) error    { return errors.ErrUnsupported }
func (noSocket) Read(func(uintptr) bool) error  { return errors.ErrUnsupported }
func (noSocket) Write(func(uintptr) bool) error { return errors.ErrUnsupported }

// plainConn reads with package socket. In an idle process, reads by package net would wake the
// runtime's monitor thread at least once for each response above 4 KiB (see
// requestWriter.writeWithoutWaiting).
type plainConn struct {
	net.Conn
	stream    socket.Stream
	lateReads *lateReadLimit // shared with conn
}

// Read implements net.Conn. After its deadline, it still returns bytes that have already arrived.
func (c *plainConn) Read(p []byte) (int, error) {
	n, err := c.stream.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) && c.lateReads.allowsRead(time.Now()) {
		return c.stream.TryRead(p)
	}
	return n, err
}

// lateReadLimit decides whether a read after its deadline may still return bytes that have already
// arrived. If the process was stopped or got no CPU, the deadline may pass while a complete
// response is in the socket. Such reads are limited to a short time. Otherwise, reads from an
// engine that sends continuously would never time out.
type lateReadLimit struct {
	deadline        time.Time // deadline of the current read, or zero
	expiredDeadline time.Time // the last expired deadline
	noticedAt       time.Time // when a read detected that the deadline had passed
}

// maxLateReadTime is how long reads still return bytes after a read has detected that its deadline
// has passed. That is ample time for the bytes in the socket and in the network.
const maxLateReadTime = time.Second

// allowsRead reports whether to read from the socket once more.
func (c *lateReadLimit) allowsRead(now time.Time) bool {
	if c.deadline.IsZero() || now.Before(c.deadline) {
		return false // the deadline of an earlier exchange has expired, and the caller repeats the read
	}
	if c.expiredDeadline != c.deadline {
		c.expiredDeadline, c.noticedAt = c.deadline, now
	}
	return now.Sub(c.noticedAt) < maxLateReadTime
}

// close closes the socket immediately. It may be called from any goroutine, any number of times. It
// sends no TLS close_notify, because sending one could block if the engine has stopped reading.
func (c *conn) close() {
	_ = c.sock.Close()
	engineHangUps.Remove(&c.hangUp)
	if c.watch != nil {
		c.watch.removeConn(c)
	}
}

// resetOnClose makes the next close discard unsent bytes and send a reset. It must be called for an
// abandoned request, because the kernel would otherwise still deliver the remaining bytes of the
// request.
func (c *conn) resetOnClose() {
	if s, ok := c.sock.(interface{ SetLinger(seconds int) error }); ok {
		_ = s.SetLinger(0) // fails only on a closed socket
	}
}

// read reads the bytes that have arrived. It waits for the first byte until the given time (zero:
// no limit). If no byte has arrived by that time, it returns ErrNoBytesYet. It never returns both
// bytes and an error.
func (c *conn) read(p []byte, until time.Time) (int, error) {
	c.lateReads.deadline = until
	c.limitReadDeadline(until)
	for {
		n, err := c.nc.Read(p)
		if n > 0 {
			return n, nil
		}
		if err == nil {
			continue // TLS returns no bytes for an empty record
		}
		if err = c.mapReadError(err, until); err != nil {
			return 0, err
		}
	}
}

// mapReadError translates the error of a read. If only the deadline of an earlier exchange has
// expired, it returns nil, and the caller must repeat the read.
func (c *conn) mapReadError(err error, until time.Time) error {
	switch {
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case !until.IsZero() && !time.Now().Before(until):
		return ErrNoBytesYet
	}
	c.setReadDeadline(until)
	return nil
}

func (c *conn) canReadWithPooledBuffer() bool { return c.poll.fetchFunc != nil && !c.isTLS }

// readWithPooledBuffer is like read, but gets a buffer from readBufferPool once bytes have arrived.
// If n > 0, the caller owns the buffer. Otherwise, b is nil.
//
// If nothing has arrived yet, fetch first writes poll.unsentRequest. The poller already watches the
// socket when fetch writes, so it cannot miss the response. If fetch cannot write the whole
// request, it returns errUnsent.
func (c *conn) readWithPooledBuffer(until time.Time) (b *[readBufferSize]byte, n int, err error) {
	c.lateReads.deadline = until
	c.limitReadDeadline(until)
	for {
		if err = c.raw.Read(c.poll.fetchFunc); err == nil {
			b, c.poll.fetched = c.poll.fetched, nil
			return b, c.poll.fetchedBytes, c.poll.err
		}
		if err = c.mapReadError(err, until); errors.Is(err, ErrNoBytesYet) && c.poll.unsentRequest == nil && c.readAvailableAfterDeadline() {
			b, c.poll.fetched = c.poll.fetched, nil
			return b, c.poll.fetchedBytes, c.poll.err
		}
		if err != nil {
			return nil, 0, err
		}
	}
}

// readAvailableAfterDeadline is called when the deadline has passed. Like plainConn.Read, it
// fetches the bytes that have already arrived.
func (c *conn) readAvailableAfterDeadline() (came bool) {
	if !c.lateReads.allowsRead(time.Now()) {
		return false
	}
	// Control fails only on a closed socket, which has no bytes.
	_ = c.raw.Control(func(fd uintptr) { came = c.poll.fetchFunc(fd) })
	return came
}

// canPeek reports whether peek works on this connection. If it does not, an early response is
// detected only when the write fails or times out.
func (c *conn) canPeek() bool { return c.poll.probeFunc != nil }

// peek checks the socket's receive queue. It neither waits nor consumes bytes. If peek is not
// supported, it returns queueEmpty.
func (c *conn) peek() receiveQueueState {
	if !c.canPeek() {
		return queueEmpty
	}
	return c.poll.peek(c.raw)
}

// hasUnsolicitedBytes reports whether bytes have arrived although the engine's host has not
// acknowledged any of the first size bytes of the request. Such bytes cannot be the response. See
// also errBytesBeforeRequestArrived.
func (c *conn) hasUnsolicitedBytes(size int) (yes bool) {
	if c.peek() != queueHasData {
		return false
	}
	_ = c.raw.Control(func(fd uintptr) { yes = c.poll.isUnacked(fd, size) }) // fails only on a closed socket
	return yes
}

// sendHead writes b, the start of a request, on a keep-alive connection that supports fetch. It
// checks the socket before and after the write. It returns the number of bytes sent, which is less
// than len(b) if the socket is full. The error is errNotQuiet if nothing was written because the
// socket was not quiet, or errBytesBeforeRequestArrived.
func (c *conn) sendHead(b []byte) (int, error) {
	p := &c.poll
	p.head, p.sentBytes, p.peekResult, p.err = b, 0, queueEmpty, errUnsent
	_ = c.raw.Control(p.sendHeadFunc) // fails only on a closed socket, and the next write reports that
	p.head = nil
	switch {
	case errors.Is(p.err, errUnsent) && p.peekResult != queueEmpty:
		return 0, errNotQuiet
	case errors.Is(p.err, errUnsent):
		return max(p.sentBytes, 0), nil
	}
	return len(b), p.err
}

// limitReadDeadline makes the next read return no later than until.
func (c *conn) limitReadDeadline(until time.Time) {
	if !until.IsZero() && (c.readDeadline.IsZero() || until.Before(c.readDeadline)) {
		c.setReadDeadline(until)
	}
}

func (c *conn) setReadDeadline(by time.Time) {
	_ = c.nc.SetReadDeadline(by) // fails only on a closed socket, and the read reports that
	c.readDeadline = by
}

func (c *conn) setWriteDeadline(by time.Time) {
	_ = c.nc.SetWriteDeadline(by)
	c.writeDeadline = by
}

// maxTLSWrite is the maximum size of one TLS write. Between two writes, writeAll can observe
// progress.
const maxTLSWrite = 64 << 10

// send writes bytes from the front of v, and removes them from v. It makes a single attempt, so
// bytes may remain in v even if the error is nil.
func (c *conn) send(v *net.Buffers) (int, error) {
	if len(*v) > 1 && !c.isTLS {
		n, err := v.WriteTo(c.sock)
		return int(n), err
	}
	b := (*v)[0]
	if c.isTLS && len(b) > maxTLSWrite {
		b = b[:maxTLSWrite]
	}
	n, err := c.nc.Write(b)
	if n == len((*v)[0]) {
		(*v)[0] = nil
		*v = (*v)[1:]
	} else {
		(*v)[0] = (*v)[0][n:]
	}
	return n, err
}

// interruptUnacked aborts the current write if the engine's host acknowledges no bytes for the
// duration patience. It watches the connection until the caller calls stop. For TLS, this requires
// a separate goroutine, because a TLS write cannot continue after a timeout.
func (c *conn) interruptUnacked(patience time.Duration, g Guard) (stop func()) {
	done := make(chan struct{})
	go g.RunWithRecover(guardEngines, func() {
		look := time.NewTicker(patience)
		defer look.Stop()
		for {
			select {
			case <-done:
				return
			case <-look.C:
			}
			if silence, _ := c.measureSilence(socket.UnackedMillis); silence >= patience {
				// SetWriteDeadline fails only on a closed socket, which also ends the write.
				_ = c.sock.SetWriteDeadline(time.Unix(1, 0))
				return
			}
		}
	})
	return func() { close(done) }
}

// limitWriteDeadline limits the next write to now plus step and, unless limit is 0, to last plus
// limit. If step is 0, the write has no deadline. If the connection is not TLS, an earlier deadline
// does no harm, so an exchange can often use the deadline that the previous exchange has set.
func (c *conn) limitWriteDeadline(now, last time.Time, step, limit time.Duration) {
	if step <= 0 {
		if !c.writeDeadline.IsZero() {
			c.setWriteDeadline(time.Time{})
		}
		return
	}
	by := now.Add(step)
	if limit > 0 {
		by = earlierTime(by, last.Add(limit))
	}
	if c.isTLS || !c.writeDeadline.After(now) || c.writeDeadline.After(by) {
		c.setWriteDeadline(by)
	}
}

// becameIdleRecently reports whether the connection became idle less than a second ago. Bytes that
// arrive within that second are surplus bytes of the last response. Later bytes are usually a 408,
// which servers send when they close an idle connection.
func (c *conn) becameIdleRecently(now time.Time) bool { return now.Sub(c.poll.idleSince) < time.Second }

// isStale reports whether an idle connection cannot be reused. Either it is closed or broken, or
// unsolicited bytes have arrived, which would be parsed as the next response.
func (c *conn) isStale(now time.Time) bool {
	if c.peek() != queueEmpty {
		c.hasUnsolicited = c.poll.peekResult == queueHasData && !c.isTLS && c.becameIdleRecently(now)
		return true
	}
	if c.canPeek() && !c.isTLS {
		return false
	}
	// A peek misses bytes that TLS has already decrypted or buffered, and some systems do not
	// support peek. isStale therefore also reads with a minimal deadline. On a healthy connection,
	// the read times out without harming later TLS reads.
	c.setReadDeadline(time.Now().Add(staleCheckTimeout))
	n, err := c.nc.Read(c.poll.probeBuf[:])
	c.setReadDeadline(time.Time{})
	c.hasUnsolicited = n > 0 && c.becameIdleRecently(now)
	return n > 0 || !errors.Is(err, os.ErrDeadlineExceeded)
}

// measureSilence runs socket.UnackedMillis or socket.SilentMillis on the connection.
func (c *conn) measureSilence(question func(fd uintptr) (ms int, yes bool)) (silence time.Duration, yes bool) {
	ms := 0
	_ = c.raw.Control(func(fd uintptr) { ms, yes = question(fd) }) // fails only on a closed socket
	return time.Duration(ms) * time.Millisecond, yes
}

// endReason returns the reason why the connection ended: ErrHostVanished, or err.
func (c *conn) endReason(err error) error {
	if c.hostVanished.Load() || errors.Is(err, errUnacked) && c.watch != nil && c.watch.isSilent(c.addr) {
		return ErrHostVanished
	}
	return err
}

func (c *conn) failureReason(err error) string {
	var errno syscall.Errno
	switch {
	case errors.Is(err, errUnacked), errors.Is(err, syscall.ETIMEDOUT), isNoRoute(err):
		return ReasonSilent
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ReasonEOF
	case c != nil && c.isTLS && !errors.As(err, &errno):
		// TLS 1.3 reports a rejected client certificate only as an alert in the first read.
		return ReasonTLS
	default:
		return ReasonReset
	}
}
