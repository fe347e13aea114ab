package limit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"penstock/config"
	"penstock/config/testkit/raced"
)

func boundTestKey(limits config.KeyLimits) (*KeyLimiter, time.Time) {
	now := time.Now()
	return NewKeyUsages(8, now).Bind([]config.Key{{ID: "a", Limits: limits}}, nil)["a"], now
}

func TestTake(t *testing.T) {
	k, now := boundTestKey(config.KeyLimits{RequestsPerMinute: 2})
	for i, want := range []Decision{
		{OK: true},
		{OK: true},
		{LimitName: RequestsPerMinute, RetryAfter: 30 * time.Second, Limit: 2},
		{LimitName: RequestsPerMinute, RetryAfter: 30 * time.Second, Limit: 2},
	} {
		if got := k.TakeRequest(now); got != want {
			t.Errorf("take %d: %+v, want %+v", i, got, want)
		}
	}
	if d := k.TakeRequest(now.Add(12 * time.Second)); d.OK || d.RetryAfter != 18*time.Second {
		t.Errorf("Take after 12 s = %+v, want a refusal for 18 s", d)
	}
	if d := k.TakeRequest(now.Add(30 * time.Second)); !d.OK {
		t.Errorf("Take after 30 s = %+v, want OK", d)
	}
}

func TestNoLimits(t *testing.T) {
	k, _ := boundTestKey(config.KeyLimits{})
	var r Reservation
	for range 1000 {
		if d := k.TakeRequest(time.Now()); d != (Decision{OK: true}) {
			t.Fatalf("Take without limits = %+v, want OK", d)
		}
	}
	if d := k.Reserve(&r, Cost{Tokens: 1 << 60}, Cost{}, time.Now()); d != (Decision{OK: true}) {
		t.Fatalf("Reserve without limits = %+v, want OK", d)
	}
	if k.state.running.Load() != 1 || !r.Settle(Cost{Tokens: 1 << 60}, time.Now()) || k.state.running.Load() != 0 {
		t.Errorf("running = %d after Settle, want 1 before and 0 after", k.state.running.Load())
	}
}

func TestConcurrency(t *testing.T) {
	k, now := boundTestKey(config.KeyLimits{Concurrency: 2})
	var held [3]Reservation
	for i, want := range []Decision{
		{OK: true},
		{OK: true},
		{LimitName: Concurrency, RetryAfter: concurrencyRetry, Limit: 2},
	} {
		if got := k.Reserve(&held[i], Cost{Tokens: 0}, Cost{}, now); got != want {
			t.Errorf("call %d: %+v, want %+v", i, got, want)
		}
	}
	if k.state.running.Load() != 2 || held[2].Cancel() {
		t.Errorf("%d run, or the refused call holds something", k.state.running.Load())
	}
	held[0].Cancel()
	if got := k.Reserve(&held[2], Cost{Tokens: 0}, Cost{}, now); !got.OK {
		t.Errorf("a place that was given back: %+v", got)
	}
}

func TestConcurrencyIsExact(t *testing.T) {
	k, now := boundTestKey(config.KeyLimits{Concurrency: 4})
	var most, running atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 2000 {
				var r Reservation
				d := k.Reserve(&r, Cost{Tokens: 0}, Cost{}, now)
				if !d.OK {
					if d.LimitName != Concurrency || d.RetryAfter <= 0 || d.Limit != 4 {
						t.Errorf("refusal = %+v, want limit %s of 4 and a wait", d, Concurrency)
					}
					continue
				}
				n := running.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				running.Add(-1)
				r.Cancel()
			}
		})
	}
	wg.Wait()
	if most.Load() > 4 || k.state.running.Load() != 0 {
		t.Errorf("up to %d at once, %d left", most.Load(), k.state.running.Load())
	}
}

