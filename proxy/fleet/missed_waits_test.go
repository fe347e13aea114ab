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

type hungStore struct{ *remoteStore }

func (s hungStore) Exchange(ctx context.Context, _ string, _ *accountMessage) (accountReply, error) {
	<-ctx.Done()
	s.recordOutcome(ctx.Err())
	return accountReply{}, ctx.Err()
}

// TestMissedWaitsOpenBreaker checks a store that hangs. Three calls at an edge, with the same key or different
// keys, must wait until their timeout. After that, the breaker must be open, and the edge must send
// its next request to the store immediately.
func TestMissedWaitsOpenBreaker(t *testing.T) {
	for _, keys := range []int{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			const timeout, gap = 25 * time.Millisecond, 8 * time.Millisecond
			store := hungStore{newRemoteStore(StoreOptions{})}
			store.failures.Store(0)
			asked := 0
			store.onBreakerOpen = func() { asked++ }
			o := Options{Edges: 2, WhenLost: config.StoreLostDivide, Timeout: timeout, Log: zap.NewNop(), Metrics: metrics.NewSet()}
			f := newFleet(&o, store)
			limits := config.KeyLimits{RequestsPerMinute: 6000}
			var accounts []*keyAccount
			for i := range keys {
				accounts = append(accounts, newAccount(&f.edgeState, fmt.Sprint(i)))
			}
			var mu sync.Mutex
			var waited []time.Duration
			var calls sync.WaitGroup
			for i := range 50 {
				calls.Go(func() {
					began := time.Now()
					accounts[i%keys].TakeRequest(limits, began)
					if took := time.Since(began); took > 0 {
						mu.Lock()
						waited = append(waited, took)
						mu.Unlock()
					}
				})
				time.Sleep(gap)
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

// TestShouldOpenBreaker checks when a call is decided without waiting for the store.
func TestShouldOpenBreaker(t *testing.T) {
	for _, c := range []struct {
		misses, waiting int
		want            bool
	}{
		{0, 0, false},
		{0, 3, false},
		{0, 50, false}, // a burst
		{1, 1, false},
		{1, 2, true},
		{2, 0, false},
		{2, 1, true},
	} {
		if got := shouldOpenBreaker(c.misses, c.waiting); got != c.want {
			t.Errorf("%d misses, %d calls wait: %v, want %v", c.misses, c.waiting, got, c.want)
		}
	}
}

// lateLine is a slowLine that answers later.
type lateLine struct {
	*slowLine
	after time.Duration
}

func (s *lateLine) Exchange(ctx context.Context, id string, m *accountMessage) (accountReply, error) {
	time.Sleep(s.after)
	return s.slowLine.Exchange(ctx, id, m)
}

// TestBurstAtSlowStore checks that all calls in a burst wait for a store that always answers just
// in time. This must be true even if the burst exceeds this edge's share of the limit, and even if
// the key is near its limit.
func TestBurstAtSlowStore(t *testing.T) {
	for _, before := range []int{0, 60} {
		synctest.Test(t, func(t *testing.T) {
			limits := config.KeyLimits{RequestsPerMinute: 100, Concurrency: 60}
			plain := &simulatedStore{twin: &scriptModel{}, lose: never, mute: never, repeat: never, delay: never, meanwhile: func() {}}
			o := Options{Edges: 4, WhenLost: config.StoreLostDivide, Timeout: 50 * time.Millisecond, Log: zap.NewNop(), Metrics: metrics.NewSet()}
			f := newFleet(&o, &lateLine{&slowLine{simulatedStore: plain, began: time.Now()}, 20 * time.Millisecond})
			key := newAccount(&f.edgeState, "a")
			take := func() {
				if d := key.TakeRequest(limits, time.Now()); !d.OK {
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
			if n := f.edgeState.metrics.offlineDecisions.Get(); n != 0 {
				t.Errorf("after %d: %d calls were decided without the store", before, n)
			}
		})
	}
}

// TestLateAnswer checks a key near its limits when the store answers late for the first time, but
// still within the timeout. The store must decide all calls. Before a request has failed,
// fleet.lost must not affect any call, no matter how many are waiting: the store may be healthy and
// serve the other edges.
func TestLateAnswer(t *testing.T) {
	limits := config.KeyLimits{RequestsPerMinute: 100, TokensPerMinute: 10_000, Concurrency: 20}
	for _, c := range []struct {
		lost  string
		used  int // requests of another edge
		calls int
		free  bool
	}{
		{config.StoreLostClosed, 60, 6, true},
		{config.StoreLostDivide, 60, 10, true}, // acquires more slots than this edge's share
		{config.StoreLostOpen, 100, 6, false},
	} {
		t.Run(c.lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plain := &simulatedStore{twin: &scriptModel{}, lose: never, mute: never, repeat: never, delay: never, meanwhile: func() {}}
				store := &lateLine{slowLine: &slowLine{simulatedStore: plain, began: time.Now()}}
				edge := func() *keyAccount {
					o := Options{Edges: 4, WhenLost: c.lost, Timeout: 25 * time.Millisecond, Log: zap.NewNop(), Metrics: metrics.NewSet()}
					f := newFleet(&o, store)
					return newAccount(&f.edgeState, "a")
				}
				other, key := edge(), edge()
				for range c.used {
					if d := other.TakeRequest(limits, time.Now()); !d.OK {
						t.Fatalf("%s: the other edge: %+v", c.lost, d)
					}
				}
				key.TakeRequest(limits, time.Now()) // the edge learns the free amount
				time.Sleep(2 * exhaustedAnswerTTL)
				store.after = 10 * time.Millisecond
				var calls sync.WaitGroup
				for range c.calls {
					calls.Go(func() {
						d := key.TakeRequest(limits, time.Now())
						if d.OK {
							_, d = key.Reserve(limits, 10, time.Now())
						}
						if d.OK != c.free || d.Unavailable {
							t.Errorf("%s: %+v, want OK %v", c.lost, d, c.free)
						}
					})
					time.Sleep(2 * time.Millisecond)
				}
				calls.Wait()
				if n := key.edgeState.metrics.offlineDecisions.Get(); n != 0 {
					t.Errorf("%s: %d calls were decided without the store", c.lost, n)
				}
			})
		})
	}
}
