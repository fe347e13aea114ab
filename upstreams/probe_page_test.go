package upstreams

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
)

// Probes fetch pages over one kept connection, give it back whatever the answer was, and say in a
// Failure what went wrong.
func TestPageGetter(t *testing.T) {
	var connections, open atomic.Int64
	hang, release := context.WithCancel(t.Context())
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hangs":
			<-hang.Done()
		case "/huge":
			w.Write(make([]byte, pageMax+64<<10))
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
	transport, err := NewTransport(TransportOptions{ID: "a", URL: s.URL, IdleTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer transport.Close()
	get := newPageGetter(transport, "a")
	for _, c := range []struct {
		path         string
		status, size int
	}{{"/", 200, 20 << 10}, {"/missing", 404, len("404 page not found\n")}, {"/", 200, 20 << 10}} {
		if p, err := get(t.Context(), c.path, time.Minute); err != nil || p.status != c.status || len(p.body) != c.size {
			t.Errorf("%s: %d, %d bytes, %v", c.path, p.status, len(p.body), err)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections for three pages", n)
	}
	transport.CloseIdle()
	eventually(t, "the kept connection is closed", func() bool { return open.Load() == 0 })

	var f *Failure
	if _, err := get(t.Context(), "/hangs", 50*time.Millisecond); !errors.As(err, &f) || f.Kind != Timeout || f.Reason != ReasonTimeout || f.Clock != ClockAnswer || !f.Sent {
		t.Errorf("a page that does not come: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := get(ctx, "/hangs", time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody wants the page any more: %v", err)
	}
	if _, err := get(t.Context(), "/huge", time.Minute); !errors.Is(err, errPageTooLarge) {
		t.Errorf("a page without an end: %v", err)
	}
	release() // the server sees the ends of its connections once nothing is written to them any more
	eventually(t, "no connection is left behind", func() bool { return open.Load() == 0 })
}

// countConnections counts those that were ever made, and those that are open.
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

// The slots that an engine tells: the first page that answers and has them.
func TestCapacityOf(t *testing.T) {
	profile := mustProfile(t, "llamacpp")
	for name, c := range map[string]struct {
		answer probePage
		err    error
		want   int
	}{
		"told":                  {probePage{200, []byte(`{"total_slots":3}`)}, nil, 3},
		"one":                   {probePage{200, []byte(`{"total_slots":1}`)}, nil, 1},
		"none":                  {probePage{200, []byte(`{"total_slots":0}`)}, nil, 0},
		"not told":              {probePage{200, []byte(`{"slots":3}`)}, nil, 0},
		"no JSON":               {probePage{200, []byte(`total_slots: 3`)}, nil, 0},
		"an error that has it":  {probePage{503, []byte(`{"total_slots":3}`)}, nil, 0},
		"nobody answers":        {probePage{}, errRefused, 0},
		"a page cut by a close": {probePage{200, []byte(`{"total_slots":3}`)}, errRefused, 0},
	} {
		get := func(context.Context, string, time.Duration) (probePage, error) { return c.answer, c.err }
		if n, ok := capacityOf(t.Context(), get, profile, time.Second); n != c.want || ok != (c.want > 0) {
			t.Errorf("%s: %d %t, want %d", name, n, ok, c.want)
		}
	}
}
