package load

import (
	"testing"
	"testing/synctest"
	"time"

	"penstock/bench/load/workload"
)

// TestSchedule checks when requests are sent, in a synctest bubble. There, only the dispatcher can
// delay a request.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p := workload.NewGammaPacer(3, 20, 1, 200)
		var due, woke []time.Duration
		for at, ok := p.Next(); ok; at, ok = p.Next() {
			due = append(due, at)
			if !sleepUnlessDone(t.Context(), at-time.Since(begin)) {
				t.Fatal("sleep ended early")
			}
			woke = append(woke, time.Since(begin))
		}
		for i := range due {
			if due[i] != woke[i] {
				t.Fatalf("arrival %d is due at %v and came at %v", i, due[i], woke[i])
			}
		}
		if last := due[len(due)-1]; (last - 10*time.Second).Abs() > time.Microsecond {
			t.Errorf("last arrival at %v, want 10s", last)
		}
	})
}
