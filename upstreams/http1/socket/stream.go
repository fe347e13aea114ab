//go:build unix

package socket

import (
	"io"
	"net"
	"os"
	"syscall"
)

// Stream is the reading and writing of a TCP connection. Deadlines and closing are the connection's own and act on it. Read belongs
// to one goroutine at a time, and so does Write, which may be another.
type Stream struct {
	raw     syscall.RawConn
	in, out transfer
	recv    func(fd uintptr) bool // in's, bound once so that a read allocates nothing
	send    func(fd uintptr) bool // out's, likewise
}

// transfer is a read or a write that is under way.
type transfer struct {
	p   []byte
	n   int
	err error
}

// Open prepares s for c. It fails on a closed connection only.
func (s *Stream) Open(c *net.TCPConn) (err error) {
	s.raw, err = c.SyscallConn()
	s.recv, s.send = s.in.recv, s.out.send
	return err
}

// Read reads what has come into p, waiting for the first byte. It returns io.EOF at the end, and never bytes with an error.
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

// Write writes p, waiting as long as the socket does not take the rest of it. With an error it returns how much went.
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

// recv reads once and reports whether that is all, or there was nothing to read yet.
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

// send writes what is left and reports whether that is all.
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
