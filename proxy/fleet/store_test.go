package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config"
)

// waitUntil waits until holds returns true. what names the awaited condition.
func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	const limit = 2 * time.Minute // a sentinel whose clock was interrupted does nothing for 30 s
	for begun := time.Now(); !holds(); time.Sleep(25 * time.Millisecond) {
		if time.Since(begun) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// TestCommandsWaitLonger checks that a command waits longer for a store than an edge does. An edge
// must not let calls wait that long.
func TestCommandsWaitLonger(t *testing.T) {
	o := &StoreOptions{Addresses: []string{"store:6379"}}
	edge, command := clientOptions(o), commandOptions(o)
	if edge.Dialer.Timeout != storeDialTimeout || edge.ConnWriteTimeout != storeDialTimeout {
		t.Errorf("an edge waits %v and %v", edge.Dialer.Timeout, edge.ConnWriteTimeout)
	}
	for _, d := range []time.Duration{command.Dialer.Timeout, command.Sentinel.Dialer.Timeout, command.ConnWriteTimeout} {
		if d != commandTimeout {
			t.Errorf("a command waits %v, want %v", d, commandTimeout)
		}
	}
}

// startRemote returns a client for the store at the given address.
func startRemote(t *testing.T, address string) *remoteStore {
	t.Helper()
	r := newRemoteStore(StoreOptions{Addresses: []string{address}, Prefix: "ps"})
	t.Cleanup(r.Close)
	return r
}

func beat(t testing.TB, r *remoteStore) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := r.Heartbeat(ctx, "one", `{"id":"one"}`)
	return err
}

// TestBreaker checks that the breaker is open until the first heartbeat is answered. It must open
// after three consecutive failures, and a heartbeat must close it.
func TestBreaker(t *testing.T) {
	store := miniredis.RunT(t)
	r := startRemote(t, store.Addr())
	if r.Available() {
		t.Error("a store that was never reached is available")
	}
	if _, err := r.Exchange(t.Context(), "a", &accountMessage{edge: "one", number: 1}); err == nil {
		t.Error("a message went out before the first heartbeat")
	}
	if err := beat(t, r); err != nil || !r.Available() {
		t.Fatal(err)
	}
	if _, err := r.Exchange(t.Context(), "a", &accountMessage{edge: "one", number: 1}); err != nil {
		t.Fatal(err)
	}
	store.SetError("LOADING the data set")
	for i := range failuresToOpen {
		if !r.Available() {
			t.Fatalf("open after %d failures", i)
		}
		if _, err := r.Exchange(t.Context(), "a", &accountMessage{edge: "one", number: uint64(i + 2)}); err == nil {
			t.Fatal("no error")
		}
	}
	if r.Available() {
		t.Error("three failures in a row, and calls still wait")
	}
	store.SetError("")
	if err := beat(t, r); err != nil || !r.Available() {
		t.Error(err)
	}
}

// TestRefusedKey checks that only one key is affected if the store rejects that key. The rejection
// must be logged together with a remedy, other keys must continue to work, and the breaker must
// stay closed.
func TestRefusedKey(t *testing.T) {
	store := miniredis.RunT(t)
	log, lines := observer.New(zap.WarnLevel)
	f := New(Options{
		Store: StoreOptions{Addresses: []string{store.Addr()}, Prefix: "ps"}, Edges: 1, WhenLost: config.StoreLostDivide,
		Timeout: time.Second, Metrics: metrics.NewSet(), Log: zap.New(log), Self: func() Member { return Member{} },
	})
	defer f.Close()
	f.sendHeartbeat(t.Context())
	lines.TakeAll()
	store.Server().SetPreHook(func(c *server.Peer, _ string, args ...string) bool {
		if slices.Contains(args, "ps:{k:a}") {
			c.WriteError("WRONGTYPE Operation against a key holding the wrong kind of value")
			return true
		}
		return false
	})
	bad, good := f.NewAccount("a"), f.NewAccount("b")
	limits := config.KeyLimits{RequestsPerMinute: 4}
	admitted := 0
	for range 2 * failuresToOpen {
		if bad.TakeRequest(limits, time.Now()).OK {
			admitted++
		}
	}
	if admitted != 1 || !f.Available() {
		t.Errorf("%d calls of a key that begins without the store, want 1; the store is available: %v", admitted, f.Available())
	}
	if !good.TakeRequest(limits, time.Now()).OK || f.edgeState.metrics.offlineDecisions.Get() != 2*failuresToOpen {
		t.Errorf("%d decisions without the store", f.edgeState.metrics.offlineDecisions.Get())
	}
	told := lines.TakeAll()
	if len(told) != 1 || told[0].ContextMap()["store_key"] != "k:a" || !strings.Contains(fmt.Sprint(told[0].ContextMap()), "delete it") {
		t.Errorf("log lines %+v, want one that says to delete the key k:a", told)
	}
}

