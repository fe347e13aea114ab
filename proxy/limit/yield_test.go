package limit

import (
	"slices"
	"testing"
	"time"

	"penstock/config"
	"penstock/upstreams"
)

// Of the calls that have shown nothing the newest one of the last class is sent away, at the
// upstreams and in the pool that were asked for, once, and a class keeps its floor.
func TestYielding(t *testing.T) {
	var y Yielding
	here, there := new(upstreams.Upstream), new(upstreams.Upstream)
	now := time.Now()
	var ended []string
	add := func(name string, rank int, at *upstreams.Upstream, age time.Duration) *YieldingCall {
		c := &YieldingCall{Rank: rank, Pool: upstreams.PoolText, Upstream: at, Begun: now.Add(-age)}
		c.End = func() { ended = append(ended, name) }
		y.Add(c)
		return c
	}
	ask := func(rank int, floors ...config.Percent) string {
		before := len(ended)
		gone := y.SendAway(rank, upstreams.PoolText, []*upstreams.Upstream{here}, 4, floors)
		if (gone != nil) != (len(ended) > before) {
			t.Fatalf("ended %v, and waits: %v", ended[before:], gone != nil)
		}
		if gone == nil {
			return ""
		}
		return ended[before]
	}
	old, shown := add("old", 2, here, time.Minute), add("shown", 2, here, 0)
	add("new", 2, here, time.Second)
	add("elsewhere", 2, there, 0)
	add("middle", 1, here, 0)
	if !y.Show(shown) {
		t.Error("a call that was not sent away may not show anything")
	}
	for i, c := range []struct {
		rank   int
		floors []config.Percent
		want   string
	}{
		{2, nil, ""},
		{1, []config.Percent{0, 0, 75}, ""}, // three of four slots
		{0, []config.Percent{0, 0, 75}, "middle"},
		{1, []config.Percent{0, 0, 50}, "new"},
		{1, []config.Percent{0, 0, 50}, ""},
		{0, nil, "old"},
		{0, nil, ""}, // what is shown stays
	} {
		if got := ask(c.rank, c.floors...); got != c.want {
			t.Errorf("%d: %q was sent away, want %q", i, got, c.want)
		}
	}
	if y.Show(old) {
		t.Error("a call that was sent away may show something")
	}
	select {
	case <-old.gone:
		t.Error("the slot is told free before it is")
	default:
	}
	y.Remove(old)
	y.Remove(old)
	<-old.gone
	if y.SentAway(2) != 2 || y.SentAway(1) != 1 {
		t.Errorf("%d and %d were counted", y.SentAway(2), y.SentAway(1))
	}
}

// A copy of a call goes before a call of any class.
func TestShadowsYieldFirst(t *testing.T) {
	var y Yielding
	at := new(upstreams.Upstream)
	var ended []string
	add := func(name string, rank int) {
		y.Add(&YieldingCall{Rank: rank, Upstream: at, Begun: time.Now(), End: func() { ended = append(ended, name) }})
	}
	add("copy", ShadowRank)
	add("last", config.MaxClasses-1)
	for range 3 {
		y.SendAway(0, upstreams.PoolText, []*upstreams.Upstream{at}, 4, nil)
	}
	if want := []string{"copy", "last"}; !slices.Equal(ended, want) {
		t.Errorf("%v were sent away, want %v", ended, want)
	}
}
