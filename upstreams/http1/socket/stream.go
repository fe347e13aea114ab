//go:build unix

package socket

import (
	"io"
	"os"
	"syscall"
)

// Stream reads and writes a connection. The connection's deadlines and its Close method apply to
// the Stream. One goroutine may call Read while another goroutine calls Write.
type Stream struct {
	raw     syscall.RawConn
	in, out pendingTransfer
	recv    func(fd uintptr) bool // in.recv, bound once so that a read does not allocate
	send    func(fd uintptr) bool // out.send, bound once
	sendNow func(fd uintptr)      // out.sendNow, bound once
}

// sendLimit is the maximum number of bytes that SendPieces passes to the socket. Sending 256 KiB
// takes about 50 µs, during which the scheduler cannot run another goroutine on this CPU.
const sendLimit = 256 << 10

type pendingTransfer struct {
	p   []byte
	n   int
	err error
}

// Attach initialises s for c. It fails only if c is closed.
func (s *Stream) Attach(c Conn) (err error) {
	s.raw, err = c.SyscallConn()
	s.recv, s.send, s.sendNow = s.in.recv, s.out.send, s.out.sendNow
	return err
}

// Read waits for the first byte and reads into p. It returns io.EOF at the end of the stream. It
// never returns bytes together with an error.
func (s *Stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.in = pendingTransfer{p: p}
	err := s.raw.Read(s.recv)
	n := s.in.n
	if err == nil {
		err = s.in.err
	}
	s.in = pendingTransfer{}
	return n, err
}

// TryRead is like Read, but never waits and ignores the deadline. If nothing has arrived, it
// returns os.ErrDeadlineExceeded.
func (s *Stream) TryRead(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	now := pendingTransfer{p: p}
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

// Write writes p and waits until the socket has accepted all of it. If it fails, it returns the
// number of bytes that the socket has accepted.
func (s *Stream) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.out = pendingTransfer{p: p}
	err := s.raw.Write(s.send)
	n := s.out.n
	if err == nil {
		err = s.out.err
	}
	s.out = pendingTransfer{}
	return n, err
}

// TryWrite writes as much of p as the socket accepts without waiting, and returns the number of
// bytes. If an error occurs, the next Write returns it.
func (s *Stream) TryWrite(p []byte) int {
	if len(p) == 0 {
		return 0
	}
	s.out.p = p
	_ = s.raw.Control(s.sendNow) // fails only on a closed connection
	n := s.out.n
	s.out = pendingTransfer{}
	return n
}

// recv tries to read once. It returns false if nothing has arrived yet.
func (t *pendingTransfer) recv(fd uintptr) bool {
	n, err := Recv(fd, t.p)
	switch {
	case err == nil && n == 0:
		t.err = io.EOF
	case err == nil:
		t.n = n
	case err == syscall.EAGAIN: //nolint:errorlint // a system call does not wrap it
		return false
	default:
		t.err = os.NewSyscallError("recv", err)
	}
	return true
}

// sendNow tries to write once.
func (t *pendingTransfer) sendNow(fd uintptr) { t.n, _ = Send(fd, t.p) }

// send writes the remaining bytes. It returns false until the socket has accepted all of them.
func (t *pendingTransfer) send(fd uintptr) bool {
	for t.n < len(t.p) {
		n, err := Send(fd, t.p[t.n:])
		t.n += n
		if err == syscall.EAGAIN { //nolint:errorlint // a system call does not wrap it
			return false
		}
		if err != nil {
			t.err = os.NewSyscallError("send", err)
			break
		}
	}
	return true
}