func TestTokens(t *testing.T) {
	k, now := boundTestKey(config.KeyLimits{TokensPerMinute: 6000}) // 100 per second
	var a, b, c Reservation
	if d := k.Reserve(&a, Cost{Tokens: 4000}, Cost{}, now); !d.OK {
		t.Fatalf("Reserve of 4000 tokens = %+v, want OK", d)
	}
	if d := k.Reserve(&b, Cost{Tokens: 3000}, Cost{}, now); d.OK || d.LimitName != TokensPerMinute || d.RetryAfter != 10*time.Second || d.Limit != 6000 {
		t.Fatalf("Reserve of 3000 more = %+v, want a refusal by %s for 10 s", d, TokensPerMinute)
	}
	if k.state.running.Load() != 1 {
		t.Fatalf("a refused call stays counted: %d", k.state.running.Load())
	}
	// Reserved amounts do not decrease over time.
	if d := k.Reserve(&b, Cost{Tokens: 3000}, Cost{}, now.Add(time.Minute)); d.OK {
		t.Fatalf("Reserve of 3000 a minute later = %+v, want a refusal", d)
	}
	// After a charge of 1000 tokens, 3000 are free immediately.
	now = now.Add(time.Minute)
	if !a.Settle(Cost{Tokens: 1000}, now) || a.Settle(Cost{Tokens: 1000}, now) || a.Cancel() {
		t.Fatal("a reservation settles once")
	}
	if d := k.Reserve(&b, Cost{Tokens: 5000}, Cost{}, now); !d.OK {
		t.Fatalf("Reserve of 5000 after settling with 1000 = %+v, want OK", d)
	}
	// After Cancel, only these 1000 tokens are charged. The charge decreases by 100 tokens per
	// second.
	b.Cancel()
	if d := k.Reserve(&b, Cost{Tokens: 6000}, Cost{}, now.Add(4*time.Second)); d.OK || d.RetryAfter != 6*time.Second {
		t.Fatalf("Reserve of 6000 after 4 s = %+v, want a refusal for 6 s", d)
	}
	if d := k.Reserve(&b, Cost{Tokens: 6000}, Cost{}, now.Add(10*time.Second)); !d.OK {
		t.Fatalf("Reserve of 6000 after 10 s = %+v, want OK", d)
	}
	// The call used more than it had reserved. The excess is charged as well, so the next call must
	// wait.
	now = now.Add(10 * time.Second)
	b.Settle(Cost{Tokens: 9000}, now)
	if d := k.Reserve(&c, Cost{Tokens: 1}, Cost{}, now); d.OK || d.RetryAfter != 30*time.Second+10*time.Millisecond {
		t.Fatalf("Reserve of 1 after use of 9000 = %+v, want a refusal for 30.01 s", d)
	}
}

func TestEstimateAboveTheLimit(t *testing.T) {
	k, now := boundTestKey(config.KeyLimits{TokensPerMinute: 60})
	var a, b Reservation
	if d := k.Reserve(&a, Cost{Tokens: 1000}, Cost{}, now); !d.OK {
		t.Fatalf("an idle key must admit any estimate: %+v", d)
	}
	if d := k.Reserve(&b, Cost{Tokens: 1}, Cost{}, now); d.OK {
		t.Fatalf("Reserve of 1 while an estimate above the limit is held = %+v, want a refusal", d)
	}
	a.Settle(Cost{Tokens: 120}, now)
	if d := k.Reserve(&b, Cost{Tokens: 1000}, Cost{}, now); d.OK || d.RetryAfter != 2*time.Minute {
		t.Fatalf("Reserve of 1000 after use of 120 = %+v, want a refusal for 2 minutes", d)
	}
}

func TestAbsurdUsageLocksForADayAtMost(t *testing.T) {
	k, now := boundTestKey(config.KeyLimits{TokensPerMinute: 1})
	var r Reservation
	for range 3 {
		k.Reserve(&r, Cost{Tokens: 1}, Cost{}, now)
		r.Settle(Cost{Tokens: 1 << 62}, now)
	}
	if d := k.Reserve(&r, Cost{Tokens: 1}, Cost{}, now); d.OK || d.RetryAfter > 24*time.Hour+time.Minute {
		t.Fatalf("Reserve after absurd usage = %+v, want a refusal for at most a day and a minute", d)
	}
	if d := k.Reserve(&r, Cost{Tokens: 1}, Cost{}, now.Add(25*time.Hour)); !d.OK {
		t.Fatalf("Reserve 25 hours after absurd usage = %+v, want OK", d)
	}
}

