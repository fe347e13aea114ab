package http1

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"penstock/proxy/telemetry/guard"
)

// TestPanicOfANameLookup checks that no caller continues to wait after a panic in the resolver, and
// that the next look-up calls the resolver again.
func TestPanicOfANameLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard.New()
		n := newDNSCache(t.Context(), "engine.internal", "8000", g)
		n.lookup = func(context.Context, string, string) ([]netip.Addr, error) { panic("resolver") }
		if addrs, err := n.addresses(t.Context()); err == nil {
			t.Errorf("addresses %v of a resolver that panics", addrs)
		}
		n.lookup = func(context.Context, string, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		}
		time.Sleep(2 * dnsMinInterval)
		if addrs, err := n.addresses(t.Context()); err != nil || len(addrs) != 1 {
			t.Errorf("addresses = %v, %v; want 1", addrs, err)
		}
		n.lookup = func(context.Context, string, string) ([]netip.Addr, error) { panic("resolver") }
		time.Sleep(2 * dnsFresh)
		_, _ = n.addresses(t.Context()) // calls the resolver in the background
		synctest.Wait()
		if addrs, err := n.addresses(t.Context()); err != nil || len(addrs) != 1 {
			t.Errorf("after a panic the last addresses are %v, %v", addrs, err)
		}
		if c := g.PanicCount(guardDNS); c != 2 {
			t.Errorf("%d panics counted, want 2", c)
		}
	})
}

// TestPanicOfTheSweep checks that another sweep follows after a panic in a sweep.
func TestPanicOfTheSweep(t *testing.T) {
	g := guard.New()
	tr, err := NewTransport(TransportOptions{Upstream: "a", URL: "http://127.0.0.1:1", IdleTimeout: 10 * time.Millisecond, Guard: g})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	tr.idle.putConn(&conn{}, 0, time.Now()) // closing this conn panics, because it has no socket
	waitFor(t, "a panic that is caught", func() bool { return g.PanicCount(guardEngines) == 1 })
	ours, theirs := net.Pipe()
	defer theirs.Close()
	tr.idle.putConn(&conn{nc: ours}, 0, time.Now())
	waitFor(t, "a panic that is caught", func() bool { return g.PanicCount(guardEngines) == 2 || closedPipe(theirs) })
}

func closedPipe(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	var b [1]byte
	_, err := c.Read(b[:])
	return err != nil && !isTimeout(err)
}
