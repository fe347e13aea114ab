package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// at returns a call that was sent and ended at the given times, in seconds.
func at(sent, ended float64, status int) clientCall {
	s := func(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
	return clientCall{sent: s(sent), ended: s(ended), status: status}
}

// times returns n calls that are sent and end at the given time, in seconds.
func times(n int, second float64) []clientCall {
	return slices.Repeat([]clientCall{at(second, second, 200)}, n)
}

// TestMaxCallsOverLimit checks that a minute's worth of simultaneous calls, and calls that use the
// refill over time, are within the limit. Each additional call is an excess, unless the call may
// have been admitted later.
func TestMaxCallsOverLimit(t *testing.T) {
	for name, c := range map[string]struct {
		calls []clientCall
		want  float64
	}{
		"none":                           {nil, 0},
		"the limit":                      {times(60, 5), 0},
		"one more":                       {times(61, 5), 1},
		"refilled":                       {slices.Concat(times(60, 5), times(10, 15)), 0},
		"two more than refilled":         {slices.Concat(times(60, 5), times(12, 15)), 2},
		"the worst span counts":          {slices.Concat(times(63, 5), times(1, 60)), 3},
		"after a pause it begins anew":   {slices.Concat(times(60, 0), times(61, 600)), 1},
		"refused":                        {slices.Concat(times(60, 5), []clientCall{at(5, 5, 429), at(5, 5, 0)}), 0},
		"one that may have come later":   {slices.Concat(times(60, 5), []clientCall{at(5, 6, 200)}), 0},
		"half of it surely came earlier": {slices.Concat(times(60, 5), []clientCall{at(5, 5.5, 200)}), 0.5},
	} {
		if got := maxCallsOverLimit(c.calls, 60); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestOneEdge(t *testing.T) {
	calls := slices.Concat(times(80, 5), times(10, 15))
	for i := range calls {
		calls[i].edge = i % 2
	}
	if n := countAdmittedByOneEdge(calls, 60); n != 70 {
		t.Errorf("one edge admits %d, want 70", n)
	}
	if n := countAdmittedBySplitLimit(calls, 60, 2); n != 70 {
		t.Errorf("two edges with half of it each admit %d, want 70", n)
	}
	for i := range calls {
		calls[i].edge = 0
	}
	if n := countAdmittedBySplitLimit(calls, 60, 2); n != 35 {
		t.Errorf("two edges of which one gets all admit %d, want 35", n)
	}
	slots := []clientCall{
		at(0, 0, 200), at(0.5, 0.5, 200), at(0.9, 0.9, 429), at(1, 1, 200), at(1.4, 1.4, 429),
		at(1.5, 1.5, 429),
	}
	if n := countAdmittedBySlots(slots, 2, time.Second); n != 4 {
		t.Errorf("two slots take %d, want 4", n)
	}
	if n := countRefused(slots); n != 3 {
		t.Errorf("%d are refused, want 3", n)
	}
	if n := countFailed([]clientCall{at(0, 0, 200), at(0, 0, 429), at(0, 0, 503), at(0, 0, 0)}); n != 2 {
		t.Errorf("%d have failed, want 2", n)
	}
	if n := len(callsEndedBefore(slots, time.Second)); n != 4 {
		t.Errorf("%d had ended, want 4", n)
	}
}

// TestOneEdgeIsNeverOver checks that the calls that a single edge admits never count as an excess.
// If one more call is admitted while the limit is used up, there is an excess.
func TestOneEdgeIsNeverOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		var calls []clientCall
		now, owed := 0.0, 0.0
		for range rapid.IntRange(1, 120).Draw(t, "calls") {
			gap := rapid.Float64Range(0, 3).Draw(t, "gap")
			now += gap
			if owed = max(0, owed-gap/60*float64(limit)); owed+1 > float64(limit) {
				calls = append(calls, at(now, now, 429))
				continue
			}
			owed++
			calls = append(calls, at(now, now, 200))
		}
		if most := maxCallsOverLimit(calls, limit); most > 1e-6 {
			t.Fatalf("%v too many", most)
		}
		if n, want := countAdmittedByOneEdge(calls, limit), len(admittedCalls(calls)); n != want {
			t.Fatalf("one edge admits %d, not %d", n, want)
		}
		if more := maxCallsOverLimit(append(calls, times(limit+1, now)...), limit); more < 1-1e-6 {
			t.Fatalf("%v too many, not 1", more)
		}
	})
}

const waitsPage = `penstock_fleet_wait_seconds_bucket{le="0.001"} 10
penstock_fleet_wait_seconds_bucket{le="0.002"} 30
penstock_fleet_wait_seconds_bucket{le="0.025"} 39
penstock_fleet_wait_seconds_bucket{le="+Inf"} 40
penstock_fleet_wait_seconds_sum 1
`

func TestWaits(t *testing.T) {
	w := waitHistogram{}
	w.addMetricsPage([]byte(waitsPage))
	w.addMetricsPage([]byte(waitsPage)) // waits of another edge
	if w.totalCount() != 80 || w.countAbove(0.025) != 2 || w.countAbove(0.002) != 20 {
		t.Errorf("waits = %v, want 80, 2 above 25 ms and 20 above 2 ms", w)
	}
	for q, want := range map[float64]float64{0.125: 0.0005, 0.5: 0.0015, 0.75: 0.002, 1: 0.025} {
		if got := w.quantile(q); math.Abs(got-want) > 1e-9 {
			t.Errorf("the %v quantile is %v, want %v", q, got, want)
		}
	}
	half := waitHistogram{}
	half.addMetricsPage([]byte(waitsPage))
	if since := w.subtract(half); since.totalCount() != 40 || since.countAbove(0.025) != 1 {
		t.Errorf("waits since the half = %v, want 40, one above 25 ms", since)
	}
	if q := (waitHistogram{}).quantile(0.5); q != 0 {
		t.Errorf("of none: %v", q)
	}
}

func TestTable(t *testing.T) {
	all := resultTable{
		{5, "errors", "0", "3", heldOrMissed(false)},
		{1, "over-admission", "0", "0", heldOrMissed(true)},
		{2, "use", ">= 98 %", "100 %", verdictIfExercised(false, true)},
		{3, "waits", "0", "9", verdictIfExercised(false, false)},
		{4, "messages", "0", "9", verdictIfExercised(true, false)},
		{10, "misplaced", "<= 2 %", "go test", verdictNotMeasured},
	}
	all.sort()
	const want = `#   goal            bound    measured
1   over-admission  0        0         held
2   use             >= 98 %  100 %     not exercised
3   waits           0        9         not exercised
4   messages        0        9         MISSED
5   errors          0        3         MISSED
10  misplaced       <= 2 %   go test   not measured here
`
	if got := all.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if missed := all.missedRows(); !slices.Equal(missed, []string{"4 (messages)", "5 (errors)"}) {
		t.Errorf("missed = %v, want 4 (messages) and 5 (errors)", missed)
	}
}
