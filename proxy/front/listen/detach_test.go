package listen

import (
	"bufio"
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// TestDetachOnClose checks a connection that the server closes after it was detached. It must stay
// open and return the bytes buffered by the server's reader.
func TestDetachOnClose(t *testing.T) {
	l := open(t, Options{})
	server, client := pair(t, l)
	if _, err := client.Write([]byte("first;second")); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReaderSize(server, 4096)
	if got, err := in.ReadString(';'); err != nil || got != "first;" {
		t.Fatalf("read %q, %v; want first;", got, err)
	}
	server.Unread(in)
	kept := make(chan struct{})
	server.DetachOnClose(func() { close(kept) })
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	<-kept
	if l.Open() != 1 {
		t.Fatalf("%d connections open, want 1", l.Open())
	}
	if _, err := client.Write([]byte(";third")); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for len(got) < len("second;third") {
		var b [4]byte
		n, err := server.Read(b[:])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b[:n]...)
	}
	if string(got) != "second;third" {
		t.Errorf("read %q, want second;third", got)
	}
	if _, err := server.Write([]byte("bye")); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if b, err := io.ReadAll(client); string(b) != "bye" || err != nil || l.Open() != 0 {
		t.Errorf("read %q, %v, %d open; want bye and none open", b, err, l.Open())
	}
}

// TestResume checks that the idle time replaces the first read deadline after Resume, and that the
// second deadline is set as given.
func TestResume(t *testing.T) {
	server, _ := pair(t, open(t, Options{}))
	var b [1]byte
	server.Resume(time.Hour)
	if err := server.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := server.Read(b[:])
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("the deadline was taken: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := server.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("read without a byte")
	}
}

// TestReadDeadlineMoves checks what happens if the read deadline changes. A later deadline must not
// change the socket's deadline. The socket's earlier deadline must not end the read, even if the
// read deadline was cleared. An earlier deadline must end a blocked read.
func TestReadDeadlineMoves(t *testing.T) {
	server, client := pair(t, open(t, Options{}))
	read := make(chan error, 1)
	begin := func() {
		var b [1]byte
		_, err := server.Read(b[:])
		read <- err
	}
	for _, later := range []time.Time{time.Now().Add(time.Hour), {}} {
		_ = server.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_ = server.SetReadDeadline(later)
		go begin()
		select {
		case err := <-read:
			t.Fatalf("a read with the deadline %v ends: %v; want it to wait", later, err)
		case <-time.After(100 * time.Millisecond):
		}
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := <-read; err != nil {
			t.Fatal(err)
		}
	}
	go begin()
	_ = server.SetReadDeadline(time.Now().Add(time.Hour))
	_ = server.SetReadDeadline(time.Now())
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
}
