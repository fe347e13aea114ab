package upstreams

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"penstock/config"
	"penstock/proxy/guard"
)

// TestPanicOfANameLookup: a resolver that panics keeps nobody waiting, and is asked again.
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
		time.Sleep(2 * dnsPause)
		if addrs, err := n.addresses(t.Context()); err != nil || len(addrs) != 1 {
			t.Errorf("addresses %v, %v", addrs, err)
		}
		n.lookup = func(context.Context, string, string) ([]netip.Addr, error) { panic("resolver") }
		time.Sleep(2 * dnsFresh)
		_, _ = n.addresses(t.Context()) // asks behind the back of the one who asks
		synctest.Wait()
		if addrs, err := n.addresses(t.Context()); err != nil || len(addrs) != 1 {
			t.Errorf("after a panic the last addresses are %v, %v", addrs, err)
		}
		if c := g.Panics(guardDNS); c != 2 {
			t.Errorf("%d panics", c)
		}
	})
}

// TestPanicOfTheSweep: a sweep that panics is followed by another one.
func TestPanicOfTheSweep(t *testing.T) {
	g := guard.New()
	tr, err := NewTransport(TransportOptions{ID: "a", URL: "http://127.0.0.1:1", IdleTimeout: 10 * time.Millisecond, Guard: g})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	tr.keepIdle(&conn{}, 0, time.Now()) // it has no socket that could be closed
	waitUntil(t, func() bool { return g.Panics(guardEngines) == 1 })
	ours, theirs := net.Pipe()
	defer theirs.Close()
	tr.keepIdle(&conn{nc: ours}, 0, time.Now())
	waitUntil(t, func() bool { return g.Panics(guardEngines) == 2 || closedPipe(theirs) })
}

func closedPipe(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	var b [1]byte
	_, err := c.Read(b[:])
	return err != nil && !isTimeout(err)
}

func waitUntil(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within 20 s")
		}
	}
}

// TestPanicOfRoom: whoever is told of room and panics takes nothing along: not the slot, not the
// upstream's lock, not the single trial of its breaker, and not the goroutine that probes.
func TestPanicOfRoom(t *testing.T) {
	g := guard.New()
	set, err := NewSet(Options{Guard: g, OnRoom: func(*Upstream) { panic("room") }})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := set.Plan([]config.Upstream{{Name: "up", URL: fakeEngine(t, "ollama").URL, Engine: "ollama", Probe: config.Probe{Rise: 1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	set.Commit(plan)
	defer set.Close(context.Background())
	u := plan.Upstream("up")[0]
	waitUntil(t, func() bool { return g.Panics(guardProbe) > 0 && u.State() == StateUp })
	waitUntil(t, func() bool { u.mu.Lock(); defer u.mu.Unlock(); return u.check != nil })

	release := func(client int, o Outcome) {
		defer func() { _ = recover() }()
		l, ok := u.TryLease(PoolText, 7, time.Now())
		if !ok {
			t.Fatal("there is no lease")
		}
		l.FailedFor(FailureSource{Key: strconv.Itoa(client)})
		l.Release(o)
	}
	for i := range 20 { // until the breaker opens
		if u.openUntil.Load() != breakerClosed {
			break
		}
		release(i, OutcomeBadResponse)
	}
	waitUntil(t, func() bool { return g.Panics(guardRoom) > 0 }) // the breaker's pause is over
	for i := range 3 {
		release(i, OutcomeOK) // the trial closes the breaker, which is told and panics
	}
	if n := u.slots.Load(); n != 0 || u.tokens[PoolText].Load() != 0 || u.trial.Load() {
		t.Errorf("slots %d, tokens %d, a trial runs: %v", n, u.tokens[PoolText].Load(), u.trial.Load())
	}
}
