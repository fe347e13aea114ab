package fleet

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"penstock/proxy/telemetry/observe"
)

// TestRowsAtOnce checks that rows are written to the store immediately after they are counted. Any
// delay would add to the second that passes between two counts.
func TestRowsAtOnce(t *testing.T) {
	store := miniredis.RunT(t)
	remote := startRemote(t, store.Addr())
	waitSaid(t, "the store is reached", func() bool { return beat(t, remote) == nil })
	rows := &Rows{remote: remote, forgotten: func() int64 { return 0 }, wake: make(chan struct{}, 1), pending: map[rowsOf]map[string]observe.Amount{}}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { rows.Run(ctx) })
	day := observe.DayOf(time.Now())
	best := time.Hour // the shortest delay counts, because a busy machine adds to it
	for calls := range uint64(5) {
		row := observe.UsageRow{Key: "team", Model: "sim", Day: day}
		row.Calls = calls + 1
		began := time.Now()
		rows.Add("one", []observe.UsageRow{row})
		waitSaid(t, "the row is in the store", func() bool {
			read, err := rows.Read(t.Context(), time.Now(), false)
			return err == nil && len(read) == 1 && read[0].Calls == row.Calls
		})
		if calls > 0 { // the first call may precede a count
			best = min(best, time.Since(began))
		}
	}
	if best > 700*time.Millisecond {
		t.Errorf("a row is in the store after %s at best", best)
	}
}
