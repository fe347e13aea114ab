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

// conn is one connection to an engine. It has one owner at a time: an exchange, or the idle list of
// its transport. Only close is safe for other goroutines.
//
// The conn remembers the socket's deadlines and changes them as rarely as possible, because each
// change moves a timer of the runtime. When a deadline fires, read and send compare the clock with
// their caller's time limit. A deadline left over from an earlier exchange therefore costs only one
// check.
type conn struct {
	nc      net.Conn        // the connection to read and write: a plainConn, or TLS over it
	sock    net.Conn        // the socket itself
	raw     syscall.RawConn // for system calls on the socket; noSocket if it has no descriptor
	secured bool            // nc is TLS
	poll    poll

	catchUp catchUp   // for reads, including those by TLS
	readBy  time.Time // the socket's read deadline; zero: none
	writeBy time.Time // the socket's write deadline; zero: none

	retires     time.Time // when it is too old to be kept; set when first kept
	expires     time.Time // while idle: when it becomes too old for reuse
	kept        time.Time // while idle: when it became idle
	unsolicited bool      // unsolicited bytes arrived right after a reply

	watch    *HostWatch    // tracks the connection until it is closed
	addr     string        // the host's address in watch
	vanished atomic.Bool   // watch closed it because its host has vanished
	hangID   atomic.Uint64 // in engineHangUps; 0: not watched there
}

// newConn wraps a connected socket, or a connection without a descriptor (net.Pipe).
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
	if err := plain.stream.Open(described); err != nil {
		return nil, err
	}
	c := &conn{nc: plain, sock: sock, raw: raw}
	plain.catchUp = &c.catchUp
	c.poll.local = sock.LocalAddr().Network() == "unix"
	c.poll.bind(raw)
	return c, nil
}

// noSocket replaces the descriptor of a connection that has none. It runs nothing.
type noSocket struct{}

func (noSocket) Control(func(uintptr)) error    { return errors.ErrUnsupported }
func (noSocket) Read(func(uintptr) bool) error  { return errors.ErrUnsupported }
func (noSocket) Write(func(uintptr) bool) error { return errors.ErrUnsupported }

// plainConn reads with package socket. In an idle process a read by package net wakes the runtime's
// monitor thread (see requestWriter.pushAtOnce), at least once for each reply above 4 KiB.
type plainConn struct {
	net.Conn
	stream  socket.Stream
	catchUp *catchUp // shared with the conn
}

// Read implements net.Conn. After its deadline it still returns bytes that have already arrived.
func (c *plainConn) Read(p []byte) (int, error) {
	n, err := c.stream.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) && c.catchUp.allowed(time.Now()) {
		return c.stream.ReadNow(p)
	}
	return n, err
}

// catchUp decides whether a read after its deadline may return bytes that have arrived. If a
// process was stopped or had no CPU, its deadline may pass while the answer is in its socket, and
// that answer should count. The time is limited, because an engine that sends without a pause must
// not outlast its deadline in this way.
type catchUp struct {
	until time.Time // the deadline of the running read; zero: none
	of    time.Time // the deadline that had passed
	since time.Time // when the read noticed that
}

// catchUpMost is the time after a deadline during which reads still return bytes. It is ample for
// the bytes in a socket and in the network.
const catchUpMost = time.Second

// allowed reports whether to check the socket once more.
func (c *catchUp) allowed(now time.Time) bool {
	if c.until.IsZero() || now.Before(c.until) {
		return false // an old deadline fired, and the read is repeated
	}
	if c.of != c.until {
		c.of, c.since = c.until, now
	}
	return now.Sub(c.since) < catchUpMost
}

// close closes the socket at once, from any goroutine and any number of times. A running read or
// write returns. Under TLS it sends no close_notify, which could block behind a write that the
// engine does not read.
func (c *conn) close() {
	_ = c.sock.Close()
	engineHangUps.forget(c)
	if c.watch != nil {
		c.watch.closed(c)
	}
}

// reset makes the following close discard unsent bytes and send a reset. It is for abandoned
// requests: otherwise the kernel would deliver the remaining bytes of the request before the engine
// sees the end.
func (c *conn) reset() {
	if s, ok := c.sock.(interface{ SetLinger(seconds int) error }); ok {
		_ = s.SetLinger(0) // fails on a closed socket only
	}
}

