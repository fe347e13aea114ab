//go:build unix

package socket

import (
	"io"
	"os"
	"syscall"
)

// Stream reads and writes a connection. The connection's own deadlines and Close apply to it. One
// goroutine at a time may call Read, and one, possibly another, Write.
type Stream struct {
	raw     syscall.RawConn
	in, out transfer
	recv    func(fd uintptr) bool // in.recv, bound once so that a read allocates nothing
	send    func(fd uintptr) bool // out.send, likewise
}

// sendLimit is the maximum number of bytes that one SendPieces passes to the socket. 256 KiB are
// about 50 us of work, during which the scheduler cannot run another goroutine on this CPU.
const sendLimit = 256 << 10

// transfer is a running read or write.
type transfer struct {
	p   []byte
	n   int
	err error
}

// Open prepares s for c. It fails only on a closed connection.
func (s *Stream) Open(c Conn) (err error) {
	s.raw, err = c.SyscallConn()
	s.recv, s.send = s.in.recv, s.out.send
	return err
}

// Read reads into p and waits for the first byte. It returns io.EOF at the end, and never bytes
// with an error.
func (s *Stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.in = transfer{p: p}
	err := s.raw.Read(s.recv)
	n := s.in.n
	if err == nil {
		err = s.in.err
	}
	s.in = transfer{}
	return n, err
}

// ReadNow reads like Read but never waits, whatever the deadline. The error is
// os.ErrDeadlineExceeded if nothing has arrived.
func (s *Stream) ReadNow(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	now := transfer{p: p}
	came := false
	err := s.raw.Control(func(fd uintptr) { came = now.recv(fd) })
	switch {
	case err != nil:
		return 0, err
	case !came:
		return 0, os.ErrDeadlineExceeded
	}
	return now.n, now.err
}

// Write writes p and waits until the socket has taken all of it. With an error it returns how many
// bytes the socket took.
func (s *Stream) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.out = transfer{p: p}
	err := s.raw.Write(s.send)
	n := s.out.n
	if err == nil {
		err = s.out.err
	}
	s.out = transfer{}
	return n, err
}

// WriteNow writes as much of p as the socket accepts without waiting, and returns the number of
// bytes. The next Write returns an error that occurs.
func (s *Stream) WriteNow(p []byte) (n int) {
	if len(p) > 0 {
		_ = s.raw.Control(func(fd uintptr) { n, _ = Send(fd, p) }) // fails on a closed connection only
	}
	return max(n, 0)
}

// recv reads once. It returns false if nothing has arrived yet.
func (t *transfer) recv(fd uintptr) bool {
	n, err := Recv(fd, t.p)
	switch {
	case err == nil && n == 0:
		t.err = io.EOF
	case err == nil:
		t.n = n
	case err == syscall.EAGAIN: //nolint:errorlint // a system call returns it bare
		return false
	default:
		t.err = os.NewSyscallError("recv", err)
	}
	return true
}

// send writes the bytes that remain. It returns false while the socket has not taken all of them.
func (t *transfer) send(fd uintptr) bool {
	for t.n < len(t.p) {
		n, err := Send(fd, t.p[t.n:])
		t.n += n
		if err == syscall.EAGAIN { //nolint:errorlint // a system call returns it bare
			return false
		}
		if err != nil {
			t.err = os.NewSyscallError("send", err)
			break
		}
	}
	return true
}
