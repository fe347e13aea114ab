package fleet

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"penstock/proxy/telemetry/observe"
)

// TestRowsAtOnce checks that rows are written to the store immediately after they are counted. Any
// delay would be added to the second between two counts.
func TestRowsAtOnce(t *testing.T) {
	store := miniredis.RunT(t)
	remote := startRemote(t, store.Addr())
	waitUntil(t, "the store is reached", func() bool { return beat(t, remote) == nil })
	rows := &UsageExchange{remote: remote, countLosses: func() storeLossCounts { return storeLossCounts{} }, wake: make(chan struct{}, 1), pending: map[rowsKey]map[string]observe.UsageAmount{}}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { rows.Run(ctx) })
	day := observe.DayOf(time.Now())
	best := time.Hour // the shortest delay, because a busy machine makes delays longer
	for calls := range uint64(5) {
		row := observe.UsageRow{Key: "team", Model: "sim", Day: day}
		row.Calls = calls + 1
		began := time.Now()
		rows.Add("one", []observe.UsageRow{row})
		waitUntil(t, "the row is in the store", func() bool {
			read, err := rows.Read(t.Context(), time.Now(), false)
			return err == nil && len(read) == 1 && read[0].Calls == row.Calls
		})
		if calls > 0 { // the first row may have been added just before a periodic send
			best = min(best, time.Since(began))
		}
	}
	if best > 700*time.Millisecond {
		t.Errorf("a row is in the store after %s at best", best)
	}
}

// TestRowsAgain checks which rows are sent again after the store has lost its data, and after the
// store was only lost for a while. In the second case, every replica already has the rows of
// earlier days.
func TestRowsAgain(t *testing.T) {
	const today = 20_000
	var usage observe.Usage
	var rows []observe.UsageRow
	for _, day := range []int64{today - 40, today - 2, today - 1, today} {
		row := observe.UsageRow{Key: "team", Model: "sim", Day: day}
		row.Calls = 1
		rows = append(rows, row)
	}
	usage.Restore(time.Unix(0, 0), rows)
	var n storeLossCounts
	r := UsageExchange{usage: &usage, countLosses: func() storeLossCounts { return n }, edgeName: "one", pending: map[rowsKey]map[string]observe.UsageAmount{}}
	for i, c := range []struct {
		storeLossCounts
		want []int64
	}{
		{storeLossCounts{1, 0}, []int64{today - 40, today - 2, today - 1, today}},
		{storeLossCounts{1, 0}, nil},
		{storeLossCounts{1, 1}, []int64{today - 1, today}},
		{storeLossCounts{2, 2}, []int64{today - 40, today - 2, today - 1, today}},
	} {
		clear(r.pending)
		n = c.storeLossCounts
		r.resendAll(today)
		var days []int64
		for of := range r.pending {
			days = append(days, of.day)
		}
		if slices.Sort(days); !slices.Equal(days, c.want) {
			t.Errorf("step %d: rows of the days %v are sent again, want %v", i, days, c.want)
		}
	}
}