// read reads the bytes that have arrived. It waits for the first byte until the given time (zero:
// without limit), and returns ErrNotYet if none arrives. It never returns both bytes and an error.
func (c *conn) read(p []byte, until time.Time) (int, error) {
	if c.poll.inside {
		return 0, ErrNotYet
	}
	c.catchUp.until = until
	c.armRead(until)
	for {
		n, err := c.nc.Read(p)
		if n > 0 {
			return n, nil
		}
		if err == nil {
			continue // TLS returns nothing for an empty record
		}
		if err = c.late(err, until); err != nil {
			return 0, err
		}
	}
}

// late translates the error of a read. It returns nil if only an old deadline has fired and the
// caller must repeat the read.
func (c *conn) late(err error, until time.Time) error {
	switch {
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case !until.IsZero() && !time.Now().Before(until):
		return ErrNotYet
	}
	c.readWithin(until)
	return nil
}

// fetches reports whether fetch can be used.
func (c *conn) fetches() bool { return c.poll.grab != nil && !c.secured }

// fetch is read with a buffer from readBuffers, which it takes only when bytes have arrived. If n
// is not 0, the caller owns the buffer; otherwise the buffer is nil. See fetches.
//
// fetch first writes poll.unsent, if the connection is quiet. The poller already watches the
// socket then, so the reply cannot arrive unnoticed. fetch returns errUnsent if it could not
// write the whole request.
func (c *conn) fetch(until time.Time) (b *[readBuffer]byte, n int, err error) {
	c.catchUp.until = until
	c.armRead(until)
	for {
		if err = c.raw.Read(c.poll.grab); err == nil {
			b, c.poll.fetched = c.poll.fetched, nil
			return b, c.poll.count, c.poll.err
		}
		if err = c.late(err, until); errors.Is(err, ErrNotYet) && c.poll.unsent == nil && c.fetchNow() {
			b, c.poll.fetched = c.poll.fetched, nil
			return b, c.poll.count, c.poll.err
		}
		if err != nil {
			return nil, 0, err
		}
	}
}

// fetchNow takes bytes that have arrived although the time has passed, as plainConn.Read does.
func (c *conn) fetchNow() (came bool) {
	if !c.catchUp.allowed(time.Now()) {
		return false
	}
	// fails only on a closed socket, which has no bytes
	_ = c.raw.Control(func(fd uintptr) { came = c.poll.grab(fd) })
	return came
}

// peeks reports whether peek can see received bytes without taking them. If not, an early answer is
// noticed only when the write fails or times out.
func (c *conn) peeks() bool { return c.poll.probe != nil }

// peek checks what the socket has received, without waiting and without taking anything. If peeks()
// is false, it sees nothing.
func (c *conn) peek() peeked {
	if !c.peeks() {
		return peekedQuiet
	}
	return c.poll.peek(c.raw)
}

// leftover reports whether bytes have arrived although the engine's host has acknowledged no byte
// of a request, whose first write had the given size. Such bytes cannot be the request's answer.
// See errLeftover.
func (c *conn) leftover(size int) (yes bool) {
	if c.peek() != peekedData {
		return false
	}
	_ = c.raw.Control(func(fd uintptr) { yes = c.poll.unacked(fd, size) }) // fails on a closed socket only
	return yes
}

// sendHead writes the head of a request on a keep-alive connection that supports fetch, and checks
// the socket before and after the write. It returns the number of sent bytes: fewer than all if the
// socket is full. The error is errNotQuiet if nothing was written, or errLeftover.
func (c *conn) sendHead(b []byte) (int, error) {
	p := &c.poll
	p.head, p.left, p.found, p.err = b, 0, peekedQuiet, errUnsent
	_ = c.raw.Control(p.begin) // fails on a closed socket only, which the next write reports
	p.head = nil
	switch {
	case errors.Is(p.err, errUnsent) && p.found != peekedQuiet:
		return 0, errNotQuiet
	case errors.Is(p.err, errUnsent):
		return max(p.left, 0), nil
	}
	return len(b), p.err
}

// armRead sets the deadline of the next read to until, or earlier.
func (c *conn) armRead(until time.Time) {
	if !until.IsZero() && (c.readBy.IsZero() || until.Before(c.readBy)) {
		c.readWithin(until)
	}
}

func (c *conn) readWithin(by time.Time) {
	_ = c.nc.SetReadDeadline(by) // fails on a closed socket only, which the read reports
	c.readBy = by
}

