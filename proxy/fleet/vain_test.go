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
// to the store must follow immediately.
func TestWaitsInVain(t *testing.T) {
	for _, keys := range []int{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			const timeout, gap = 25 * time.Millisecond, 8 * time.Millisecond
			store := hungStore{newRemote(StoreOptions{})}
			store.failures.Store(0)
			asked := 0
			store.opened = func() { asked++ }
			o := Options{Edges: 2, WhenLost: config.LostDivide, Timeout: timeout, Log: zap.NewNop(), Metrics: metrics.NewSet()}
			f := newFleet(&o, store)
			limits := config.KeyLimits{RequestsPerMinute: 6000}
			var accounts []*account
			for i := range keys {
				accounts = append(accounts, newAccount(&f.terms, fmt.Sprint(i)))
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
