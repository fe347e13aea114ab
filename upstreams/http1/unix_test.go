//go:build unix

package http1

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// unixEngine serves on a Unix socket and returns the socket's path. Its responses contain the Host
// and the path of the request.
func unixEngine(t *testing.T) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "engine.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	served := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Host, r.URL.Path)
	})}
	go served.Serve(ln)
	t.Cleanup(func() { served.Close() })
	return socket
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	socket := unixEngine(t)
	for base, want := range map[string]string{"": "localhost /", ":/": "localhost /", ":/llama": "localhost /llama/"} {
		tr := transportTo(t, "unix:"+socket+base)
		for range 2 { // the second request uses the same connection
			status, body, _, err := roundTrip(tr, &Request{Method: http.MethodGet, Path: "/"})
			if err != nil || status != http.StatusOK || body != want {
				t.Errorf("%q: %d %q %v, want %q", base, status, body, err, want)
			}
		}
	}
	tr := transportTo(t, "unix:"+socket+".missing")
	_, _, _, err := roundTrip(tr, &Request{Method: http.MethodGet, Path: "/"})
	wantFailure(t, err, KindUnreachable, ReasonConnect)
}

func TestNormalizeURL_UnixSocket(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"unix:/run/vllm.sock":         "unix:/run/vllm.sock",
		"unix:///run/vllm.sock":       "unix:/run/vllm.sock",
		"unix:/run/vllm.sock:/":       "unix:/run/vllm.sock",
		"unix:/run/vllm.sock:/llama/": "unix:/run/vllm.sock:/llama",
	} {
		if got, err := NormalizeURL(raw); err != nil || got != want {
			t.Errorf("%s: %q, %v", raw, got, err)
		}
	}
	if got, err := NormalizeURL("unix:vllm.sock"); err == nil {
		t.Errorf("a relative path became %q", got)
	}
}

// TestUnixSocket_FullQueue checks that a connection attempt waits while the server's accept queue
// is full, like with TCP. The kernel would refuse such an attempt immediately.
func TestUnixSocket_FullQueue(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "engine.sock")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 1); err != nil {
		t.Fatal(err)
	}
	var waiting []net.Conn
	for {
		c, err := net.Dial("unix", socket)
		if err != nil {
			break // the queue is full
		}
		defer c.Close()
		waiting = append(waiting, c)
	}
	tr := transportTo(t, "unix:"+socket)
	x := tr.NewExchange()
	defer x.Close()
	err = x.Send(&Request{Method: http.MethodGet, Path: "/", ConnectTimeout: 50 * time.Millisecond})
	if f := wantFailure(t, err, KindTimeout, ReasonTimeout); f != nil && f.Clock != TimeoutConnect {
		t.Errorf("clock %v", f.Clock)
	}
	go func() {
		for range len(waiting) + 1 {
			c, _, err := unix.Accept(fd)
			if err != nil {
				return
			}
			file := os.NewFile(uintptr(c), "conn")
			go func() {
				defer file.Close()
				if _, err := http.ReadRequest(bufio.NewReader(file)); err == nil {
					_, _ = file.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
				}
			}()
		}
	}()
	status, _, _, err := roundTrip(tr, &Request{Method: http.MethodGet, Path: "/"})
	if err != nil || status != http.StatusOK {
		t.Errorf("with room in the queue: %d, %v", status, err)
	}
}
