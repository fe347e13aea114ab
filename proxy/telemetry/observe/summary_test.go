package observe

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkSummary uses thirty models on fifty upstreams. Each pair has had calls.
func BenchmarkSummary(b *testing.B) {
	calls, _ := newTestCalls(b)
	now := time.Now()
	var models, upstreams []string
	for u := range 50 {
		models, upstreams = append(models, fmt.Sprint("m", u)), append(upstreams, fmt.Sprint("u", u))
	}
	calls.SetConfigured(models, upstreams, nil)
	for m := range 30 {
		for u := range 50 {
			h := calls.series.getOrCreateHistory(models[m], upstreams[u])
			for step := range historySlotCount {
				h.addCall(&Record{Outcome: OutcomeOK, Stream: true, UpstreamTTFT: 80 * time.Millisecond}, now.Add(-time.Duration(step)*historyStep))
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		calls.Summary(now)
	}
}

// TestSummaryAddsUp checks that the history of a model is the sum of its histories at its
// upstreams.
func TestSummaryAddsUp(t *testing.T) {
	calls, _ := newTestCalls(t)
	var upstreams []string
	for u := range 3 {
		upstreams = append(upstreams, fmt.Sprint("u", u))
	}
	calls.SetConfigured([]string{"m"}, upstreams, nil)
	now := time.Now()
	for _, u := range upstreams {
		h := calls.series.getOrCreateHistory("m", u)
		for range 40_000 {
			h.addCall(&Record{Outcome: OutcomeOK, Stream: true, UpstreamTTFT: 80 * time.Millisecond, Queue: time.Second}, now)
		}
	}
	o := calls.Summary(now)
	for name, m := range map[string]Minute{"model": o.Model("m").Minute, "total": o.Total.Minute} {
		if m.Calls != 120_000 || m.Streams != 120_000 || m.Queued != 120_000 {
			t.Errorf("%s: %d calls, %d streams, %d queued, want 120,000 of each", name, m.Calls, m.Streams, m.Queued)
		}
	}
	steps := o.Model("m").TTFTMillis
	if p50 := steps[len(steps)-1]; p50 < 70 || p50 > 100 {
		t.Errorf("the median of the last step is %v ms, want 70 to 100", p50)
	}
	if n := calls.Summary(now).Upstream("nobody").Minute.Calls; n != 0 {
		t.Errorf("an upstream without calls has %d", n)
	}
}
