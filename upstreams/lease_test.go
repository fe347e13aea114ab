package upstreams

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"pgregory.net/rapid"

	"penstock/config"
	"penstock/upstreams/engine"
)

// newTestSet returns a set that never probes its upstreams and discards their metrics.
func newTestSet(t testing.TB, o Options) *Set {
	t.Helper()
	if o.Register == nil {
		o.Register, o.Unregister = func(*metrics.Set) {}, func(*metrics.Set) {}
	}
	s, err := NewSet(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newTestUpstream returns an upstream that is planned and up but not committed, so it is not
// probed.
func newTestUpstream(t testing.TB, c config.Concurrency) *Upstream {
	t.Helper()
	s := newTestSet(t, Options{})
	p, err := s.PlanChanges([]config.Upstream{{Name: "a", URL: "http://127.0.0.1:1", Engine: "openai", Concurrency: c}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	u := p.Upstream("a")[0]
	u.bring(StateUp)
	return u
}

// bring sets the state as if probes had caused it.
func (u *Upstream) bring(s State) {
	u.Health.mu.Lock()
	defer u.Health.mu.Unlock()
	u.Health.facts.liveness.setState(s)
	u.Health.publishState("test", time.Now())
}

// recognised sets the engine as if a probe had detected it.
func (u *Upstream) recognised(p *engine.Profile) {
	u.engine.Store(p)
	u.slots.setProfile(p)
	u.Models.setProfile(p)
}

// failFor acquires a lease for the client with the given number and releases it with the outcome
// o.
func (u *Upstream) failFor(t testing.TB, client int, o Outcome) {
	t.Helper()
	key := "client" + strconv.Itoa(client)
	l, ok := u.TryLease(key, PoolText, 0, time.Now())
	if !ok {
		t.Fatal("no lease")
	}
	l.SetFailureSource(FailureSource{Key: key, Served: "m", Sent: true})
	l.Release(o)
}

// TestLeaseAccounting acquires and releases leases at random, changes limits in between, and
// compares the counters with a model. The number of in-flight calls equals the number of leases. It
// is never negative, and it never exceeds the limit after a lease was acquired.
func TestLeaseAccounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := NewSet(Options{Register: func(*metrics.Set) {}, Unregister: func(*metrics.Set) {}})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := s.PlanChanges([]config.Upstream{{Name: "a", URL: "http://127.0.0.1:1", Engine: "openai"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		u := plan.Upstream("a")[0]
		u.bring(StateUp)
		held := [poolCount][]*Lease{}
		var tokens [poolCount]int64
		total := func() int { return len(held[0]) + len(held[1]) + len(held[2]) }
		now := time.Now()
		t.Repeat(map[string]func(*rapid.T){
			"lease": func(t *rapid.T) {
				p := SlotPool(rapid.IntRange(0, int(poolCount)-1).Draw(t, "pool"))
				n := rapid.IntRange(-5, 5000).Draw(t, "tokens")
				before := u.Load(p, now)
				l, ok := u.TryLease("", p, n, now)
				if want := before.Active < before.Limit; ok != want {
					t.Fatalf("lease %t with %+v", ok, before)
				}
				if ok {
					held[p] = append(held[p], l)
					tokens[p] += int64(max(0, n))
				}
			},
			"release": func(t *rapid.T) {
				p := SlotPool(rapid.IntRange(0, int(poolCount)-1).Draw(t, "pool"))
				if len(held[p]) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(held[p])-1).Draw(t, "which")
				l := held[p][i]
				held[p] = append(held[p][:i:i], held[p][i+1:]...)
				tokens[p] -= l.loadTokens
				l.Release(OutcomeOK)
				if !testingBuild {
					l.Release(OutcomeOK) // changes nothing
				}
			},
			"limits": func(t *rapid.T) {
				var c config.Concurrency
				if rapid.Bool().Draw(t, "shared") {
					c = config.Concurrency{Shared: rapid.IntRange(0, 6).Draw(t, "n")}
				} else {
					c = config.Concurrency{Text: rapid.IntRange(0, 4).Draw(t, "text"), Vision: rapid.IntRange(0, 3).Draw(t, "vision"), Audio: 1}
				}
				u.SetConcurrency(c)
			},
			"": func(t *rapid.T) {
				if got := u.slots.inFlight(); got != total() {
					t.Fatalf("in-flight %d, held %d", got, total())
				}
				for p := range poolCount {
					if got := callsInPool(u.slots.inUse.Load(), p); got != len(held[p]) {
						t.Fatalf("%v: in-flight %d, held %d", p, got, len(held[p]))
					}
					if got := u.slots.tokens[p].Load(); got != tokens[p] {
						t.Fatalf("%v: tokens %d, held %d", p, got, tokens[p])
					}
				}
			},
		})
	})
}

// TestLeaseLimitUnderContention checks that many goroutines share a limit of three. A fourth lease
// is never granted, and at the end no slot is in use.
func TestLeaseLimitUnderContention(t *testing.T) {
	for _, c := range []config.Concurrency{{Shared: 3}, {Text: 3, Vision: 3}} {
		u := newTestUpstream(t, c)
		var inside, most atomic.Int32
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				for range 2000 {
					l, ok := u.TryLease("", PoolText, 10, time.Now())
					if !ok {
						continue
					}
					n := inside.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					inside.Add(-1)
					l.Release(OutcomeOK)
				}
			})
		}
		wait.Wait()
		if most.Load() > 3 || u.slots.inUse.Load() != 0 || u.slots.tokens[PoolText].Load() != 0 {
			t.Errorf("most %d, left %d", most.Load(), u.slots.inUse.Load())
		}
	}
}

