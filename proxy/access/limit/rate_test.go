package limit

import (
	"math"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCost(t *testing.T) {
	for _, c := range []struct{ n, limit, want int64 }{
		{1, 60, int64(time.Second)},
		{60, 60, ratePeriod},
		{200_000, 200_000, ratePeriod},
		{7, 7, ratePeriod},
		{1, 7, 8571428571},
		{0, 60, 0},
		{-5, 60, 0},
		{math.MinInt64, 60, 0},
		{5, 0, 0},
		{1, math.MaxInt64, 0},
		{math.MaxInt64, math.MaxInt64, ratePeriod},
		{math.MaxInt64, 1, maxCost},
		{1 << 40, 1000, maxCost},
	} {
		if got := costNanos(c.n, c.limit); got != c.want {
			t.Errorf("cost(%d, %d) = %d, want %d", c.n, c.limit, got, c.want)
		}
	}
}

func TestCostAgainstBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, limit := rapid.Int64Min(0).Draw(t, "n"), rapid.Int64Min(1).Draw(t, "limit")
		want := new(big.Int).Mul(big.NewInt(n), big.NewInt(ratePeriod))
		want.Div(want, big.NewInt(limit))
		if want.Cmp(big.NewInt(maxCost)) > 0 {
			want.SetInt64(maxCost)
		}
		if got := costNanos(n, limit); got != want.Int64() {
			t.Fatalf("cost %d, want %d", got, want)
		}
	})
}

// TestMeterNeverExceedsRate checks that in any period, the number of admitted units is at most the
// burst plus the rate times the period. Retry-After must be exact: a unit must be available after
// that time, but not a nanosecond earlier.
func TestMeterNeverExceedsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 5000).Draw(t, "limit")
		gaps := rapid.SliceOfN(rapid.Int64Range(0, 4*int64(time.Second)), 1, 300).Draw(t, "gaps")
		var m gcraLimiter
		var taken []int64
		now := rapid.Int64Range(0, int64(time.Hour)).Draw(t, "start")
		m.tat.Store(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "paid") - 2*ratePeriod)
		if m.tat.Load()-now > ratePeriod {
			m.tat.Store(now + ratePeriod)
		}
		for _, gap := range gaps {
			now += gap
			wait := m.admit(now, limit)
			if wait == 0 {
				taken = append(taken, now)
				continue
			}
			if w := m.admit(now+wait-1, limit); w != 1 {
				t.Fatalf("a nanosecond before Retry-After the wait is %d", w)
			}
			if gap%2 == 0 {
				now += wait
				if w := m.admit(now, limit); w != 0 {
					t.Fatalf("at Retry-After the wait is %d", w)
				}
				taken = append(taken, now)
			}
		}
		for i := range taken {
			for j := i; j < len(taken); j++ {
				// Rounding reduces the cost of each request by up to a nanosecond.
				span := taken[j] - taken[i] + int64(j-i+1)
				if n, most := int64(j-i+1), limit+span*limit/ratePeriod; n > most {
					t.Fatalf("%d taken in %v, at most %d allowed", n, time.Duration(span), most)
				}
			}
		}
	})
}

func TestMeterBurstIsOneMinute(t *testing.T) {
	for _, limit := range []int64{1, 2, 7, 60, 599, 100_000} {
		var m gcraLimiter
		for i := range limit {
			if wait := m.admit(5, limit); wait != 0 {
				t.Fatalf("limit %d, take %d: wait %d", limit, i, wait)
			}
		}
		if wait := m.admit(5, limit); wait == 0 || wait > ratePeriod/limit {
			t.Errorf("limit %d: wait %d after the burst", limit, wait)
		}
		if wait := m.admit(5+ratePeriod, limit); wait != 0 {
			t.Errorf("limit %d: wait %d after a minute", limit, wait)
		}
	}
}

func TestMeterIsExactUnderConcurrency(t *testing.T) {
	const limit = 1000
	var m gcraLimiter
	var taken atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range limit {
				if wait := m.admit(1, limit); wait == 0 {
					taken.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if taken.Load() != limit {
		t.Errorf("%d taken, want %d", taken.Load(), limit)
	}
}
