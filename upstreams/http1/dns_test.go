package http1

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"penstock/config/testkit/rawserver"
)

// resolver returns the results that a test sets, and counts the look-ups.
type resolver struct {
	delay time.Duration

	mu    sync.Mutex
	calls int
	ips   []netip.Addr
	err   error
}

func (r *resolver) answer(ips []netip.Addr, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ips, r.err = ips, err
}

func (r *resolver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

func (r *resolver) lookup(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	select {
	case <-time.After(r.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	return r.ips, r.err
}

func TestDNSNames(t *testing.T) {
	one := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	two := []netip.Addr{netip.MustParseAddr("::ffff:10.0.0.2"), netip.MustParseAddr("fd00::2")}
	begin := func(t *testing.T, r *resolver) *dnsCache {
		n := newDNSCache(t.Context(), "engine.internal", "8000", NoPanicGuard{})
		n.lookup = r.lookup
		return n
	}
	get := func(t *testing.T, n *dnsCache, want ...string) {
		t.Helper()
		before := time.Now()
		got, err := n.addresses(t.Context())
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("addresses %v, %v; want %v", got, err, want)
		}
		if time.Since(before) != 0 {
			t.Errorf("a request waited %v for the resolver", time.Since(before))
		}
	}

	t.Run("renewed in the background", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := &resolver{ips: one, delay: time.Second}
			n := begin(t, r)
			if got, err := n.addresses(t.Context()); err != nil || !slices.Equal(got, []string{"10.0.0.1:8000"}) {
				t.Fatal(got, err)
			}
			r.answer(two, nil)
			time.Sleep(dnsFresh - time.Second)
			get(t, n, "10.0.0.1:8000")
			time.Sleep(2 * time.Second)
			get(t, n, "10.0.0.1:8000") // the result is no longer fresh, but is still used
			time.Sleep(2 * time.Second)
			get(t, n, "10.0.0.2:8000", "[fd00::2]:8000")
			if n := r.count(); n != 2 {
				t.Errorf("%d lookups, want 2", n)
			}
		})
	})
	t.Run("the last good answer is kept", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := &resolver{ips: one}
			n := begin(t, r)
			if _, err := n.addresses(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.answer(nil, errors.New("the resolver is down"))
			for range 100 {
				time.Sleep(dnsFresh)
				get(t, n, "10.0.0.1:8000")
			}
			r.answer(nil, nil) // a result without addresses counts as a failure
			time.Sleep(2 * time.Second)
			get(t, n, "10.0.0.1:8000")
		})
	})
	t.Run("expire renews it at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := &resolver{ips: one}
			n := begin(t, r)
			_, _ = n.addresses(t.Context())
			r.answer(two, nil)
			time.Sleep(2 * dnsMinInterval)
			n.expire()
			get(t, n, "10.0.0.1:8000")
			synctest.Wait()
			get(t, n, "10.0.0.2:8000", "[fd00::2]:8000")
		})
	})
	t.Run("a name that does not resolve", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			down := errors.New("no such host")
			r := &resolver{err: down}
			n := begin(t, r)
			for range 10 { // many requests cause one look-up
				if _, err := n.addresses(t.Context()); err != down {
					t.Fatal(err)
				}
			}
			if n := r.count(); n != 1 {
				t.Errorf("%d lookups in an instant", n)
			}
			r.answer(one, nil)
			time.Sleep(dnsMinInterval + 1)
			if got, err := n.addresses(t.Context()); err != nil || len(got) != 1 {
				t.Fatal(got, err)
			}
		})
	})
	t.Run("one lookup for all that wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := &resolver{ips: one, delay: 3 * time.Second}
			n := begin(t, r)
			errs := make(chan error)
			for range 5 {
				go func() {
					_, err := n.addresses(t.Context())
					errs <- err
				}()
			}
			impatient, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := n.addresses(impatient); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("an impatient request got %v", err)
			}
			for range 5 {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			if n := r.count(); n != 1 {
				t.Errorf("%d lookups, want 1", n)
			}
		})
	})
	t.Run("literals and localhost need no resolver", func(t *testing.T) {
		for host, want := range map[string][]string{
			"10.1.2.3":     {"10.1.2.3:8000"},
			"::1":          {"[::1]:8000"},
			"fe80::1%eth0": {"[fe80::1%eth0]:8000"},
			"localhost":    {"127.0.0.1:8000", "[::1]:8000"},
		} {
			n := newDNSCache(t.Context(), host, "8000", NoPanicGuard{})
			n.lookup = nil
			n.expire()
			if got, err := n.addresses(t.Context()); err != nil || !slices.Equal(got, want) {
				t.Errorf("addresses of %s: %v, %v; want %v", host, got, err, want)
			}
		}
	})
}

func TestUnresolvedUpstream(t *testing.T) {
	checkLeaks(t)
	tr := transportTo(t, "http://engine.invalid:1")
	tr.dns.lookup = (&resolver{err: errors.New("no such host")}).lookup
	_, _, _, err := roundTrip(tr, post("q"))
	if f := wantFailure(t, err, KindUnreachable, ReasonDNS); f.Sent {
		t.Error("Sent is true although nothing was")
	}
}

// TestDemotedAddressComesLast checks that an address that has failed stays last for
// addrDemotionTime, regardless of the resolver's order.
func TestDemotedAddressComesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first, second = "[fd00::1]:8000", "10.0.0.1:8000"
		r := &resolver{ips: []netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.1")}}
		n := newDNSCache(t.Context(), "engine.internal", "8000", NoPanicGuard{})
		n.lookup = r.lookup
		want := func(want ...string) {
			t.Helper()
			if got, err := n.addresses(t.Context()); err != nil || !slices.Equal(got, want) {
				t.Errorf("addresses %v, %v; want %v", got, err, want)
			}
			synctest.Wait() // waits for the background look-up
		}
		renewed := func() {
			t.Helper()
			before := r.count()
			time.Sleep(dnsFresh + time.Second)
			_, _ = n.addresses(t.Context())
			synctest.Wait()
			if r.count() != before+1 {
				t.Fatal("the name was not looked up again: this test sees nothing")
			}
		}
		want(first, second)
		held, _ := n.addresses(t.Context())
		n.demote(first)
		want(second, first)
		if held[0] != first {
			t.Error("a slice that a dial goes through was changed")
		}
		renewed()
		want(second, first)
		time.Sleep(time.Second)
		n.demote(second)
		want(first, second)
		time.Sleep(addrDemotionTime + time.Second)
		renewed()
		want(first, second) // in the resolver's order
	})
}

// TestDialRemembersWhatFailed checks that a dead address delays only the first dial.
func TestDialRemembersWhatFailed(t *testing.T) {
	checkLeaks(t)
	s := rawserver.Serve(t, rawserver.EchoRequests)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	tr := transportTo(t, "http://engine.internal:"+port)
	// No server listens on the first address.
	r := &resolver{ips: []netip.Addr{netip.MustParseAddr("127.99.99.99"), netip.MustParseAddr("127.0.0.1")}}
	tr.dns.lookup = r.lookup
	mustEcho(t, tr, "once")
	if got, err := tr.dns.addresses(t.Context()); err != nil || len(got) != 2 || got[0] != s.Listener.Addr().String() {
		t.Errorf("the next dial begins with %v, %v", got, err)
	}
}
