package proxy

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestRejectionMonitor checks that rejected clients are logged once a minute with their number, and that
// the verdict mentions them for a minute.
func TestRejectionMonitor(t *testing.T) {
	core, logged := observer.New(zap.WarnLevel)
	log, start := zap.New(core), time.Unix(1_700_000_000, 0)
	var away rejectionMonitor
	for _, step := range []struct {
		after    time.Duration
		rejected uint64
		recent   bool
		lines    int
		number   uint64 // number of rejections reported by the last log line
	}{
		{0, 0, false, 0, 0},
		{time.Second, 3, true, 1, 3},
		{2 * time.Second, 9, true, 1, 3},
		{61 * time.Second, 10, true, 2, 7},
		{120 * time.Second, 10, true, 2, 7},
		{121 * time.Second, 10, false, 2, 7},
		{300 * time.Second, 10, false, 2, 7},
	} {
		now := start.Add(step.after)
		away.logNewRejections(step.rejected, now, 100, 100, log)
		all := logged.All()
		if away.hasRecentRejections(now) != step.recent || len(all) != step.lines {
			t.Errorf("after %s: recent %t, %d lines; want %t, %d", step.after, away.hasRecentRejections(now), len(all), step.recent, step.lines)
		}
		if n := len(all); n > 0 && all[n-1].ContextMap()["turned_away"] != step.number {
			t.Errorf("after %s: %v, want %d", step.after, all[n-1].ContextMap(), step.number)
		}
	}
}
