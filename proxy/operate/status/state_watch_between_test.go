package status

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"penstock/upstreams"
)

// TestStateWatchBetweenChecks checks that an upstream that changes twice between two checks appears in
// the list of events, and that its outage is counted.
func TestStateWatchBetweenChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(StateWatch)
		var s *Status
		look := func(state string, downs uint64) {
			s = &Status{Now: time.Now(), Upstreams: []Upstream{{Status: upstreams.Status{
				Name: "gpu", Label: "gpu", State: state, Breaker: "closed", Mode: "ready", Downs: downs,
				LastFailure: &upstreams.LastFailure{During: "call", Reason: "reset"},
			}}}}
			s.SetVerdict(w)
			time.Sleep(time.Second)
		}
		look("up", 7)   // counted before the first check
		look("up", 8)   // the upstream went down and up again
		look("up", 8)   // no change
		look("down", 9) // a change that is visible from the states
		look("down", 10)
		look("up", 10)
		look("up", 12)
		look("down", 14)
		var got []string
		for i := len(s.Events) - 1; i >= 0; i-- {
			got = append(got, strings.TrimSpace(s.Events[i].Who+" "+s.Events[i].Text))
		}
		want := []string{
			"the edge has started", "gpu was down for less than a second: connection reset", "gpu is down: connection reset",
			"gpu was up for less than a second: connection reset", "gpu is up again after 2 s",
			"gpu was down for less than a second, 2 times: connection reset",
			"gpu was down for less than a second: connection reset", "gpu is down: connection reset",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("events:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if n := s.Upstreams[0].Hour.Downs; n != 7 {
			t.Errorf("it went down 7 times, %d are counted", n)
		}
	})
}
