package e2e

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
)

// TestIdleConnectionsMakeRoom checks that, at the connection limit, idle connections without a key
// make room for other clients. The idle connections of a proxy must stay open.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	const most, kept = 100, 64
	p := start(t, rig.Setup{Limits: "connections: 100", Upstream: "concurrency: 100", Untidy: true})
	hostile := make([]*rig.RawConn, most)
	attack := func(i int) {
		if hostile[i] != nil {
			hostile[i].Close()
		}
		hostile[i] = p.Dial()
		_ = hostile[i].Send("GET /health HTTP/1.1\r\nHost: edge\r\n\r\n")
		_, _ = hostile[i].TryReadReply("GET")
	}
	for i := range most - 1 {
		attack(i)
	}
	time.Sleep(1100 * time.Millisecond) // a connection that was just used is not closed

	from2 := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	if c, err := from2.DialContext(t.Context(), "tcp", p.Addr); err != nil {
		t.Skip("this system has one loopback address: ", err)
	} else {
		c.Close()
	}
	transport := &http.Transport{MaxIdleConnsPerHost: kept, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return from2.DialContext(ctx, network, addr)
	}}
	proxy := &http.Client{Transport: transport}
	defer transport.CloseIdleConnections()
	wave := func() {
		t.Helper()
		var calls sync.WaitGroup
		for range kept {
			calls.Go(func() {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.Addr+chatPath, strings.NewReader(p.ChatRequest(`"sim":{"tokens":3,"ttft_ms":200}`)))
				if err != nil {
					t.Error(err)
					return
				}
				r.GetBody = nil // a lost request must not be repeated silently
				r.Header.Set("Authorization", "Bearer "+p.Key)
				r.Header.Set("Content-Type", "application/json")
				res, err := proxy.Do(r)
				if err != nil {
					t.Errorf("a call is lost: %v", err)
					return
				}
				defer res.Body.Close()
				if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
					t.Errorf("a call gets %d, %v", res.StatusCode, err)
				}
			})
		}
		calls.Wait()
	}
	wave()
	for i := range most - 1 {
		attack(i)
		if i%25 == 0 {
			wave()
		}
	}
	wave()
	if n := p.Metric("penstock_client_connections_evicted_total"); n < kept {
		t.Errorf("%v connections were closed to make room", n)
	}
	if n := p.Metric("penstock_client_connections"); n > most {
		t.Errorf("%v connections are open", n)
	}
}

// TestConnectionsPerAddress checks that each address has a separate limit, and that a reload
// changes the limit.
func TestConnectionsPerAddress(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Limits: "connections_per_address: 3", Untidy: true})
	for range 3 {
		p.Dial()
	}
	rig.WaitFor(t, rig.WaitTimeout, "three are open", func() bool { return p.Metric("penstock_client_connections") == 3 })
	r := p.Dial().ReadReply("GET")
	r.WantError(503, "api_error", "too_many_connections")
	if !strings.Contains(r.Body, "This address") {
		t.Errorf("answer = %s, want This address", r.Body)
	}
}
