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
// change moves a timer of the runtime. A deadline is only a reason to check the clock: read and
// send decide by the time they were given. So a deadline left over from an earlier exchange costs
// only one check of the clock when it fires.
type conn struct {
	nc      net.Conn        // the connection to read and write: a plainConn, or TLS over it
	sock    net.Conn        // the socket itself
	raw     syscall.RawConn // for calls on the descriptor; noSocket if there is none
	secured bool            // nc is TLS
	poll    poll

	catchUp catchUp   // of reads, including those by TLS
	readBy  time.Time // the read deadline the socket holds; zero: none
	writeBy time.Time // the write deadline the socket holds; zero: none

	retires     time.Time // when it is too old to be kept, even if in use; set when it is first kept
	expires     time.Time // while idle: when it becomes too old to be used again
	kept        time.Time // while idle: when it became idle
	unsolicited bool      // unsolicited bytes came right behind a reply

	watch    *HostWatch  // knows the connection until it is closed
	addr     string      // the host's address in watch
	vanished atomic.Bool // watch closed it because its host has vanished
}

// newConn wraps a connected socket, or a connection without one (net.Pipe), which has no
// descriptor to look at.
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
	c.poll.bind()
	return c, nil
}

// noSocket is the descriptor of a connection without one. It runs nothing.
type noSocket struct{}

func (noSocket) Control(func(uintptr)) error    { return errors.ErrUnsupported }
func (noSocket) Read(func(uintptr) bool) error  { return errors.ErrUnsupported }
func (noSocket) Write(func(uintptr) bool) error { return errors.ErrUnsupported }

// plainConn reads by package socket. A read by package net wakes the runtime's monitor thread if
// the process was idle (requestWriter.pushAtOnce), at least once for each reply above 4 KiB.
type plainConn struct {
	net.Conn
	stream  socket.Stream
	catchUp *catchUp // of the conn
}

// Read implements net.Conn. After its deadline it still returns what has already arrived.
func (c *plainConn) Read(p []byte) (int, error) {
	n, err := c.stream.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) && c.catchUp.allowed(time.Now()) {
		return c.stream.ReadNow(p)
	}
	return n, err
}

// catchUp decides whether a read returns bytes that have arrived when its deadline has passed. A
// process that was stopped, or had no processor, finds its deadline passed and the answer in its
// socket: that answer counts. But an engine that sends without a pause must not outlast its
// deadline this way, so the time for this is limited.
type catchUp struct {
	until time.Time // the deadline of the running read; zero: none
	of    time.Time // the deadline that was found to have passed
	since time.Time // when that was found
}

// catchUpMost is how long after a deadline reads still return bytes: generous for the contents of a
// socket and the network.
const catchUpMost = time.Second

// allowed reports whether to check the socket once more.
func (c *catchUp) allowed(now time.Time) bool {
	if c.until.IsZero() || now.Before(c.until) {
		return false // an old deadline has fired, and the read is repeated
	}
	if c.of != c.until {
		c.of, c.since = c.until, now
	}
	return now.Sub(c.since) < catchUpMost
}

// close closes the socket at once, from any goroutine and any number of times. A running read or
// write returns. It sends no close_notify over TLS, which could block behind a write that the
// engine does not read.
func (c *conn) close() {
	_ = c.sock.Close()
	if c.watch != nil {
		c.watch.closed(c)
	}
}

// reset makes the coming close discard unsent bytes and send a reset. It is for requests abandoned
// half-way: otherwise the kernel would deliver the rest before the engine sees the end.
func (c *conn) reset() {
	if s, ok := c.sock.(interface{ SetLinger(seconds int) error }); ok {
		_ = s.SetLinger(0) // fails on a closed socket only
	}
}

