package poison

import (
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"penstock/config"
	"penstock/upstreams"
)

// testFleet is a fleet for tests. Its shareReports method passes the reports of every edge to all
// edges.
type testFleet struct {
	edges []*BodyTracker
	lost  map[uint64][]*upstreams.Upstream
	ups   map[upstreams.ID]*upstreams.Upstream
}

func (f *testFleet) ReportLostEngine(hash uint64, id upstreams.ID, _ time.Duration) {
	f.lost[hash] = append(f.lost[hash], f.ups[id])
}

func (f *testFleet) ReportClearedBody(hash uint64) { delete(f.lost, hash) }

func (f *testFleet) shareReports() {
	for _, r := range f.edges {
		r.SetLostEngines(f.lost)
	}
}

// TestFleetSharesLosses checks that a third edge rejects a body that has killed one engine at each
// of two edges. The third edge must reject the body as long as any edge finds both engines down and
// no engine has answered the body. All edges must compute the same hash for the body.
func TestFleetSharesLosses(t *testing.T) {
	set, err := upstreams.NewSet(upstreams.Options{Register: func(*metrics.Set) {}, Unregister: func(*metrics.Set) {}})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := set.PlanChanges([]config.Upstream{{Name: "one", URL: "http://127.0.0.1:1", Weight: 1}, {Name: "two", URL: "http://127.0.0.1:2", Weight: 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	set.Commit(plan)
	defer set.Close(t.Context())
	one, two := plan.Upstream("one")[0], plan.Upstream("two")[0]
	f := &testFleet{lost: map[uint64][]*upstreams.Upstream{}, ups: map[upstreams.ID]*upstreams.Upstream{one.ID(): one, two.ID(): two}}
	for range 3 {
		r := New()
		r.SetFleet(f)
		r.SetSeed("of the fleet")
		f.edges = append(f.edges, r)
	}
	a, b, c := f.edges[0], f.edges[1], f.edges[2]
	body, now := []byte("a body"), time.Now()
	if a.Hash(body) != b.Hash(body) || a.Hash(body) == New().Hash(body) {
		t.Fatal("the edges hash a body differently, or by no seed of theirs")
	}
	down := func(yes bool) {
		w := upstreams.EdgeWork{Down: yes}
		set.SetOtherEdges(&upstreams.OtherEdgesWork{Edges: 3, Works: map[upstreams.ID]upstreams.EdgeWork{one.ID(): w, two.ID(): w}})
	}
	a.RecordEngineLoss(body, one, now)
	f.shareReports()
	down(true)
	if c.IsBlocked(body, now) {
		t.Error("one engine is no proof")
	}
	hash := b.RecordEngineLoss(body, two, now)
	f.shareReports()
	if !c.IsBlocked(body, now) || c.IsBlocked([]byte("another"), now) {
		t.Error("a body that has cost two engines goes to a third edge's")
	}
	b.ClearLoss(hash)
	f.shareReports()
	if c.IsBlocked(body, now) {
		t.Error("the body was answered")
	}
	if c.SetSeed("another"); a.Hash(body) == c.Hash(body) {
		t.Error("the seed does not count")
	}
}
