package wake

import (
	"testing"
	"time"

	"penstock/config"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

func over(r Run) bool {
	select {
	case <-r.Over:
		return true
	default:
		return false
	}
}

// TestWaker checks that many calls cause one request, that a start has a time limit, and that a
// failed request is repeated after a pause. It also checks that the waker learns how long a start
// takes.
func TestWaker(t *testing.T) {
	var w Waker
	var runs []Run
	w.Init(func(r Run) { runs = append(runs, r) })
	expect := func(now time.Time, requests int, possible, starting bool, expected time.Duration) {
		t.Helper()
		if len(runs) != requests || w.Possible(now) != possible || w.Starting(now) != starting || w.Expected(now) != expected {
			t.Fatalf("after %v: %d requests, possible %v, starting %v, expected in %v", now.Sub(t0), len(runs), w.Possible(now), w.Starting(now), w.Expected(now))
		}
	}
	w.Away(at(0))
	w.Ask(at(0))
	expect(at(0), 0, false, false, assumedStart) // no start can be requested
	w.Configure(config.Wake{URL: "http://h/wake", Method: "POST", After: config.Duration(3 * time.Second)})
	expect(at(1), 0, true, false, assumedStart)
	for range 5 {
		w.Ask(at(1))
	}
	expect(at(1), 1, true, true, assumedStart)
	if r := runs[0]; r.Wait != 2*time.Second || r.Patience != startMin+3*time.Second || over(r) || r.Spec.Method != "POST" {
		t.Fatalf("first run = %+v, want a POST after 2 s with patience %v", r, startMin+3*time.Second)
	}
	expect(at(11), 1, true, true, assumedStart-10*time.Second)
	expect(at(100), 1, true, true, time.Second)
	w.Ask(at(100))
	w.Away(at(100)) // has no effect, because the engine is already away
	w.Failed(at(101))
	w.Failed(at(102)) // the request of a start that has already ended
	expect(at(102), 1, false, false, 9*time.Second+assumedStart)
	w.Ask(at(102))
	expect(at(111), 1, true, false, assumedStart)
	w.Ask(at(111))
	expect(at(111), 2, true, true, assumedStart)
	w.Here(at(161))
	w.Ask(at(161))
	expect(at(161), 2, false, false, 0)
	if !over(runs[0]) || !over(runs[1]) {
		t.Error("a start is not over when the engine is back")
	}
	w.Away(at(200))
	w.Ask(at(210))
	expect(at(210), 3, true, true, 50*time.Second) // a start is expected to take as long as the last one
	if runs[2].Wait != 0 || runs[2].Patience != 153*time.Second {
		t.Errorf("third run = %+v, want no wait and patience 153 s", runs[2])
	}
	w.Cancel()
	w.Ask(at(211))
	expect(at(211), 4, true, true, 50*time.Second)
	expect(at(211+153), 4, true, false, 50*time.Second) // the start has failed
	w.Ask(at(211 + 153))
	expect(at(211+153), 5, true, true, 50*time.Second)
	if s := w.Status(at(370)); s == nil || s.Away != 170 || s.Starting != 6 || s.Took != 50 {
		t.Errorf("Status = %+v, want away 170 s, starting 6 and 50 s for the last start", s)
	}
}