// read reads what has come, and waits for it no longer than until (zero: without limit). It returns
// ErrNotYet if the time has passed and nothing has come, and never both bytes and an error.
func (c *conn) read(p []byte, until time.Time) (int, error) {
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

// late translates the error of a read: it is nil if only an old deadline has fired, and the caller
// must repeat the read.
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

// fetch is read into a buffer from readBuffers, which it takes only when there is something to
// read. If n is not 0, the caller owns the buffer; otherwise it is nil. See fetches.
//
// fetch first writes poll.unsent, if the connection is quiet. The poller already watches the socket
// then, so the reply cannot arrive unnoticed. It returns errUnsent if it could not write all of it.
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

// fetchNow takes what has arrived although the time has passed, as plainConn.Read does.
func (c *conn) fetchNow() (came bool) {
	if !c.catchUp.allowed(time.Now()) {
		return false
	}
	_ = c.raw.Control(func(fd uintptr) { came = c.poll.grab(fd) }) // fails on a closed socket only, where nothing has come
	return came
}

// peeks reports whether peek can see received bytes without taking them. If it cannot, an early
// answer is seen only when the write fails or its time is up.
func (c *conn) peeks() bool { return c.poll.probe != nil }

// peek checks what the socket has received, without waiting and without taking anything. It sees
// nothing if it cannot look; see peeks.
func (c *conn) peek() peeked {
	if !c.peeks() {
		return peekedQuiet
	}
	return c.poll.peek(c.raw)
}

// leftover reports whether bytes are there although the engine's host has acknowledged nothing of a
// request whose first write had size bytes: they cannot be its answer. See errLeftover.
func (c *conn) leftover(size int) (yes bool) {
	if c.peek() != peekedData {
		return false
	}
	_ = c.raw.Control(func(fd uintptr) { yes = socket.UnackedBytes(fd) >= size }) // fails on a closed socket only
	return yes
}

// sendHead writes the head of a request on a kept connection that fetches, between two looks. It
// returns how many bytes were sent: less than all if the socket takes no more, or is not quiet. The
// error is errLeftover.
func (c *conn) sendHead(b []byte) (int, error) {
	p := &c.poll
	p.head, p.left, p.found, p.err = b, 0, peekedQuiet, errUnsent
	_ = c.raw.Control(p.begin) // fails on a closed socket only, which the next write reports
	p.head = nil
	switch {
	case errors.Is(p.err, errUnsent) && p.found == peekedData:
		return 0, errLeftover
	case errors.Is(p.err, errUnsent):
		return max(p.left, 0), nil
	}
	return len(b), p.err
}

// armRead makes the next read return at until, or earlier.
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

// sendPiece bounds one TLS write, so that progress shows between the pieces.
const sendPiece = 64 << 10

// send writes from the front of v and removes what was written. One call is one attempt: it may
// leave some of v, with or without an error.
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

// interruptUnacked ends a write, until stop is called, if the engine's host has acknowledged
// nothing for patience. It is for TLS, which cannot continue a write that was interrupted for a
// check.
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
				_ = c.sock.SetWriteDeadline(time.Unix(1, 0)) // fails on a closed socket only, which ends the write as well
				return
			}
		}
	})
	return func() { close(done) }
}

// armWrite makes the next write return after step, and not later than limit after last. On a plain
// connection an earlier deadline is fine, so the one of the previous exchange mostly serves this
// one too.
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

// justKept reports whether the last reply ended so recently that bytes which arrive now belong to
// it. Later bytes are mostly the 408 with which servers end connections that were idle for too
// long.
func (c *conn) justKept(now time.Time) bool { return now.Sub(c.kept) < time.Second }

// stale reports whether an idle connection is unusable: it was closed, it is broken, or it holds
// unsolicited bytes that would be taken for the next reply.
func (c *conn) stale(now time.Time) bool {
	if c.peek() != peekedQuiet {
		c.unsolicited = c.poll.found == peekedData && !c.secured && c.justKept(now)
		return true
	}
	if c.peeks() && !c.secured {
		return false
	}
	// A peek cannot see surplus that TLS has already decrypted or buffered, and some systems have
	// no peek. So read with almost no patience: a healthy connection times out, and the timeout
	// does not harm the reading side of TLS.
	c.readWithin(time.Now().Add(stalePatience))
	n, err := c.nc.Read(c.poll.one[:])
	c.readWithin(time.Time{})
	c.unsolicited = n > 0 && c.justKept(now)
	return n > 0 || !errors.Is(err, os.ErrDeadlineExceeded)
}

// ask calls socket.UnackedFor or socket.SilentFor on the connection.
func (c *conn) ask(question func(fd uintptr) (ms int, yes bool)) (silence time.Duration, yes bool) {
	ms := 0
	_ = c.raw.Control(func(fd uintptr) { ms, yes = question(fd) }) // fails on a closed socket only
	return time.Duration(ms) * time.Millisecond, yes
}

// ended returns why the connection ended: err, which the socket returned, unless its host has
// vanished.
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
		return ReasonTLS // an alert: with TLS 1.3 a refused client certificate shows on the first read only
	default:
		return ReasonReset
	}
}