func TestDoubleReleaseIsCounted(t *testing.T) {
	if testingBuild {
		t.Skip("it panics in this build")
	}
	u := newTestUpstream(t, config.Concurrency{Shared: 2})
	a, _ := u.TryLease("", PoolText, 0, time.Now())
	b, _ := u.TryLease("", PoolText, 0, time.Now())
	a.Release(OutcomeOK)
	a.Release(OutcomeBadResponse)
	if u.slots.inFlight() != 1 || u.set.doubleReleases.Get() != 1 || u.series.attempts[OutcomeBadResponse].Get() != 0 {
		t.Errorf("in-flight %d, counted %d", u.slots.inFlight(), u.set.doubleReleases.Get())
	}
	b.Release(OutcomeOK)
}

// TestHalfOpenLetsOneThrough checks that exactly one of many competing calls becomes the trial of a
// half-open breaker.
func TestHalfOpenLetsOneThrough(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 50})
	for i := range openAfterFailures {
		u.failFor(t, i, OutcomeBadResponse)
	}
	now := time.Now()
	if u.IsEligibleIn(StateUp, MomentOf(now)) || u.Breaker.StateAt(now) != BreakerOpen {
		t.Fatalf("still eligible, breaker %v", u.Breaker.StateAt(now))
	}
	if _, ok := u.TryLease("", PoolText, 0, now); ok {
		t.Fatal("a lease while open")
	}
	later := now.Add(breakerCoolDown + time.Millisecond)
	if !u.IsEligibleIn(StateUp, MomentOf(later)) || u.Breaker.StateAt(later) != BreakerHalfOpen {
		t.Fatal("not half-open")
	}
	var got atomic.Int32
	var trial atomic.Pointer[Lease]
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if l, ok := u.TryLease("", PoolText, 0, later); ok {
				got.Add(1)
				trial.Store(l)
			}
		})
	}
	wait.Wait()
	if got.Load() != 1 || u.IsEligibleIn(StateUp, MomentOf(later)) {
		t.Fatalf("%d trials, want 1 and then none", got.Load())
	}
	trial.Load().Release(OutcomeClientGone) // this outcome is inconclusive
	l, ok := u.TryLease("", PoolText, 0, later)
	if !ok || u.Breaker.StateAt(later) != BreakerHalfOpen {
		t.Fatal("no second trial")
	}
	l.Release(OutcomeOK)
	if u.Breaker.StateAt(later) != BreakerClosed || !u.IsEligibleIn(StateUp, MomentOf(later)) {
		t.Error("the trial did not close the breaker")
	}
}

// TestTrialEndsWell checks that a trial does not succeed with its first token, but does succeed if
// it still streams some seconds after its first token.
func TestTrialEndsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newTestUpstream(t, config.Concurrency{Shared: 50})
		for i := range openAfterFailures {
			u.failFor(t, i, OutcomeBadResponse)
		}
		trial := func(open time.Duration) *Lease {
			t.Helper()
			sleepAndSettle(open - time.Millisecond)
			if u.Breaker.StateAt(time.Now()) != BreakerOpen {
				t.Fatalf("not open for %v", open)
			}
			sleepAndSettle(time.Millisecond)
			l, ok := u.TryLease("another", PoolText, 0, time.Now())
			if !ok {
				t.Fatal("no trial")
			}
			l.RecordFirstToken(time.Millisecond)
			if u.Breaker.StateAt(time.Now()) != BreakerHalfOpen || u.IsEligibleIn(StateUp, MomentOf(time.Now())) {
				t.Fatal("the first token has decided the trial")
			}
			return l
		}
		trial(breakerCoolDown).Release(OutcomeBadResponse)
		l := trial(2 * breakerCoolDown)
		sleepAndSettle(longTrialTime - time.Millisecond)
		l.Release(OutcomeBadResponse)
		l = trial(4 * breakerCoolDown)
		sleepAndSettle(longTrialTime)
		if u.Breaker.StateAt(time.Now()) != BreakerClosed || !u.IsEligibleIn(StateUp, MomentOf(time.Now())) {
			t.Error("a long stream keeps everyone else out")
		}
		l.Release(OutcomeBadResponse)
		if u.Breaker.StateAt(time.Now()) != BreakerClosed {
			t.Error("one failure after closing opened it")
		}
		for i := range openAfterFailures {
			u.failFor(t, i, OutcomeBadResponse)
			if u.Breaker.StateAt(time.Now()) == BreakerOpen {
				break
			}
		}
		trial(8 * breakerCoolDown).Release(OutcomeOK) // the trial succeeds, but the next call fails
	})
}

