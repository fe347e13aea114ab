package routing

import (
	"testing"

	"penstock/upstreams"
)

func TestStallOf(t *testing.T) {
	for _, c := range []struct {
		all, others, lately int
		want                upstreams.StallDecision
	}{
		{1, 0, 0, upstreams.StallStay},
		{2, 1, 0, upstreams.StallOut},
		{2, 0, 1, upstreams.StallStay},
		{3, 2, 0, upstreams.StallOut},
		{3, 1, 1, upstreams.StallConfirm},
		{4, 2, 1, upstreams.StallOut},
		{4, 1, 2, upstreams.StallConfirm},
		{4, 0, 0, upstreams.StallStay}, // the other upstreams are down
		{10, 5, 4, upstreams.StallOut},
		{10, 4, 5, upstreams.StallConfirm},
	} {
		if got := decideRouteStall(c.all, c.others, c.lately); got != c.want {
			t.Errorf("decideRouteStall(%+v) = %v, want %v", c, got, c.want)
		}
	}
}

// TestStallOfRoutes checks that DecideStall considers a route only if the route contains the
// upstream.
func TestStallOfRoutes(t *testing.T) {
	r := probed(t, `{"id":"m"},{"id":"n"}`, `{"id":"m"},{"id":"n"}`, "")
	a, b := r.targets[0].Upstream, r.targets[2].Upstream
	if got := (&Table{routes: []*Route{r}}).DecideStall(a, t0); got != upstreams.StallOut {
		t.Errorf("one of two that take calls: %v", got)
	}
	alone := &Route{targets: []Target{r.targets[0], r.targets[4]}}
	if got := (&Table{routes: []*Route{r, alone}}).DecideStall(a, t0); got != upstreams.StallStay {
		t.Errorf("the last one of a route: %v", got)
	}
	if got := (&Table{routes: []*Route{r, alone}}).DecideStall(b, t0); got != upstreams.StallOut {
		t.Errorf("the last one of another's route: %v", got)
	}
}
