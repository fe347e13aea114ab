package wake

import (
	"testing"
	"time"

	"penstock/config"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

func isOver(r StartRequest) bool {
	select {
	case <-r.Over:
		return true
	default:
		return false
	}
}

// TestWaker checks that many calls cause only one request, that a start has a time limit, and that
// a failed request may be repeated after a pause. It also checks that the duration of a start is
// measured.
func TestWaker(t *testing.T) {
	var w Waker
	var runs []StartRequest
	w.Init(func(r StartRequest) { runs = append(runs, r) })
	expect := func(now time.Time, requests int, possible, starting bool, expected time.Duration) {
		t.Helper()
		if len(runs) != requests || w.CanWake(now) != possible || w.IsStarting(now) != starting || w.ExpectedWait(now) != expected {
			t.Fatalf("after %v: %d requests, possible %v, starting %v, expected in %v", now.Sub(t0), len(runs), w.CanWake(now), w.IsStarting(now), w.ExpectedWait(now))
		}
	}
	w.RecordAway(at(0))
	w.RequestStart(at(0))
	expect(at(0), 0, false, false, assumedStartTime) // no start can be requested
	w.Configure(config.Wake{URL: "http://h/wake", Method: "POST", After: config.Duration(3 * time.Second)})
	expect(at(1), 0, true, false, assumedStartTime)
	for range 5 {
		w.RequestStart(at(1))
	}
	expect(at(1), 1, true, true, assumedStartTime)
	if r := runs[0]; r.Wait != 2*time.Second || r.Patience != minStartTimeout+3*time.Second || isOver(r) || r.Spec.Method != "POST" {
		t.Fatalf("first run = %+v, want a POST after 2 s with patience %v", r, minStartTimeout+3*time.Second)
	}
	expect(at(11), 1, true, true, assumedStartTime-10*time.Second)
	expect(at(100), 1, true, true, time.Second)
	w.RequestStart(at(100))
	w.RecordAway(at(100)) // has no effect, because the engine is already away
	w.RecordFailure(at(101))
	w.RecordFailure(at(102)) // no effect, because this start is already over
	expect(at(102), 1, false, false, 9*time.Second+assumedStartTime)
	w.RequestStart(at(102))
	expect(at(111), 1, true, false, assumedStartTime)
	w.RequestStart(at(111))
	expect(at(111), 2, true, true, assumedStartTime)
	w.RecordReady(at(161))
	w.RequestStart(at(161))
	expect(at(161), 2, false, false, 0)
	if !isOver(runs[0]) || !isOver(runs[1]) {
		t.Error("a start is not over when the engine is back")
	}
	w.RecordAway(at(200))
	w.RequestStart(at(210))
	expect(at(210), 3, true, true, 50*time.Second) // a start is expected to take as long as the last start
	if runs[2].Wait != 0 || runs[2].Patience != 153*time.Second {
		t.Errorf("third run = %+v, want no wait and patience 153 s", runs[2])
	}
	w.CancelStart()
	w.RequestStart(at(211))
	expect(at(211), 4, true, true, 50*time.Second)
	expect(at(211+153), 4, true, false, 50*time.Second) // the start has failed
	w.RequestStart(at(211 + 153))
	expect(at(211+153), 5, true, true, 50*time.Second)
	if s := w.Status(at(370)); s == nil || s.Away != 170 || s.Starting != 6 || s.Took != 50 {
		t.Errorf("Status = %+v, want away 170 s, starting 6 and 50 s for the last start", s)
	}
}
