package status

import (
	"testing"
	"time"

	"penstock/config"
	"penstock/routing"
	"penstock/upstreams"
)

// TestSlotsOfMixedPools checks that slots that all pools of an upstream share count once, also
// beside an upstream with separate pools.
func TestSlotsOfMixedPools(t *testing.T) {
	set, err := upstreams.NewSet(upstreams.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := set.PlanChanges([]config.Upstream{
		{Name: "shared", URL: "http://127.0.0.1:20001", Engine: "openai", Weight: 1, Concurrency: config.Concurrency{Shared: 4}},
		{Name: "apart", URL: "http://127.0.0.1:20002", Engine: "openai", Weight: 1, Concurrency: config.Concurrency{Text: 3, Vision: 1}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	table, err := routing.BuildTable(&config.File{Models: []config.Model{{
		ID: "big", Deployments: []config.Deployment{{Upstream: "shared", Served: "big"}, {Upstream: "apart", Served: "big"}},
	}}}, plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := table.Lookup([]byte("big"))
	at := time.Now()
	for range 7 {
		lease, _, err := r.Acquire(&routing.Query{Now: at})
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(upstreams.OutcomeOK)
	}
	m := newModel(r, at)
	if m.Slots != (Slots{Active: 7, Total: 8}) || m.Pools["text"].Total != 7 || m.Pools["vision"].Total != 5 {
		t.Errorf("slots %+v, pools %+v, want 7 of 8 slots in use, and 7 and 5 for text and vision", m.Slots, m.Pools)
	}
	s := &Status{Models: []Model{m}}
	if text := s.slotsText(&m); text != "7 of 8 slots are in use now" {
		t.Errorf("the status says %q", text)
	}
}
