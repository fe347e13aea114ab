package routing

import (
	"testing"

	"penstock/upstreams"
)

func TestDecideStall(t *testing.T) {
	for _, c := range []struct {
		all, others, lately int
		want                upstreams.StallDecision
	}{
		{1, 0, 0, upstreams.StallKeepServing},
		{2, 1, 0, upstreams.StallTakeOut},
		{2, 0, 1, upstreams.StallKeepServing},
		{3, 2, 0, upstreams.StallTakeOut},
		{3, 1, 1, upstreams.StallProbeFirst},
		{4, 2, 1, upstreams.StallTakeOut},
		{4, 1, 2, upstreams.StallProbeFirst},
		{4, 0, 0, upstreams.StallKeepServing}, // the other upstreams are down
		{10, 5, 4, upstreams.StallTakeOut},
		{10, 4, 5, upstreams.StallProbeFirst},
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
	if got := (&Table{routes: []*Route{r}}).DecideStall(a, t0); got != upstreams.StallTakeOut {
		t.Errorf("one of two that take calls: %v", got)
	}
	alone := &Route{targets: []Target{r.targets[0], r.targets[4]}}
	if got := (&Table{routes: []*Route{r, alone}}).DecideStall(a, t0); got != upstreams.StallKeepServing {
		t.Errorf("the last one of a route: %v", got)
	}
	if got := (&Table{routes: []*Route{r, alone}}).DecideStall(b, t0); got != upstreams.StallTakeOut {
		t.Errorf("the last one of another's route: %v", got)
	}
}