// TestRefusedEdge checks that if the store's user lacks permissions, the log names them instead of
// reporting that the store does not answer.
func TestRefusedEdge(t *testing.T) {
	store := miniredis.RunT(t)
	log, lines := observer.New(zap.WarnLevel)
	f := New(Options{
		Store: StoreOptions{Addresses: []string{store.Addr()}, Prefix: "mine"}, Edges: 1, WhenLost: config.StoreLostDivide,
		Timeout: time.Second, Metrics: metrics.NewSet(), Log: zap.New(log), Self: func() Member { return Member{} },
	})
	defer f.Close()
	f.sendHeartbeat(t.Context())
	store.SetError("NOPERM this user has no permissions to run the 'evalsha' command")
	for range failuresToOpen {
		f.sendHeartbeat(t.Context())
	}
	told := lines.TakeAll()
	if len(told) != 1 || !strings.Contains(fmt.Sprint(told[0].ContextMap()["remedy"]), "~mine:* &mine:* +evalsha") || strings.Contains(told[0].Message, "not answer") {
		t.Errorf("log lines %+v, want one whose remedy has the ACL rules", told)
	}
	if trouble := f.State().StoreProblem(); !strings.Contains(trouble, "refuses") {
		t.Error(trouble)
	}
	store.SetError("")
	if f.sendHeartbeat(t.Context()); f.State().StoreProblem() != "" {
		t.Error(f.State().StoreProblem())
	}
}

// TestLateStore checks that a store that answers too late for calls counts as lost until it answers
// a heartbeat in time. Until then, the edge must still know the members, and the log must name the
// remedy.
func TestLateStore(t *testing.T) {
	store := miniredis.RunT(t)
	log, lines := observer.New(zap.WarnLevel)
	f := New(Options{
		Store: StoreOptions{Addresses: []string{store.Addr()}, Prefix: "ps"}, Edges: 1, WhenLost: config.StoreLostDivide,
		Timeout: 100 * time.Millisecond, Metrics: metrics.NewSet(), Log: zap.New(log), Self: func() Member { return Member{} },
	})
	defer f.Close()
	waitUntil(t, "the store is reached", func() bool { f.sendHeartbeat(t.Context()); return f.Available() })
	lines.TakeAll()
	store.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
		if command == "EVALSHA" {
			time.Sleep(150 * time.Millisecond)
		}
		return false
	})
	for range failuresToOpen {
		f.sendHeartbeat(t.Context())
	}
	if f.Available() || len(f.Members()) != 1 || !strings.Contains(f.State().StoreProblem(), "too late") {
		t.Errorf("available: %v, %d members, %q", f.Available(), len(f.Members()), f.State().StoreProblem())
	}
	if _, err := NewLink(f).RunScript(t.Context(), membersScript, "others", []string{"one", "9000", "{}"}); err != nil || f.Available() {
		t.Errorf("after a late answer calls wait again: %v, %v", f.Available(), err)
	}
	f.sendHeartbeat(t.Context())
	told := lines.TakeAll()
	if len(told) != 1 || !strings.Contains(fmt.Sprint(told[0].ContextMap()["remedy"]), "fleet.store.timeout") {
		t.Errorf("log lines %+v, want one whose remedy names fleet.store.timeout", told)
	}
	store.Server().SetPreHook(nil)
	waitUntil(t, "the store answers in time", func() bool { f.sendHeartbeat(t.Context()); return f.Available() && f.State().StoreProblem() == "" })
}

// TestSilentStore checks that if the store accepts connections but never answers, a call is delayed
// no longer than the timeout.
func TestSilentStore(t *testing.T) {
	store := miniredis.RunT(t)
	r := startRemote(t, store.Addr())
	if err := beat(t, r); err != nil {
		t.Fatal(err)
	}
	unlock := make(chan struct{})
	store.Server().SetPreHook(func(*server.Peer, string, ...string) bool { <-unlock; return false })
	defer close(unlock)
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := r.Exchange(ctx, "a", &accountMessage{edge: "one", number: 1}); err == nil {
		t.Error("no error")
	}
	if waited := time.Since(began); waited > 10*time.Second {
		t.Errorf("it waited %s", waited)
	}
}

// TestMembers checks that members can join and leave, and that a malformed entry from another edge
// does no harm.
func TestMembers(t *testing.T) {
	store := miniredis.RunT(t)
	began := time.Unix(1e9, 0)
	store.SetTime(began)
	one, two := startRemote(t, store.Addr()), startRemote(t, store.Addr())
	if err := beat(t, one); err != nil {
		t.Fatal(err)
	}
	w := newWorld(1, config.KeyLimits{}, config.StoreLostDivide)
	f := w.edges[0]
	f.edgeState.edgeID = "two"
	if err := two.connect(); err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{`{"id":"three","name":"b"}`, "", "{", `[1]`} {
		if _, err := two.Heartbeat(t.Context(), "two"+said, said); err != nil {
			t.Fatal(err)
		}
	}
	a, err := two.Heartbeat(t.Context(), "two", `{"id":"two","name":"b","config":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	if !a.edgeKnown {
		t.Error("the store does not know an edge after its second heartbeat")
	}
	f.setMembers(a.entries)
	m := f.Members()
	if len(m) != 3 || f.edgeState.edgeCount() != 3 || f.State().Configurations() != 2 {
		t.Fatalf("members %+v, want 3 edges with 2 configurations", m)
	}
	store.SetTime(began.Add(leaseTime + time.Second))
	if a, err = two.Heartbeat(t.Context(), "two", `{"id":"two"}`); err != nil || len(a.entries) != 1 {
		t.Errorf("Heartbeat of two a lease later says %q, %v; want one member", a.entries, err)
	}
}
