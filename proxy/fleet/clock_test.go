package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"penstock/config"
)

func (w *world) setClock(by time.Duration) {
	w.clockOffset += by
	w.tick(time.Millisecond)
}

// TestClockSetBack checks what happens after the store's clock was set back. Debts must decrease as
// before, and the slots of a dead edge must become free after the usual time.
func TestClockSetBack(t *testing.T) {
	limits := config.KeyLimits{RequestsPerMinute: 600, Concurrency: 4}
	w := newWorld(2, limits, config.StoreLostDivide)
	for range 4 {
		if _, d := w.keys[0].Reserve(limits, 0, w.now); !d.OK {
			t.Fatalf("Reserve = %+v, want OK", d)
		}
	}
	ask := func() (n int) {
		for ; w.keys[1].TakeRequest(limits, w.now).OK; n++ {
		}
		return n
	}
	if n := ask(); n < 560 {
		t.Fatalf("%d requests of 600", n)
	}
	w.setClock(-time.Hour)
	w.lines[0].cut = true
	requests, calls := 0, 0
	for range 100 {
		w.advance(100 * time.Millisecond)
		requests += ask()
		calls += w.fill(1, limits, 0, 1)
	}
	if requests < 90 || requests > 110 {
		t.Errorf("%d requests in ten seconds, want 100", requests)
	}
	if calls != 4 {
		t.Errorf("%d calls in the slots of a dead edge, want 4", calls)
	}
}

// TestClockSetForward checks that no edge takes the slots of live edges after the store's clock was
// set forward. Once the lease time has passed, all free slots must be usable.
func TestClockSetForward(t *testing.T) {
	limits := config.KeyLimits{Concurrency: 20}
	for held, free := range map[int]int{20: 0, 10: 10} {
		w := newWorld(2, limits, config.StoreLostDivide)
		w.end(0, w.fill(0, limits, 1, 1))
		w.end(1, w.fill(1, limits, 1, held)) // both edges have used the account
		w.fill(1, limits, 1, held)
		w.advance(time.Second)
		w.fill(0, limits, 1, 1) // the last answer contains the free amount
		before := 0
		if free > 0 {
			before = 1
		}
		w.setClock(time.Hour)
		more := 0
		for range 100 {
			more += w.fill(0, limits, 1, 99)
			if before+more > free {
				t.Fatalf("%d calls beside %d of %d slots", before+more, held, limits.Concurrency)
			}
			w.advance(100 * time.Millisecond)
		}
		if before+more != free {
			t.Errorf("%d calls beside %d of %d slots after a lease", before+more, held, limits.Concurrency)
		}
	}
}

// TestClockOfMembers checks an edge that died before the store's clock was set back. It must stay a
// member for no longer than the lease time.
func TestClockOfMembers(t *testing.T) {
	store := miniredis.RunT(t)
	began := time.Unix(1e9, 0)
	store.SetTime(began.Add(time.Hour))
	one := startRemote(t, store.Addr())
	say := func(edge string) int {
		t.Helper()
		if err := one.connect(); err != nil {
			t.Fatal(err)
		}
		a, err := one.Heartbeat(t.Context(), edge, fmt.Sprintf(`{"id":%q}`, edge))
		if err != nil {
			t.Fatal(err)
		}
		return len(a.entries)
	}
	say("dead")
	for after, want := range []int{2, 2, 1} {
		store.SetTime(began.Add(time.Duration(after) * leaseTime * 2 / 3))
		if n := say("one"); n != want {
			t.Errorf("%d members after %d thirds of a lease, want %d", n, 2*after, want)
		}
	}
}
