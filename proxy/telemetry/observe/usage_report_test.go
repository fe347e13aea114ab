package observe

import (
	"testing"
	"time"
)

// TestUsageOfAPeriod checks that a report for a day or a month contains the sums of its days.
func TestUsageOfAPeriod(t *testing.T) {
	var u Usage
	for day := range 40 {
		r := successfulRecord("m", "a")
		r.Key = "k"
		u.addCall(r, time.Date(2026, 1, 1+day, 12, 0, 0, 0, time.UTC))
	}
	report := u.Report(time.Now(), time.Now())
	for period, calls := range map[string]uint64{"2026-01": 31, "2026-02": 9, "2026-01-31": 1, "2025-01": 0, "2026-03-01": 0} {
		got := report.ForPeriod(period)
		if got.Total.Calls != calls || (calls > 0) != (len(got.Keys) == 1) || calls > 0 && got.Keys[0].Models[0].Total.Calls != calls {
			t.Errorf("usage of %s = %+v, want %d calls", period, got, calls)
		}
	}
}
