package routing

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"penstock/config"
	"penstock/upstreams"
)

// halfOpenTime is a time at which the breakers opened by openBreakers are half-open.
var halfOpenTime = t0.Add(time.Minute)

// openBreakers opens the breakers of a route's engines by simulating failed calls of different
// keys.
func openBreakers(t *testing.T, r *Route) *Route {
	t.Helper()
	for _, target := range r.targets {
		u := target.Upstream
		for i := 0; u.Breaker.StateAt(t0) == upstreams.BreakerClosed; i++ {
			l, ok := u.TryLease("", upstreams.PoolText, 0, t0)
			if !ok {
				t.Fatalf("no lease after %d failures", i)
			}
			l.SetFailureSource(upstreams.FailureSource{Key: fmt.Sprint("key", i)})
			l.ReleaseAt(upstreams.OutcomeBadResponse, t0)
		}
		if p := u.Breaker.StateAt(halfOpenTime); p != upstreams.BreakerHalfOpen {
			t.Fatalf("the breaker of %s is %v", u.Name(), p)
		}
	}
	return r
}

// TestLostRace checks that a call that loses the race for its picked engine gets the same result as
// a call that arrives later.
func TestLostRace(t *testing.T) {
	// Each function acts on the picked engine before the call acquires its lease.
	wins := func(t *testing.T, u *upstreams.Upstream) *upstreams.Lease {
		l, ok := u.TryLease("", upstreams.PoolText, 0, halfOpenTime)
		if !ok {
			t.Fatal("the other call gets no lease")
		}
		t.Cleanup(func() { l.Release(upstreams.OutcomeClientGone) })
		return l
	}
	another := func(t *testing.T, u *upstreams.Upstream) { wins(t, u) }
	drained := func(_ *testing.T, u *upstreams.Upstream) { u.SetMode(upstreams.ModeDrain) }
	full := new(FullError)
	for name, c := range map[string]struct {
		engines  []string
		slots    int
		halfOpen bool
		meets    func(*testing.T, *upstreams.Upstream)
		races    int // number of races that the call loses
		want     error
	}{
		"the trial":                       {[]string{"a"}, 4, true, another, 1, ErrNoUpstream},
		"every trial":                     {[]string{"a", "b", "c"}, 4, true, another, 3, ErrNoUpstream},
		"a trial, and there are others":   {[]string{"a", "b", "c"}, 4, true, another, 2, nil},
		"the last slot":                   {[]string{"a"}, 1, false, another, 1, full},
		"every last slot":                 {[]string{"a", "b"}, 1, false, another, 2, full},
		"a last slot, and there are more": {[]string{"a", "b"}, 1, false, another, 1, nil},
		"the engine":                      {[]string{"a"}, 1, false, drained, 1, ErrNoUpstream},
		"an engine, and there is one":     {[]string{"a", "b"}, 1, false, drained, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var ups []config.Upstream
			for _, engine := range c.engines {
				ups = append(ups, upstream(engine, c.slots))
			}
			r := lookup(t, table(t, plan(t, ups...), model("m", "", c.engines...)), "m")
			if c.halfOpen {
				openBreakers(t, r)
			}
			races := c.races
			l, _, err := acquireTarget(r, &targetSearch{Query: Query{Now: halfOpenTime}}, func(m *upstreams.ServedModel, key string, p upstreams.SlotPool, prompt upstreams.Prompt, free config.Percent, now time.Time) (*upstreams.Lease, bool) {
				if races > 0 {
					races--
					for i := range r.targets {
						if r.targets[i].model == m {
							c.meets(t, r.targets[i].Upstream)
						}
					}
				}
				return m.TryLease(key, p, prompt, free, now)
			})
			if l != nil {
				t.Cleanup(func() { l.Release(upstreams.OutcomeOK) })
			}
			switch asFull, isFull := errors.AsType[*FullError](err); {
			case races > 0:
				t.Errorf("%d races were not run", races)
			case c.want == full && isFull:
				if asFull.Capacity.Available != 0 {
					t.Errorf("full, with %+v", asFull.Capacity)
				}
			case !errors.Is(err, c.want):
				t.Errorf("the answer is %v, want %v", err, c.want)
			}
		})
	}
	// The client of the winning call disconnects immediately, so the trial is free again.
	t.Run("a trial that is given back", func(t *testing.T) {
		r := openBreakers(t, lookup(t, table(t, plan(t, upstream("a", 4)), model("m", "", "a")), "m"))
		tries := 0
		l, _, err := acquireTarget(r, &targetSearch{Query: Query{Now: halfOpenTime}}, func(m *upstreams.ServedModel, key string, p upstreams.SlotPool, prompt upstreams.Prompt, free config.Percent, now time.Time) (*upstreams.Lease, bool) {
			if tries++; tries > 1 {
				return m.TryLease(key, p, prompt, free, now)
			}
			winner, _ := r.targets[0].Upstream.TryLease("", upstreams.PoolText, 0, halfOpenTime)
			l, ok := m.TryLease(key, p, prompt, free, now)
			winner.Release(upstreams.OutcomeClientGone)
			return l, ok
		})
		if err != nil || tries != 2 {
			t.Fatalf("after %d tries: %v", tries, err)
		}
		l.Release(upstreams.OutcomeOK)
	})
}

// TestOneTrialOfMany checks calls that reach half-open breakers concurrently. For each breaker, one
// call acquires a lease, and the others get ErrNoUpstream.
func TestOneTrialOfMany(t *testing.T) {
	for _, engines := range [][]string{{"a"}, {"a", "b"}} {
		var ups []config.Upstream
		for _, engine := range engines {
			ups = append(ups, upstream(engine, 64))
		}
		r := openBreakers(t, lookup(t, table(t, plan(t, ups...), model("m", "", engines...)), "m"))
		for round := range 2000 {
			var leases []*upstreams.Lease
			var mu sync.Mutex
			var ready, done sync.WaitGroup
			ready.Add(4)
			for range 4 {
				done.Go(func() {
					ready.Done()
					ready.Wait()
					l, _, err := r.Acquire(&Query{Now: halfOpenTime})
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						leases = append(leases, l)
					} else if !errors.Is(err, ErrNoUpstream) {
						t.Errorf("round %d: got the error %v, want ErrNoUpstream", round, err)
					}
				})
			}
			done.Wait()
			if len(leases) != len(engines) {
				t.Fatalf("round %d: %d trials of %d engines", round, len(leases), len(engines))
			}
			for _, l := range leases {
				l.Release(upstreams.OutcomeClientGone) // this outcome is inconclusive
			}
		}
	}
}
