package board

import (
	"strings"
	"testing"
	"time"

	"penstock/proxy/fleet/sign"
	"penstock/upstreams"
)

// TestForgedModes checks that an attacker who can write to the store but does not know the fleet's
// secret can neither start nor end the drain of an engine.
func TestForgedModes(t *testing.T) {
	drain := func(w *world, e, up int) string {
		u := w.edges[e].ups[up]
		u.SetMode(upstreams.ModeDrain)
		w.edges[e].board.PublishMode(u, upstreams.ModeDrain, "operator", w.now)
		w.exchangeAll()
		w.exchangeAll()
		return w.twin.facts[modeFactPrefix+UpstreamKey(u.ID())].value
	}
	for what, forge := range map[string]func(w *world, drained, last string) string{
		"without a signature": func(*world, string, string) string { return `{"mode":"drain","who":"x","when":9999999999}` },
		"of another upstream": func(_ *world, drained, _ string) string { return drained },
		"of another fleet": func(w *world, _, _ string) string {
			return sign.New("qs", w.secrets).Sign(sign.KindMode, modeFactPrefix+UpstreamKey(w.edges[0].ups[1].ID()), ModeSetting{Mode: "drain", When: 9999999999, Expires: 9999999999})
		},
		"signed by another": func(w *world, _, _ string) string {
			return sign.New("ps", []string{"another"}).Sign(sign.KindMode, modeFactPrefix+UpstreamKey(w.edges[0].ups[1].ID()), ModeSetting{Mode: "drain", When: 9999999999, Expires: 9999999999})
		},
		"with another time": func(_ *world, _, last string) string { return strings.Replace(last, `"expires":`, `"expires":9`, 1) },
		"that was put back": func(_ *world, _, last string) string { return last },
	} {
		w := newWorld(t, 2, 2)
		w.twin.answer(&boardMessage{edge: "one", number: 1, work: "", seed: "s"})
		w.twin.facts[secretSinceFactName] = twinFact{value: sign.New("ps", w.secrets).Sign(sign.KindSince, "", map[string]int64{"since": w.now.Add(-2 * sign.UnsignedGracePeriod).Unix()})}
		drained, last := drain(w, 0, 0), drain(w, 0, 1)
		if w.edges[1].ups[0].Mode() != upstreams.ModeDrain || w.edges[1].ups[1].Mode() != upstreams.ModeDrain {
			t.Fatalf("%s: a drain does not reach the other edge", what)
		}
		w.edges[0].ups[1].SetMode(upstreams.ModeReady)
		w.edges[0].board.PublishMode(w.edges[0].ups[1], upstreams.ModeReady, "operator", w.now)
		w.exchangeAll()
		w.exchangeAll()
		name := modeFactPrefix + UpstreamKey(w.edges[0].ups[1].ID())
		good := w.twin.facts[name].value
		w.twin.facts[name] = twinFact{value: forge(w, drained, last)}
		w.twin.newest++
		w.exchangeAll()
		w.exchangeAll()
		for i, e := range w.edges {
			if mode := e.ups[1].Mode(); mode != upstreams.ModeReady {
				t.Errorf("%s: edge %d has the mode %v", what, i, mode)
			}
		}
		w.advance(modeCheckInterval)
		w.exchangeAll()
		w.exchangeAll()
		if s, err := parseMode(w.twin.facts[name].value); err != nil || s.Mode != upstreams.ModeReady.String() {
			t.Errorf("%s: it is not put right: %s, was %s", what, w.twin.facts[name].value, good)
		}
	}
}

// TestModesAreRenewed checks that a running edge keeps a mode valid after the first signature of
// the mode has expired. A copy of the old entry must become invalid, so that an edge that starts
// later ignores it.
func TestModesAreRenewed(t *testing.T) {
	w := newWorld(t, 0, 0)
	w.add(t, 1)
	u := w.edges[0].ups[0]
	w.edges[0].board.PublishMode(u, upstreams.ModeDrain, "operator", w.now)
	w.exchangeAll()
	w.exchangeAll()
	name := modeFactPrefix + UpstreamKey(u.ID())
	old := w.twin.facts[name].value
	for range 30 {
		w.advance(12 * time.Hour)
		w.exchangeAll()
	}
	w.exchangeAll()
	w.add(t, 1)
	w.exchangeAll()
	w.exchangeAll()
	if mode := w.edges[1].ups[0].Mode(); mode != upstreams.ModeDrain || w.twin.facts[name].value == old {
		t.Errorf("after two weeks the mode is %v", mode)
	}
	w.twin.facts[name] = twinFact{value: old}
	w.edges = nil
	w.add(t, 1)
	w.exchangeAll()
	w.exchangeAll()
	if mode := w.edges[0].ups[0].Mode(); mode != upstreams.ModeReady {
		t.Errorf("of two weeks ago: %v", mode)
	}
}

