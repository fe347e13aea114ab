package socket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// pair returns the two ends of a connection, and the Stream of the first end.
func pair(t testing.TB) (*net.TCPConn, *Stream, *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	s := new(Stream)
	if err := s.Attach(near.(*net.TCPConn)); err != nil {
		t.Fatal(err)
	}
	return near.(*net.TCPConn), s, far.(*net.TCPConn)
}

func TestStreamEchoes(t *testing.T) {
	_, s, far := pair(t)
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(far, far)
		done <- errors.Join(err, far.CloseWrite())
	}()
	// want is larger than the buffers of both sockets, so it is written in pieces while the echo is
	// read.
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	wrote := make(chan error, 1)
	go func() {
		n, err := s.Write(want)
		if err == nil && n != len(want) {
			err = io.ErrShortWrite
		}
		wrote <- err
	}()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(s, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("what came back is not what was written: %v", err)
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	far.Close()
	if n, err := s.Read(got); n != 0 || err != io.EOF { // not wrapped, like in package net
		t.Errorf("at the end: %d bytes, %v", n, err)
	}
	<-done
}

func TestStreamEnds(t *testing.T) {
	one := make([]byte, 1)
	much := make([]byte, 64<<20)
	t.Run("deadlines", func(t *testing.T) {
		c, s, _ := pair(t)
		_ = c.SetDeadline(time.Now().Add(20 * time.Millisecond))
		_, readErr := s.Read(one)
		_ = c.SetDeadline(time.Now().Add(100 * time.Millisecond))
		n, writeErr := s.Write(much)
		for _, err := range []error{readErr, writeErr} {
			var timeout net.Error
			if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Errorf("%v, want a timeout", err)
			}
		}
		if n <= 0 || n >= len(much) {
			t.Errorf("%d of %d bytes are said to be written", n, len(much))
		}
		_ = c.SetDeadline(time.Time{})
		if n, err := s.Read(nil); n != 0 || err != nil {
			t.Errorf("a read of nothing: %d, %v", n, err)
		}
		if n, err := s.Write(nil); n != 0 || err != nil {
			t.Errorf("a write of nothing: %d, %v", n, err)
		}
	})
	t.Run("closed meanwhile", func(t *testing.T) {
		c, s, _ := pair(t)
		time.AfterFunc(20*time.Millisecond, func() { c.Close() })
		if _, err := s.Read(one); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read = %v, want %v", err, net.ErrClosed)
		}
		if _, err := s.Write(one); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write = %v, want %v", err, net.ErrClosed)
		}
	})
	t.Run("reset", func(t *testing.T) {
		_, s, far := pair(t)
		_ = far.SetLinger(0)
		far.Close()
		if _, err := s.Read(one); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("Read = %v, want an error that is not an EOF", err)
		}
		if _, err := s.Write(one); err == nil {
			t.Error("Write: no error")
		}
	})
}

func TestStreamAllocatesNothing(t *testing.T) {
	_, s, far := pair(t)
	go func() { _, _ = io.Copy(far, far) }()
	b := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := s.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(s, b); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("a write and a read allocate %v times, want 0", n)
	}
}

func BenchmarkStream(b *testing.B) {
	echo := func(b *testing.B, rw io.ReadWriter) {
		p := make([]byte, 1000)
		for b.Loop() {
			if _, err := rw.Write(p); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(rw, p); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("Stream", func(b *testing.B) {
		_, s, far := pair(b)
		go func() { _, _ = io.Copy(far, far) }()
		echo(b, s)
	})
	b.Run("TCPConn", func(b *testing.B) {
		c, _, far := pair(b)
		go func() { _, _ = io.Copy(far, far) }()
		echo(b, c)
	})
}
