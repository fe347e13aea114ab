package upstreams

import (
	"testing"
	"time"

	"penstock/config"
)

// TestCacheIsEmptyAfterARestart checks that decreasing counters mean that the engine has restarted
// and that its cache is empty.
func TestCacheIsEmptyAfterARestart(t *testing.T) {
	u, now := newTestUpstream(t, config.Concurrency{Shared: 8}), time.Now()
	for i, c := range []struct {
		sum     float64
		emptied uint32
	}{{100, 0}, {500, 0}, {500, 0}, {3, 1}, {40, 1}, {2, 2}} {
		now = now.Add(10 * time.Second)
		if u.recordCounterSum(now, c.sum); u.Cache.EmptiedCount() != c.emptied {
			t.Errorf("count %d, %v: emptied %d times, want %d", i, c.sum, u.Cache.EmptiedCount(), c.emptied)
		}
	}
}

// TestCacheCounts checks that a count of 0 cached tokens is ignored if the engine has never
// reported a cached token.
func TestCacheCounts(t *testing.T) {
	var c PromptCache
	for i, step := range []struct {
		cached int
		counts bool
	}{{0, false}, {0, false}, {16, true}, {0, true}} {
		if c.RecordCached(step.cached) != step.counts {
			t.Errorf("answer %d: RecordCached(%v) = %v, want %v", i, step.cached, !step.counts, step.counts)
		}
	}
}
