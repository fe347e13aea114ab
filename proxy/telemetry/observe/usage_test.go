package observe

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

func TestUsage(t *testing.T) {
	var u Usage
	first := time.Date(2026, 1, 1, 23, 59, 59, 0, time.UTC)
	book := func(key, model string, at time.Time, change func(*Record)) {
		r := successfulRecord(model, "a")
		r.Key = key
		if change != nil {
			change(r)
		}
		u.addCall(r, at)
	}
	book("k", "m", first, nil)
	book("k", "m", first.Add(time.Second), func(r *Record) { r.TokensEstimated = true })
	book("k", "n", first, nil)
	book("j", "m", first, func(r *Record) { r.Outcome = OutcomeClientGone }) // the call reached an engine
	book("j", "m", first, func(r *Record) { r.Attempts = 0 })                // the call did not reach an engine
	book("j", "", first, nil)
	got := u.Report(first, first)
	if len(got.Keys) != 2 || got.Keys[0].Key != "j" || got.Keys[0].Total.Calls != 1 || got.Total.Calls != 4 {
		t.Fatalf("report = %+v, want 4 calls, the key j first with 1", got)
	}
	k := got.Keys[1]
	if k.Total != (UsageAmount{Calls: 3, Prompt: 30, Cached: 12, Completion: 60, Estimated: 1}) || len(k.Models) != 2 {
		t.Errorf("key = %+v, want 3 calls of 2 models", k)
	}
	days := k.Models[0].Days
	if len(days) != 2 || days[0].Day != "2026-01-01" || days[1].Day != "2026-01-02" || days[0].Calls != 1 || days[1].Estimated != 1 {
		t.Errorf("days = %+v, want 2026-01-01 and 2026-01-02", days)
	}
	for i := range 100 {
		book("k", "m", first.AddDate(0, 0, i+2), nil)
	}
	book("k", "m", first, nil) // the clock has been set back
	m := u.Report(first, first).Keys[1].Models[0]
	if len(m.Days) != UsageDays || m.Total.Calls != 103 || m.Days[UsageDays-1].Calls != 2 {
		t.Errorf("%d days, %d calls, %d on the last", len(m.Days), m.Total.Calls, m.Days[UsageDays-1].Calls)
	}
}

// TestUsageIsBounded checks that every call is counted, even if there are more pairs than
// maxUsagePairs.
func TestUsageIsBounded(t *testing.T) {
	var u Usage
	cells := map[usagePair]*usageAccount{}
	for i := range maxUsagePairs - 1 {
		cells[usagePair{fmt.Sprint(i), "m"}] = new(usageAccount)
	}
	u.accounts.update(func(all map[usagePair]*usageAccount) {
		for p, c := range cells {
			all[p] = c
		}
	})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 50 {
				r := successfulRecord("m", "a")
				r.Key = fmt.Sprintf("new-%d-%d", w, i)
				u.addCall(r, time.Now())
			}
		})
	}
	wg.Wait()
	got := u.Report(time.Now(), time.Now())
	if n := len(u.accounts.all()); n != maxUsagePairs+1 || got.Total.Calls != 400 {
		t.Errorf("%d pairs, %d calls", n, got.Total.Calls)
	}
}
