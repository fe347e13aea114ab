package routing

import (
	"testing"

	"penstock/config"
	"penstock/upstreams"
)

// TestCapacityWithoutRefusers checks that an engine that lacks a feature needed by every call of a
// model counts only if there is no other engine. An engine that lacks a feature needed only by some
// calls still counts.
func TestCapacityWithoutRefusers(t *testing.T) {
	chat := upstreams.OperationFeature(config.OpChat)
	for name, c := range map[string]struct {
		needs upstreams.Features
		left  int
	}{
		"chat":  {chat, 4},
		"tools": {chat | upstreams.FeatureTools, 9},
	} {
		t.Run(name, func(t *testing.T) {
			m := model("m", "", "a", "b")
			m.Kind = config.ModelKindChat
			r := lookup(t, table(t, plan(t, upstream("a", 5), upstream("b", 4)), m), "m")
			a, b := r.targets[0].Upstream.ID(), r.targets[1].Upstream.ID()
			lease := func(without upstreams.ID) *upstreams.Lease {
				l, _, err := r.Acquire(&Query{Needs: c.needs, Now: t0, Exclude: []upstreams.ID{without}})
				if err != nil {
					t.Fatal(err)
				}
				l.SetFeatures(c.needs)
				return l
			}
			for refused := uint64(1); refused < 100; refused++ {
				l := lease(b)
				doubt := l.RecordDisputableRefusal(upstreams.Refusal{Status: 400, Text: 7, Body: refused})
				if l.ReleaseAt(upstreams.OutcomeRejected, t0); doubt == nil {
					continue
				}
				l = lease(a)
				l.SetDisputedRefusal(doubt)
				if l.ReleaseAt(upstreams.OutcomeOK, t0); r.targets[0].model.LacksFeature(c.needs, upstreams.MomentOf(t0)) {
					break
				}
			}
			if got := r.PoolCapacity(upstreams.PoolText, t0); got.Total != c.left || got.Available != c.left {
				t.Errorf("%+v, want %d", got, c.left)
			}
			r.targets[1].Upstream.SetMode(upstreams.ModeDrain)
			if got := r.PoolCapacity(upstreams.PoolText, t0).Total; got != 5 {
				t.Errorf("%d slots where it is the last one", got)
			}
		})
	}
}