// TestTrialIsGivenBackWhenFull checks that a call that finds no free slot at the upstream also
// releases the trial.
func TestTrialIsGivenBackWhenFull(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 1})
	held, _ := u.TryLease("", PoolText, 0, time.Now())
	for i := range openAfterFailures {
		(&Lease{up: u}).reportOutcome(OutcomeTimeout, FailureSource{Key: strconv.Itoa(i)}, false, time.Now())
	}
	later := time.Now().Add(breakerCoolDown + time.Millisecond)
	if _, ok := u.TryLease("", PoolText, 0, later); ok {
		t.Fatal("over the limit")
	}
	held.Release(OutcomeClientGone)
	if _, ok := u.TryLease("", PoolText, 0, later); !ok {
		t.Error("the trial was lost")
	}
}

func TestStatesAndLeases(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 1})
	now := time.Now()
	for _, c := range []struct {
		state             State
		eligible, pending bool
	}{{StatePending, false, true}, {StateUp, true, false}, {StateDown, false, false}} {
		u.bring(c.state)
		if u.IsEligibleIn(StateUp, MomentOf(now)) != c.eligible || u.IsEligibleIn(StatePending, MomentOf(now)) != c.pending {
			t.Errorf("%v: eligible %t, pending %t", c.state, u.IsEligibleIn(StateUp, MomentOf(now)), u.IsEligibleIn(StatePending, MomentOf(now)))
		}
		l, ok := u.TryLease("", PoolText, 0, now)
		if ok != (c.state != StateDown) {
			t.Errorf("state %v: TryLease = %t, want %t", c.state, ok, c.state != StateDown)
		}
		if ok {
			l.Release(OutcomeOK)
		}
	}
	u.bring(StateUp)
	u.removal.isRetiring.Store(true)
	if _, ok := u.TryLease("", PoolText, 0, now); ok || u.State() != StateRetiring {
		t.Error("a lease on a retiring upstream")
	}
}

// TestSlotIsGivenBackWhenRetiredInBetween retires an upstream while a lease is being acquired.
// RetireOmitted leaves the connections open, because a slot is in use. When that slot is
// released, the connections are closed and the next trial is admitted.
func TestSlotIsGivenBackWhenRetiredInBetween(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 1})
	s := u.set
	s.byID[u.identity.id] = u
	if !u.Breaker.trialRunning.CompareAndSwap(false, true) || !u.slots.tryAcquire(PoolText, 0) {
		t.Fatal("no slot")
	}
	nobody, err := s.PlanChanges(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.RetireOmitted(nobody)
	if u.removal.isRemoved.Load() || len(s.All()) != 1 {
		t.Fatal("gone with a slot taken")
	}
	s.returnUnusedSlot(u, PoolText, true)
	if u.slots.inFlight() != 0 || u.Breaker.trialRunning.Load() || !u.removal.isRemoved.Load() || len(s.All()) != 0 {
		t.Errorf("%d in flight, trial %t, gone %t, %d upstreams in the set", u.slots.inFlight(), u.Breaker.trialRunning.Load(), u.removal.isRemoved.Load(), len(s.All()))
	}
}

func TestPickPathDoesNotAllocate(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 4})
	u.Models.setList(engine.NewModelList([]engine.ModelInfo{{ID: "m"}}, nil), time.Now())
	u.penalty.addFailure(MomentOf(time.Now()))
	now := time.Now()
	var sink float64
	if n := testing.AllocsPerRun(100, func() {
		if u.IsEligibleIn(StateUp, MomentOf(now)) && u.Models.Serves("m") {
			l := u.Load(PoolText, now)
			sink += l.Penalty
		}
	}); n != 0 {
		t.Errorf("%v allocations for a look", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		l, _ := u.TryLease("", PoolText, 100, now)
		l.Exchange().Close()
		l.Release(OutcomeOK)
	}); n > 1 {
		t.Errorf("%v allocations for a lease and its exchange", n)
	}
}

func BenchmarkReadLoad(b *testing.B) {
	u := newTestUpstream(b, config.Concurrency{Shared: 4})
	u.Models.setList(engine.NewModelList([]engine.ModelInfo{{ID: "m"}}, nil), time.Now())
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		if u.IsEligibleIn(StateUp, MomentOf(now)) && u.Models.Serves("m") {
			_ = u.Load(PoolText, now)
		}
	}
}

func BenchmarkLease(b *testing.B) {
	u := newTestUpstream(b, config.Concurrency{Shared: 4})
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		l, _ := u.TryLease("", PoolText, 100, now)
		l.Release(OutcomeOK)
	}
}