// TestTokensNeverExceedRate checks the usage in any period and for any order of calls. As long as
// no call uses more than it reserved, the usage must not exceed the burst plus the rate. After all
// calls have ended, the account must be exact to the nanosecond.
func TestTokensNeverExceedRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 100_000).Draw(t, "limit")
		k, now := boundTestKey(config.KeyLimits{TokensPerMinute: limit})
		type use struct {
			at time.Time
			n  int64
		}
		var uses []use
		var running []*Reservation
		estimates := map[*Reservation]int64{}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "gap")))
			if len(running) > 0 && rapid.Bool().Draw(t, "settle") {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				r := running[i]
				n := rapid.Int64Range(0, estimates[r]).Draw(t, "used")
				if !r.Settle(Cost{Tokens: n}, now) {
					t.Fatal("settle does not count")
				}
				uses = append(uses, use{now, n})
				running = append(running[:i], running[i+1:]...)
				continue
			}
			r, n := new(Reservation), rapid.Int64Range(0, int64(limit)).Draw(t, "estimate")
			if k.Reserve(r, Cost{Tokens: n}, Cost{}, now).OK {
				running, estimates[r] = append(running, r), n
			}
		}
		for i := range uses {
			sum := int64(0)
			for j := i; j < len(uses); j++ {
				sum += uses[j].n
				span := int64(uses[j].at.Sub(uses[i].at)) + int64(j-i+1)
				if most := int64(limit) + span*int64(limit)/ratePeriod + 1; sum > most {
					t.Fatalf("%d used in %v, at most %d allowed", sum, time.Duration(span), most)
				}
			}
		}
		for _, r := range running {
			r.Cancel()
		}
		if held := k.state.tokens.reserved; held != 0 || k.state.running.Load() != 0 {
			t.Fatalf("%d ns held and %d running at rest", held, k.state.running.Load())
		}
	})
}

func TestReservationSettlesOnceUnderConcurrency(t *testing.T) {
	k, now := boundTestKey(config.KeyLimits{TokensPerMinute: 1000, Concurrency: 1})
	for range 500 {
		var r Reservation
		if d := k.Reserve(&r, Cost{Tokens: 100}, Cost{}, now); !d.OK {
			t.Fatalf("Reserve = %+v, want OK", d)
		}
		var won atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if r.Settle(Cost{Tokens: 0}, now) {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 || k.state.running.Load() != 0 || k.state.tokens.reserved != 0 {
			t.Fatalf("%d settled, %d running, %d held", won.Load(), k.state.running.Load(), k.state.tokens.reserved)
		}
	}
}

func TestReserveTwicePanics(t *testing.T) {
	k, now := boundTestKey(config.KeyLimits{})
	var r Reservation
	k.Reserve(&r, Cost{Tokens: 0}, Cost{}, now)
	defer func() {
		if recover() == nil {
			t.Error("a held reservation was filled again")
		}
	}()
	k.Reserve(&r, Cost{Tokens: 0}, Cost{}, now)
}

// TestShareOfAFleet checks that an edge in a fleet allows only its share.
func TestShareOfAFleet(t *testing.T) {
	now := time.Now()
	keys := NewKeyUsages(2, now)
	specs := []config.Key{{ID: "a", Edges: 4, Limits: config.KeyLimits{RequestsPerMinute: 8, TokensPerMinute: 4000, Concurrency: 4}}}
	key, taken := keys.Bind(specs, nil)["a"], 0
	for key.TakeRequest(now).OK {
		taken++
	}
	var first, second Reservation
	if taken != 2 || !key.Reserve(&first, Cost{Tokens: 900}, Cost{}, now).OK {
		t.Fatalf("%d of 2 requests, or no room for its tokens", taken)
	}
	if d := key.Reserve(&second, Cost{Tokens: 1}, Cost{}, now); d.OK || d.LimitName != Concurrency || d.Limit != 1 {
		t.Errorf("a second call at once: %+v", d)
	}
	first.Settle(Cost{Tokens: 1000}, now)
	if d := key.Reserve(&second, Cost{Tokens: 500}, Cost{}, now); d.OK || d.LimitName != TokensPerMinute || d.Limit != 1000 {
		t.Errorf("beyond its tokens: %+v", d)
	}
}

func TestStateSurvivesReload(t *testing.T) {
	now := time.Now()
	keys := NewKeyUsages(2, now)
	a := []config.Key{{ID: "a", Limits: config.KeyLimits{RequestsPerMinute: 2, Concurrency: 2}}}
	var r Reservation
	first := keys.Bind(a, nil)["a"]
	first.TakeRequest(now)
	first.TakeRequest(now)
	first.Reserve(&r, Cost{Tokens: 0}, Cost{}, now)

	check := func(name string, k *KeyLimiter) {
		t.Helper()
		if d := k.TakeRequest(now); d.OK {
			t.Errorf("%s: a fresh minute", name)
		}
		if k.state.running.Load() != 1 {
			t.Errorf("%s: running = %d, want 1", name, k.state.running.Load())
		}
	}
	check("reload", keys.Bind(a, nil)["a"])
	keys.Bind(nil, nil)
	check("removed and put back", keys.Bind(a, nil)["a"])
	keys.Bind([]config.Key{{ID: "b"}, {ID: "c"}}, nil)
	check("swapped and put back", keys.Bind(a, nil)["a"])

	// If the limit is raised tenfold, the usage grows in proportion, so a used-up minute stays used
	// up.
	a[0].Limits.RequestsPerMinute = 20
	check("raised", keys.Bind(a, nil)["a"])
	if d := keys.Bind(a, nil)["a"].TakeRequest(now.Add(3 * time.Second)); !d.OK {
		t.Errorf("Take 3 s after the limit was raised = %+v, want OK", d)
	}

	keys.Bind(nil, nil)
	for _, id := range []string{"b", "c", "d"} {
		keys.Bind([]config.Key{{ID: id}}, nil)
	}
	keys.Bind(nil, nil) // b, c and d were retired after a; only two of the four are remembered
	if k := keys.Bind(a, nil)["a"]; !k.TakeRequest(now).OK {
		t.Error("a retired state outlived the bound")
	}
	if r.Cancel(); first.state.running.Load() != 0 {
		t.Errorf("%d running after the end", first.state.running.Load())
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector allocates")
	}
	now := time.Now()
	bound := NewKeyUsages(1, now).Bind([]config.Key{{ID: "a", Limits: config.KeyLimits{RequestsPerMinute: 1 << 30, TokensPerMinute: 1 << 30, Concurrency: 10}}}, nil)
	var r Reservation
	if n := testing.AllocsPerRun(100, func() {
		k := bound["a"]
		k.TakeRequest(now)
		k.Reserve(&r, Cost{Tokens: 100}, Cost{}, now)
		r.Settle(Cost{Tokens: 50}, now)
	}); n != 0 {
		t.Errorf("Take, Reserve and Settle allocate %v times, want 0", n)
	}
}

func BenchmarkKey(b *testing.B) {
	now := time.Now()
	bound := NewKeyUsages(1, now).Bind([]config.Key{{ID: "a", Limits: config.KeyLimits{RequestsPerMinute: 1 << 30, TokensPerMinute: 1 << 30, Concurrency: 10}}}, nil)
	b.Run("take", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			bound["a"].TakeRequest(now)
		}
	})
	b.Run("reserve and settle", func(b *testing.B) {
		b.ReportAllocs()
		var r Reservation
		for b.Loop() {
			bound["a"].Reserve(&r, Cost{Tokens: 100}, Cost{}, now)
			r.Settle(Cost{Tokens: 50}, now)
		}
	})
}

