package admin

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestPortWatch checks that another process on the admin port is first logged at level info, and
// after maxHandoverTime at level warn.
func TestPortWatch(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	others, start := 0, time.Unix(1_700_000_000, 0)
	w := &portWatch{countOthers: func() int { return others }, log: zap.New(core)}
	for _, step := range []struct {
		others int
		after  time.Duration
		stay   bool
		levels []string // levels of the log lines so far
	}{
		{0, 0, false, nil},
		{1, time.Second, false, []string{"info"}},
		{2, maxHandoverTime, false, []string{"info"}},
		{1, maxHandoverTime + time.Second, true, []string{"info", "warn"}},
		{1, 2 * maxHandoverTime, true, []string{"info", "warn"}},
		{0, 3 * maxHandoverTime, false, []string{"info", "warn", "info"}},
		{0, 4 * maxHandoverTime, false, []string{"info", "warn", "info"}},
		{1, 5 * maxHandoverTime, false, []string{"info", "warn", "info", "info"}},
	} {
		others = step.others
		n, stay := w.countOtherProcesses(start.Add(step.after))
		var levels []string
		for _, l := range logged.All() {
			levels = append(levels, l.Level.String())
		}
		if n != step.others || stay != step.stay || !slices.Equal(levels, step.levels) {
			t.Errorf("after %s: %d, %t, %q; want %d, %t, %q", step.after, n, stay, levels, step.others, step.stay, step.levels)
		}
	}
	if n, stay := (&portWatch{}).countOtherProcesses(start); n != 0 || stay {
		t.Error("a port that is not shared has others")
	}
}
