package upstreams

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRestInterval checks that the probe interval depends on how long the engine has been idle.
func TestRestInterval(t *testing.T) {
	for _, c := range []struct{ interval, idle, want time.Duration }{
		{2 * time.Second, 0, 2 * time.Second},
		{2 * time.Second, idleThreshold - 1, 2 * time.Second},
		{2 * time.Second, idleThreshold, 10 * time.Second},
		{100 * time.Millisecond, idleThreshold, 500 * time.Millisecond},
		{5 * time.Second, time.Hour, 10 * time.Second},
		{time.Minute, time.Hour, time.Minute},
	} {
		if got := idleProbeInterval(c.interval, c.idle); got != c.want {
			t.Errorf("interval %v, idle for %v: %v, want %v", c.interval, c.idle, got, c.want)
		}
	}
}

// TestIdleProbeInterval checks that an idle engine is probed less often. The usual interval applies
// again after the first call or a failed probe, while other clients use the engine, and while a
// model is missing.
func TestIdleProbeInterval(t *testing.T) {
	const report = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
	const list = `{"data":[{"id":"m"}]}`
	for name, c := range map[string]struct {
		disturb func(*testing.T, *Upstream, *scriptedEngine)
		within  time.Duration // maximum time until the next probe
	}{
		"nothing": {func(*testing.T, *Upstream, *scriptedEngine) {}, 0},
		"a call": {func(t *testing.T, u *Upstream, _ *scriptedEngine) {
			l, ok := u.TryLease("", PoolText, 1, time.Now())
			if !ok {
				t.Fatal("no lease")
			}
			l.Release(OutcomeOK)
		}, 1200 * time.Millisecond},
		"a call that cannot reach it": {func(t *testing.T, u *Upstream, _ *scriptedEngine) {
			l, _ := u.TryLease("", PoolText, 1, time.Now())
			l.Release(OutcomeUnreachable)
		}, 200 * time.Millisecond},
		"others' work": {func(_ *testing.T, _ *Upstream, e *scriptedEngine) {
			e.mu.Lock()
			e.pages["/metrics"] = "vllm:num_requests_running 3\nvllm:num_requests_waiting 0\n"
			e.mu.Unlock()
		}, 0},
		"a model that is gone": {func(_ *testing.T, u *Upstream, _ *scriptedEngine) {
			u.RecordModelGone(FailureSource{Served: "m"})
		}, 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &scriptedEngine{code: 200, pages: map[string]string{"/metrics": report, "/v1/models": list}}
				u := probedUpstream(t, e, "vllm", "m")
				sleepAndSettle(50 * time.Second)
				if n := len(e.pauses()); n < 20 {
					t.Errorf("%d probes in the first 50 s", n+1)
				}
				sleepAndSettle(40 * time.Second)
				e.set(200, 0)
				sleepAndSettle(100 * time.Second)
				if n := len(e.pauses()); n > 11 {
					t.Errorf("%d probes in 100 s of rest", n+1)
				}
				if r := u.reports.last.Load(); !r.isFresh(MomentOf(time.Now())) {
					t.Error("the report of the last probe is not fresh")
				}
				e.set(200, 0)
				c.disturb(t, u, e)
				if name == "nothing" {
					return
				}
				if c.within > 0 {
					sleepAndSettle(c.within)
					e.mu.Lock()
					seen := len(e.seen)
					e.mu.Unlock()
					if seen == 0 {
						t.Errorf("no probe within %v", c.within)
					}
				}
				sleepAndSettle(11 * time.Second)
				e.set(200, 0)
				sleepAndSettle(20 * time.Second)
				if n := len(e.pauses()); n < 8 {
					t.Errorf("%d probes in 20 s of work", n+1)
				}
			})
		})
	}
}