// TestOfToken checks that each caller with a token has separate limits, even after reloads that
// change the template.
func TestOfToken(t *testing.T) {
	now := time.Now()
	keys := NewKeyUsages(4, now)
	from := config.Key{ID: "template", Limits: config.KeyLimits{RequestsPerMinute: 60, Concurrency: 1}}
	alice, bob := keys.TokenKey("corp/alice", &from, nil), keys.TokenKey("corp/bob", &from, nil)
	if alice == bob || alice != keys.TokenKey("corp/alice", &from, nil) {
		t.Fatal("callers share limits, or get new ones each time")
	}
	var held, more Reservation
	if d := alice.Reserve(&held, Cost{}, Cost{}, now); !d.OK {
		t.Fatal("refused at once")
	}
	if d := bob.Reserve(&more, Cost{}, Cost{}, now); !d.OK {
		t.Error("one caller has used another's concurrency")
	}
	from.Limits.RequestsPerMinute = 30
	again := keys.TokenKey("corp/alice", &from, nil)
	if d := again.Reserve(new(Reservation), Cost{}, Cost{}, now); d.OK || again == alice {
		t.Error("a reload has forgotten what runs")
	}
	held.Settle(Cost{}, now)
	if d := again.Reserve(new(Reservation), Cost{}, Cost{}, now); !d.OK {
		t.Error("a call that began before a reload is not given back")
	}
	from.Edges = 2
	if keys.TokenKey("corp/bob", &from, nil).limits.RequestsPerMinute != 15 {
		t.Error("an edge of a fleet has no share")
	}
}
