package http1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// overPipe returns a transport whose connections are pipes, each served by engine.
func overPipe(t *testing.T, engine func(at net.Conn)) *Transport {
	t.Helper()
	tr, err := NewTransport(TransportOptions{URL: "http://127.0.0.1:1", Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			engine(far)
		}()
		return near, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// answerAll answers every request with "ok" after a second.
func answerAll(at net.Conn) {
	for in := bufio.NewReader(at); ; {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(time.Second)
		if _, err := io.WriteString(at, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			return
		}
	}
}

// TestPipe checks that an exchange works over a pipe and with the fake clock of a synctest bubble.
func TestPipe(t *testing.T) {
	t.Run("kept", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			dialled := 0
			tr := overPipe(t, func(at net.Conn) { dialled++; answerAll(at) })
			defer tr.Close()
			for range 3 {
				x := tr.NewExchange()
				if err := x.Send(&Request{Method: "POST", Path: "/", Body: [][]byte{[]byte("hello")}}); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				if err := x.Await(begun.Add(time.Minute)); err != nil || time.Since(begun) != time.Second {
					t.Fatalf("Await = %v after %v, want no error after 1 s", err, time.Since(begun))
				}
				b := make([]byte, 8)
				n, err := x.Read(b, time.Time{})
				if err != nil || string(b[:n]) != "ok" {
					t.Fatalf("Read = %q, %v; want ok", b[:n], err)
				}
				x.Close()
			}
			if dialled != 1 {
				t.Errorf("%d connections for three requests, want one", dialled)
			}
		})
	})
	t.Run("silent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tr := overPipe(t, func(at net.Conn) { _, _ = io.Copy(io.Discard, at) })
			defer tr.Close()
			x := tr.NewExchange()
			defer x.Close()
			if err := x.Send(&Request{Method: "POST", Path: "/"}); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if err := x.Await(begun.Add(time.Minute)); !errors.Is(err, ErrNoBytesYet) || time.Since(begun) != time.Minute {
				t.Fatalf("Await = %v after %v, want %v after 1 m", err, time.Since(begun), ErrNoBytesYet)
			}
		})
	})
	t.Run("dead", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tr := overPipe(t, func(at net.Conn) { _, _ = http.ReadRequest(bufio.NewReader(at)) })
			defer tr.Close()
			x := tr.NewExchange()
			defer x.Close()
			err := x.Send(&Request{Method: "POST", Path: "/"})
			if err == nil {
				err = x.Await(time.Time{})
			}
			if f := (*Failure)(nil); !errors.As(err, &f) || f.Reason != ReasonEOF {
				t.Fatalf("%v, want the end of the connection", err)
			}
		})
	})
}