// TestModeOfUpstreamThatReturns checks that an upstream that was removed from an edge and returns
// gets the mode that an operator has set. Discovery may remove engines and add them again at any
// time.
func TestModeOfUpstreamThatReturns(t *testing.T) {
	w := newWorld(t, 2, 2)
	for _, e := range w.edges { // the edge where the mode is set, and the other edge
		w.exchangeAll()
		w.edges[0].board.PublishMode(w.edges[0].ups[0], upstreams.ModeDrain, "operator", w.now)
		w.exchangeAll()
		w.exchangeAll()
		gone := e.ups[0]
		e.ups = e.ups[1:]
		w.exchangeAll()
		again := w.add(t, 1).ups[0]
		w.edges = w.edges[:2]
		if again == gone || again.ID() != gone.ID() {
			t.Fatal("this is not a new upstream with the same id")
		}
		e.ups = append([]*upstreams.Upstream{again}, e.ups...)
		w.exchangeAll()
		if mode := again.Mode(); mode != upstreams.ModeDrain {
			t.Errorf("the mode is %v", mode)
		}
	}
}

// TestPendingModeOfUpstreamThatReturns checks that an upstream that returns gets its mode in two
// cases: the mode was set while the store was away, or the store contains an invalid entry instead
// of the mode.
func TestPendingModeOfUpstreamThatReturns(t *testing.T) {
	for what, spoil := range map[string]func(w *world, e *edge, name string){
		"pending": func(*world, *edge, string) {},
		"replaced": func(w *world, e *edge, name string) {
			e.line.cut = false
			w.exchangeAll()
			w.twin.facts[name] = twinFact{value: `{"mode":"ready","who":"x","when":9999999999}`}
			w.twin.newest++
			w.exchangeAll()
		},
	} {
		w := newWorld(t, 1, 2)
		e := w.edges[0]
		w.twin.answer(&boardMessage{edge: "one", number: 1, work: "", seed: "s"})
		w.twin.facts[secretSinceFactName] = twinFact{value: sign.New("ps", w.secrets).Sign(sign.KindSince, "", map[string]int64{"since": w.now.Add(-2 * sign.UnsignedGracePeriod).Unix()})}
		w.exchangeAll()
		e.line.cut = true
		e.board.PublishMode(e.ups[0], upstreams.ModeDrain, "operator", w.now)
		w.exchangeAll()
		spoil(w, e, modeFactPrefix+UpstreamKey(e.ups[0].ID()))
		e.ups = e.ups[1:]
		w.exchangeAll()
		again := w.add(t, 1).ups[0]
		w.edges = w.edges[:1]
		e.ups = append([]*upstreams.Upstream{again}, e.ups...)
		w.exchangeAll()
		if mode := again.Mode(); mode != upstreams.ModeDrain {
			t.Errorf("%s: the mode is %v", what, mode)
		}
	}
}

// TestModesOfRemovedUpstreams checks how long modes are kept if fleet.secrets is set. The store and
// the edges must keep a mode as long as an edge has the upstream, and a few days longer. If they
// kept it forever, modes of engines with changing addresses would accumulate.
func TestModesOfRemovedUpstreams(t *testing.T) {
	w := newWorld(t, 2, 2)
	b := w.edges[0].board
	gone, stays := w.edges[0].ups[1].ID(), w.edges[0].ups[0].ID()
	b.PublishMode(w.edges[0].ups[1], upstreams.ModeDrain, "operator", w.now)
	b.PublishMode(w.edges[0].ups[0], upstreams.ModeDrain, "operator", w.now)
	w.exchangeAll()
	for _, e := range w.edges {
		e.ups, e.calls, e.down = e.ups[:1], e.calls[:1], e.down[:1]
	}
	for range 10 {
		w.advance(24 * time.Hour)
		w.exchangeAll()
	}
	w.exchangeAll()
	for i, e := range w.edges {
		if _, there := e.board.facts[modeFactPrefix+UpstreamKey(gone)]; there {
			t.Errorf("edge %d still has the mode of an upstream that is gone", i)
		}
		if _, there := e.board.OperatorMode(gone); there {
			t.Errorf("edge %d still shows the mode of an upstream that is gone", i)
		}
		if s, there := e.board.OperatorMode(stays); !there || s.Expires < w.now.Unix() {
			t.Errorf("edge %d has the mode %+v", i, s)
		}
	}
	if n := len(w.twin.facts); n != 2 { // the mode, and when the first secret appeared
		t.Errorf("the store has %d facts: %v", n, w.twin.facts)
	}
}
