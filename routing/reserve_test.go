package routing

import (
	"sync"
	"testing"
	"time"

	"penstock/upstreams"
)

// TestReserve checks that batch calls leave exactly the reserve free, regardless of how many arrive
// concurrently. Calls of other classes may use the reserve.
func TestReserve(t *testing.T) {
	r := lookup(t, table(t, plan(t, upstream("a", 8), upstream("b", 3)), model("m", "", "a", "b")), "m")
	for range 20 {
		var mu sync.Mutex
		var leases []*upstreams.Lease
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				if l, _, err := r.Acquire(&Query{Key: "batch", Now: t0, Rank: 1, Reserve: 34}); err == nil {
					mu.Lock()
					defer mu.Unlock()
					leases = append(leases, l)
				}
			})
		}
		all.Wait()
		if len(leases) != 8 { // 8 − 2 at a, and 3 − 1 at b
			t.Fatalf("the batch has %d slots", len(leases))
		}
		for range 3 {
			l, _, err := r.Acquire(&Query{Key: "user", Now: t0})
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
		}
		for _, l := range leases {
			l.ReleaseAt(upstreams.OutcomeOK, t0)
		}
	}
}

// TestClaimsOfBatches checks that a claim from an earlier class always goes before a batch call. A
// batch call's claim must reserve no slots against calls of an earlier class.
func TestClaimsOfBatches(t *testing.T) {
	r := lookup(t, table(t, plan(t, upstream("a", 1)), model("m", "", "a")), "m")
	ask := func(key string, rank int, at time.Duration) *upstreams.Lease {
		l, _, _ := r.Acquire(&Query{Key: key, Now: t0.Add(at), RetryAfter: time.Second, Rank: rank})
		return l
	}
	held := ask("other", 1, 0)
	ask("batch", 1, 0)
	held.ReleaseAt(upstreams.OutcomeOK, t0)
	if held = ask("user", 0, time.Second); held == nil {
		t.Fatal("a claim of a batch keeps a user out")
	}
	ask("guest", 0, time.Second)
	held.ReleaseAt(upstreams.OutcomeOK, t0)
	if ask("batch", 1, 1100*time.Millisecond) != nil {
		t.Error("a batch has taken the slot that a guest has a claim on")
	}
	if held = ask("guest", 0, 2*time.Second); held == nil {
		t.Fatal("the slot was not kept")
	}
	held.ReleaseAt(upstreams.OutcomeOK, t0)
}
