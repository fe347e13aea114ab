package limit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRetryBudget(t *testing.T) {
	start := time.Now()
	r := NewRetryBudget(start)
	allowed := func(now time.Time) (n int) {
		for r.TakeRetry(now, 20) && n < 1000 {
			n++
		}
		return n
	}
	if n := allowed(start); n != minRetries {
		t.Errorf("%d retries without a call", n)
	}
	for range 100 {
		r.CountCall(start.Add(time.Second))
	}
	if n := allowed(start.Add(2 * time.Second)); n != 20-minRetries {
		t.Errorf("%d further retries after 100 calls", n)
	}
	if n := allowed(start.Add(9 * time.Second)); n != 0 {
		t.Errorf("%d retries within the span", n)
	}
	// After 10 s, the first three retries have expired. After 12 s, all calls and retries have
	// expired.
	if n := allowed(start.Add(10 * time.Second)); n != minRetries {
		t.Errorf("%d retries after the first second left the span", n)
	}
	if n := allowed(start.Add(30 * time.Second)); n != minRetries {
		t.Errorf("%d retries after a quiet time", n)
	}
}

// TestRetryBudgetLateCaller checks that a caller that read the clock earlier than other callers
// cannot exceed the budget.
func TestRetryBudgetLateCaller(t *testing.T) {
	start := time.Now()
	r := NewRetryBudget(start)
	for s := range 25 {
		r.TakeRetry(start.Add(time.Duration(s)*time.Second), 20)
	}
	for _, late := range []time.Duration{20 * time.Second, 4 * time.Second, -time.Hour} {
		for range 10 {
			r.TakeRetry(start.Add(late), 20)
		}
	}
	if r.TakeRetry(start.Add(25*time.Second), 20) {
		t.Error("late retries were not counted")
	}
}

// TestRetryBudgetIsNeverExceeded checks that in any ten whole seconds, the retries do not exceed
// the share of the calls, or the minimum if that is larger.
func TestRetryBudgetIsNeverExceeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Now()
		r := NewRetryBudget(start)
		var calls, retries [60]int64
		for second := range calls {
			now := start.Add(time.Duration(second) * time.Second)
			for range rapid.IntRange(0, 40).Draw(t, "calls") {
				r.CountCall(now)
				calls[second]++
			}
			for range rapid.IntRange(0, 20).Draw(t, "tries") {
				if r.TakeRetry(now, 20) {
					retries[second]++
				}
			}
			var c, n int64
			for i := max(0, second-retryWindowSeconds+1); i <= second; i++ {
				c, n = c+calls[i], n+retries[i]
			}
			if retries[second] > 0 && n > max(minRetries, c/5) {
				t.Fatalf("second %d: %d retries for %d calls", second, n, c)
			}
		}
	})
}

func TestRetryBudgetIsExactUnderConcurrency(t *testing.T) {
	now := time.Now()
	r := NewRetryBudget(now)
	var n atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				r.CountCall(now)
			}
		})
	}
	wg.Wait()
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if r.TakeRetry(now, 20) {
					n.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n.Load() != 1600 {
		t.Errorf("%d retries for 8000 calls", n.Load())
	}
}

func BenchmarkRetryBudgetCountCall(b *testing.B) {
	now := time.Now()
	r := NewRetryBudget(now)
	b.ReportAllocs()
	for b.Loop() {
		r.CountCall(now)
	}
}