func (c *conn) writeWithin(by time.Time) {
	_ = c.nc.SetWriteDeadline(by)
	c.writeBy = by
}

// sendPiece is the maximum size of one TLS write, so that the writer sees progress between the
// pieces.
const sendPiece = 64 << 10

// send writes from the front of v and removes what was written. A call makes one attempt and may
// leave some of v unwritten, with or without an error.
func (c *conn) send(v *net.Buffers) (int, error) {
	if len(*v) > 1 && !c.secured {
		n, err := v.WriteTo(c.sock)
		return int(n), err
	}
	b := (*v)[0]
	if c.secured && len(b) > sendPiece {
		b = b[:sendPiece]
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

// interruptUnacked ends the current write if the engine's host acknowledges nothing for the given
// time. It watches the write until stop is called. TLS needs this, because it cannot continue a
// write that was interrupted for a check.
func (c *conn) interruptUnacked(patience time.Duration, g Guard) (stop func()) {
	done := make(chan struct{})
	go g.Once(guardEngines, func() {
		look := time.NewTicker(patience)
		defer look.Stop()
		for {
			select {
			case <-done:
				return
			case <-look.C:
			}
			if silence, _ := c.ask(socket.UnackedFor); silence >= patience {
				// fails on a closed socket only, which also ends the write
				_ = c.sock.SetWriteDeadline(time.Unix(1, 0))
				return
			}
		}
	})
	return func() { close(done) }
}

// armWrite makes the next write return after step, but no later than last plus limit. On a plain
// connection an earlier deadline does no harm, so this exchange can mostly use the deadline of the
// previous one.
func (c *conn) armWrite(now, last time.Time, step, limit time.Duration) {
	if step <= 0 {
		if !c.writeBy.IsZero() {
			c.writeWithin(time.Time{})
		}
		return
	}
	by := now.Add(step)
	if limit > 0 {
		by = earlier(by, last.Add(limit))
	}
	if c.secured || !c.writeBy.After(now) || c.writeBy.After(by) {
		c.writeWithin(by)
	}
}

// justKept reports whether the last reply ended so recently that bytes arriving now belong to it.
// Later bytes are mostly a 408: servers send it when they close a connection that was idle too
// long.
func (c *conn) justKept(now time.Time) bool { return now.Sub(c.kept) < time.Second }

// stale reports whether an idle connection is unusable: it is closed or broken, or holds
// unsolicited bytes that would be taken for the next reply.
func (c *conn) stale(now time.Time) bool {
	if c.peek() != peekedQuiet {
		c.unsolicited = c.poll.found == peekedData && !c.secured && c.justKept(now)
		return true
	}
	if c.peeks() && !c.secured {
		return false
	}
	// A peek cannot see surplus bytes that TLS has already decrypted or buffered, and some systems
	// have no peek. So the check reads with a minimal deadline. A read from a healthy connection
	// times out, which does not harm the reading side of TLS.
	c.readWithin(time.Now().Add(stalePatience))
	n, err := c.nc.Read(c.poll.one[:])
	c.readWithin(time.Time{})
	c.unsolicited = n > 0 && c.justKept(now)
	return n > 0 || !errors.Is(err, os.ErrDeadlineExceeded)
}

// ask calls question, which is socket.UnackedFor or socket.SilentFor, on the connection.
func (c *conn) ask(question func(fd uintptr) (ms int, yes bool)) (silence time.Duration, yes bool) {
	ms := 0
	_ = c.raw.Control(func(fd uintptr) { ms, yes = question(fd) }) // fails on a closed socket only
	return time.Duration(ms) * time.Millisecond, yes
}

// ended returns why the connection ended: the socket's error err, or ErrHostVanished.
func (c *conn) ended(err error) error {
	if c.vanished.Load() || errors.Is(err, errUnacked) && c.watch != nil && c.watch.silent(c.addr) {
		return ErrHostVanished
	}
	return err
}

// reasonOf names how a connection ended.
func (c *conn) reasonOf(err error) string {
	var errno syscall.Errno
	switch {
	case errors.Is(err, errUnacked), errors.Is(err, syscall.ETIMEDOUT), noRoute(err):
		return ReasonSilent
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ReasonEOF
	case c != nil && c.secured && !errors.As(err, &errno):
		// under TLS 1.3 only an alert in the first read shows a refused client certificate
		return ReasonTLS
	default:
		return ReasonReset
	}
}
