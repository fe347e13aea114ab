package fleet

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"

	"penstock/config"
)

type hungStore struct{ *remote }

func (s hungStore) Exchange(ctx context.Context, _ string, _ *message) (reply, error) {
	<-ctx.Done()
	s.outcome(ctx.Err())
	return reply{}, ctx.Err()
}

// TestWaitsInVain checks a store that hangs. Three calls at an edge, with the same key or different
// keys, must wait until their timeout. After that, the breaker must be open, and the next request
// to the store must follow immediately. If the keys are near their limits, no more calls wait even
// if many arrive before the first timeout.
func TestWaitsInVain(t *testing.T) {
	for _, c := range []struct {
		keys int
		gap  time.Duration
		near bool
	}{
		{1, 8 * time.Millisecond, false},
		{2, 8 * time.Millisecond, false},
		{3, 8 * time.Millisecond, false},
		{1, 2500 * time.Microsecond, true},
		{2, 2500 * time.Microsecond, true},
		{3, 4 * time.Millisecond, true},
	} {
		keys := c.keys
		synctest.Test(t, func(t *testing.T) {
			const timeout = 25 * time.Millisecond
			store := hungStore{newRemote(StoreOptions{})}
			store.failures.Store(0)
			asked := 0
			store.opened = func() { asked++ }
			o := Options{Edges: 2, WhenLost: config.LostDivide, Timeout: timeout, Log: zap.NewNop(), Metrics: metrics.NewSet()}
			f := newFleet(&o, store)
			limits := config.KeyLimits{RequestsPerMinute: 6000}
			var accounts []*account
			for i := range keys {
				a := newAccount(&f.terms, fmt.Sprint(i))
				a.usage.follow(limitsOf(limits))
				a.usage.cells[requests].seen = c.near // nothing is free
				accounts = append(accounts, a)
			}
			var mu sync.Mutex
			var waited []time.Duration
			var calls sync.WaitGroup
			for i := range 50 {
				calls.Go(func() {
					began := time.Now()
					accounts[i%keys].Take(limits, began)
					if took := time.Since(began); took > 0 {
						mu.Lock()
						waited = append(waited, took)
						mu.Unlock()
					}
				})
				time.Sleep(c.gap)
			}
			calls.Wait()
			if len(waited) > failuresToOpen {
				t.Errorf("%d keys: %d calls wait: %v", keys, len(waited), waited)
			}
			for _, w := range waited {
				if w > timeout {
					t.Errorf("%d keys: a call waits %s", keys, w)
				}
			}
			if f.Available() || asked != 1 {
				t.Errorf("%d keys: the store is available: %v; it is asked again %d times", keys, f.Available(), asked)
			}
		})
	}
}

// TestEnoughWait checks when a call does not wait for the store.
func TestEnoughWait(t *testing.T) {
	for _, c := range []struct {
		misses, waiting int
		overdue, want   bool
	}{
		{0, 0, false, false},
		{0, 50, false, false}, // a burst
		{0, 2, true, false},
		{0, 3, true, true},
		{1, 1, false, false},
		{1, 2, false, true},
		{2, 0, false, false},
		{2, 1, false, true},
	} {
		if got := enoughWait(c.misses, c.waiting, c.overdue); got != c.want {
			t.Errorf("%d misses, %d calls wait, overdue %v: %v, want %v", c.misses, c.waiting, c.overdue, got, c.want)
		}
	}
}

// TestOverdue checks when a request to the store is overdue.
func TestOverdue(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		silent, timeout, usual time.Duration
		want                   bool
	}{
		{2 * ms, 25 * ms, 0, false},
		{6 * ms, 25 * ms, 300 * time.Microsecond, true},
		{6 * ms, 25 * ms, 3 * ms, false}, // a store that is farther away
		{13 * ms, 25 * ms, 3 * ms, true},
		{24 * ms, 25 * ms, 8 * ms, false},
	} {
		if got := overdue(c.silent, c.timeout, c.usual); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// lateLine is a line whose store answers just in time.
type lateLine struct{ *slowLine }

func (s lateLine) Exchange(ctx context.Context, id string, m *message) (reply, error) {
	time.Sleep(20 * time.Millisecond)
	return s.slowLine.Exchange(ctx, id, m)
}

// TestBurstAtSlowStore checks that all calls of a burst wait for a store that always answers just in
// time, even if the burst is larger than this edge's share of the limit, and even if the key is
// near its limit.
func TestBurstAtSlowStore(t *testing.T) {
	for _, before := range []int{0, 60} {
		synctest.Test(t, func(t *testing.T) {
			limits := config.KeyLimits{RequestsPerMinute: 100, Concurrency: 60}
			plain := &line{twin: &twin{}, lose: never, mute: never, repeat: never, delay: never, meanwhile: func() {}}
			o := Options{Edges: 4, WhenLost: config.LostDivide, Timeout: 50 * time.Millisecond, Log: zap.NewNop(), Metrics: metrics.NewSet()}
			f := newFleet(&o, lateLine{&slowLine{line: plain, began: time.Now()}})
			key := newAccount(&f.terms, "a")
			take := func() {
				if d := key.Take(limits, time.Now()); !d.OK {
					t.Errorf("after %d: %+v", before, d)
				}
			}
			for range before {
				take()
			}
			var calls sync.WaitGroup
			for range 40 {
				calls.Go(take)
				time.Sleep(time.Millisecond)
			}
			calls.Wait()
			if n := f.terms.metrics.alone.Get(); n != 0 {
				t.Errorf("after %d: %d calls were decided without the store", before, n)
			}
		})
	}
}
