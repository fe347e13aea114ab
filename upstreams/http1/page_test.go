package http1

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"penstock/config/testkit/fastset"
	"penstock/config/testkit/rawserver"
)

// TestPageFetcher checks that pages are fetched over one keep-alive connection, which stays usable
// after any response, and that a failed fetch returns a Failure.
func TestPageFetcher(t *testing.T) {
	var connections, open atomic.Int64
	hang, release := context.WithCancel(t.Context())
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hangs":
			<-hang.Done()
		case "/huge":
			w.Write(make([]byte, maxPageBytes+64<<10))
		case "/missing":
			http.NotFound(w, r)
		default:
			w.Write(bytes.Repeat([]byte("page "), 4<<10))
		}
	}))
	s.Config.ConnState = countConnections(&connections, &open)
	s.Start()
	defer s.Close()
	defer release()
	transport, err := NewTransport(TransportOptions{Upstream: "a", URL: s.URL, IdleTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer transport.Close()
	get := transport.PageFetcher()
	for _, c := range []struct {
		path         string
		status, size int
	}{{"/", 200, 20 << 10}, {"/missing", 404, len("404 page not found\n")}, {"/", 200, 20 << 10}} {
		if p, err := get(t.Context(), c.path, time.Minute); err != nil || p.Status != c.status || len(p.Body) != c.size {
			t.Errorf("page %s: status %d, %d bytes, %v; want status %d, %d bytes", c.path, p.Status, len(p.Body), err, c.status, c.size)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections for three pages", n)
	}
	transport.CloseIdle()
	waitFor(t, "the kept connection is closed", func() bool { return open.Load() == 0 })

	var f *Failure
	if _, err := get(t.Context(), "/hangs", 50*time.Millisecond); !errors.As(err, &f) || f.Kind != KindTimeout || f.Reason != ReasonTimeout || f.Clock != TimeoutAnswer || !f.Sent {
		t.Errorf("a page that does not come: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := get(ctx, "/hangs", time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody wants the page any more: %v", err)
	}
	if _, err := get(t.Context(), "/huge", time.Minute); !errors.Is(err, ErrPageTooLarge) {
		t.Errorf("a page without an end: %v", err)
	}
	release() // the server cannot detect the end of a connection while its handler is running
	waitFor(t, "no connection is left behind", func() bool { return open.Load() == 0 })
}

// TestPageOverASlowConnection checks that the response timeout starts when the connection is
// established.
func TestPageOverASlowConnection(t *testing.T) {
	fastset.SkipIfShort(t, "a slow connection")
	checkLeaks(t)
	// Each part takes less than the timeout, but both parts together take longer.
	const part, timeout = 1500 * time.Millisecond, 2900 * time.Millisecond
	tr := transportTo(t, rawserver.ServeTLS(t, func(p *rawserver.Peer) {
		time.Sleep(part) // before the handshake
		if _, _, ok := p.ReadRequest(); ok {
			time.Sleep(part)
			p.Send(rawserver.SizedResponse("ok"))
		}
	}).URL())
	p, err := tr.PageFetcher()(t.Context(), "/health", timeout)
	if err != nil || p.Status != 200 || string(p.Body) != "ok" {
		t.Errorf("page: status %d, %q, %v; want status 200, ok", p.Status, p.Body, err)
	}
}

// countConnections counts all connections (made) and the connections that are still open.
func countConnections(made, open *atomic.Int64) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			made.Add(1)
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		case http.StateActive, http.StateIdle:
		}
	}
}
