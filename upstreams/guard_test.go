package upstreams

import (
	"context"
	"strconv"
	"testing"
	"time"

	"penstock/config"
	"penstock/proxy/telemetry/guard"
)

func waitUntil(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within 20 s")
		}
	}
}

// TestPanicInOnRoom checks that after a panic in Options.OnRoom, the slot, the upstream's lock and
// the breaker's trial are released, and the prober's goroutine is still running.
func TestPanicInOnRoom(t *testing.T) {
	g := guard.New()
	set, err := NewSet(Options{Guard: g, OnRoom: func(*Upstream) { panic("room") }})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := set.PlanChanges([]config.Upstream{{Name: "up", URL: fakeEngine(t, "ollama").URL, Engine: "ollama", Probe: config.Probe{Rise: 1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	set.Commit(plan)
	defer set.Close(context.Background())
	u := plan.Upstream("up")[0]
	waitUntil(t, func() bool { return g.PanicCount(guardProbe) > 0 && u.State() == StateUp })
	waitUntil(t, func() bool { return u.Health.factsSnapshot().lastCheck != nil })

	release := func(client int, o Outcome) {
		defer func() { _ = recover() }()
		l, ok := u.TryLease("", PoolText, 7, time.Now())
		if !ok {
			t.Fatal("there is no lease")
		}
		l.SetFailureSource(FailureSource{Key: strconv.Itoa(client)})
		l.Release(o)
	}
	for i := range 20 { // until the breaker opens
		if u.Breaker.openUntil.Load() != breakerClosed {
			break
		}
		release(i, OutcomeBadResponse)
	}
	waitUntil(t, func() bool { return g.PanicCount(guardSlotWakeups) > 0 }) // the breaker's pause is over
	for i := range 3 {
		release(i, OutcomeOK) // the trial closes the breaker, whose callback panics
	}
	if n := u.slots.inUse.Load(); n != 0 || u.slots.tokens[PoolText].Load() != 0 || u.Breaker.trialRunning.Load() {
		t.Errorf("slots %d, tokens %d, a trial runs: %v", n, u.slots.tokens[PoolText].Load(), u.Breaker.trialRunning.Load())
	}
}
