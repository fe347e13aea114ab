package residency

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// simulatedEngine simulates an engine behind a gate. It runs calls in slots and takes time to load
// models. Waiting calls try to enter after every event, and whenever TimeUntilNextChange predicts a change.
type simulatedEngine struct {
	t     rapid.TB
	gate  *Gate
	now   time.Time
	slots int
	load  time.Duration

	running []*call
	queue   []*call
	loaded  []string // models that the engine has loaded; the least recently used model is first
	places  int
	swaps   int
	done    int
	longest map[string]time.Duration // longest time that a call waited, by model
}

type call struct {
	model      string
	takes      time.Duration
	asked, end time.Time
	cold       bool
	begun      time.Time
	then       func() // called after the call has ended
}

func newEngine(t rapid.TB, places, slots int, load time.Duration) *simulatedEngine {
	return &simulatedEngine{
		t: t, gate: New(places), now: t0, slots: slots, load: load, places: places, longest: map[string]time.Duration{},
	}
}

func (e *simulatedEngine) startCall(model string, takes time.Duration, then func()) {
	c := &call{model: model, takes: takes, asked: e.now, then: then}
	e.gate.Model(model).BeginWait(e.now)
	e.queue = append(e.queue, c)
	e.admitWaiting()
}

// admitWaiting lets the waiting calls try to enter, beginning with the oldest call.
func (e *simulatedEngine) admitWaiting() {
	for i := 0; i < len(e.queue); {
		c := e.queue[i]
		if len(e.running) >= e.slots {
			return
		}
		m := e.gate.Model(c.model)
		ok, _ := m.AdmitCall(e.now)
		if !ok {
			i++
			continue
		}
		e.queue = slices.Delete(e.queue, i, i+1)
		m.EndWait()
		c.cold, c.begun, c.end = m.MayStillBeLoading(), e.now, e.now.Add(c.takes)
		if c.cold {
			c.end = c.end.Add(e.load)
		}
		e.loadModel(c.model)
		e.longest[c.model] = max(e.longest[c.model], e.now.Sub(c.asked))
		e.running = append(e.running, c)
	}
}

// loadModel makes the engine load a model. Like real engines, it evicts the least recently used
// model even while calls use that model.
func (e *simulatedEngine) loadModel(model string) {
	if i := slices.Index(e.loaded, model); i >= 0 {
		e.loaded = append(slices.Delete(e.loaded, i, i+1), model)
		return
	}
	e.swaps++
	if len(e.loaded) == e.places {
		for _, c := range e.running {
			if c.model == e.loaded[0] {
				e.t.Fatalf("the engine is made to unload %s, which has work, for %s", c.model, model)
			}
		}
		e.loaded = e.loaded[1:]
	}
	e.loaded = append(e.loaded, model)
}

// step advances to the next event, and reports whether there was an event.
func (e *simulatedEngine) step() bool {
	var next *call
	for _, c := range e.running {
		if next == nil || c.end.Before(next.end) {
			next = c
		}
	}
	in, timed := e.gate.TimeUntilNextChange(e.now)
	if timed && (next == nil || e.now.Add(in).Before(next.end)) {
		e.now = e.now.Add(in)
		e.admitWaiting()
		return true
	}
	if next == nil {
		return false
	}
	e.now = next.end
	m := e.gate.Model(next.model)
	if next.cold {
		m.RecordLoaded(e.load)
	}
	m.EndCall(e.now)
	e.running = slices.DeleteFunc(e.running, func(c *call) bool { return c == next })
	e.done++
	if next.then != nil {
		next.then()
	}
	e.admitWaiting()
	return true
}

// TestRandomModels checks that clients that repeatedly request one of three models at random cause
// at most one swap for every four calls.
func TestRandomModels(t *testing.T) {
	for _, callers := range []int{6, 12, 24} {
		for _, load := range []time.Duration{50 * time.Millisecond, 8 * time.Second} {
			t.Run(fmt.Sprint(callers, " callers, load ", load), func(t *testing.T) {
				e := newEngine(t, 1, 4, load)
				seed := uint32(callers)
				var again func()
				again = func() {
					seed = seed*1664525 + 1013904223
					if e.done < 2000 {
						e.startCall(string(rune('a'+seed>>16%3)), 200*time.Millisecond+time.Duration(seed>>20%300)*time.Millisecond, again)
					}
				}
				for range callers {
					again()
				}
				for e.step() {
				}
				if len(e.queue) > 0 || e.done < 2000 {
					t.Fatalf("%d calls wait for ever, %d done", len(e.queue), e.done)
				}
				if e.swaps > e.done/4 {
					t.Errorf("%d swaps for %d calls", e.swaps, e.done)
				}
				t.Logf("%d calls, %d swaps, longest waits %v", e.done, e.swaps, e.longest)
			})
		}
	}
}

// TestTwoModelsTakeTurns checks that the calls of two clients that request different models run in
// the order AABB. Each client sends its next request as soon as it has received a response.
func TestTwoModelsTakeTurns(t *testing.T) {
	e := newEngine(t, 1, 4, 500*time.Millisecond)
	for _, model := range []string{"a", "b"} {
		var again func()
		again = func() {
			if e.done < 1000 {
				e.startCall(model, 100*time.Millisecond, again)
			}
		}
		again()
	}
	for e.step() {
	}
	if e.swaps > e.done/20 {
		t.Errorf("%d swaps for %d calls", e.swaps, e.done)
	}
}

// TestFairShare sends a flood of calls for one model, and one call a minute for another model. It
// checks that the calls for the other model wait for at most two fair shares.
func TestFairShare(t *testing.T) {
	e := newEngine(t, 1, 4, 2*time.Second)
	flood := 0
	var again func()
	again = func() {
		if e.now.Sub(t0) < 20*time.Minute {
			flood++
			e.startCall("flood", 700*time.Millisecond, again)
		}
	}
	for range 16 {
		again()
	}
	rare, next := 0, t0.Add(time.Minute)
	for e.step() {
		if !e.now.Before(next) && e.now.Sub(t0) < 20*time.Minute {
			rare++
			e.startCall("rare", time.Second, nil)
			next = next.Add(time.Minute)
		}
	}
	if bound := 2 * e.gate.turnTime(); rare < 19 || e.longest["rare"] > bound {
		t.Errorf("of %d calls the longest wait was %v, two shares are %v", rare, e.longest["rare"], bound)
	}
	if perMinute := flood / 20; perMinute < 4*60*1000/700/2 {
		t.Errorf("the flood had %d calls a minute: it pays more than half of its time", perMinute)
	}
}

// TestForfeit checks that an unused turn does not block other models.
func TestForfeit(t *testing.T) {
	g := New(1)
	a, b := g.Model("a"), g.Model("b")
	enter(t, a, t0, true)
	b.BeginWait(t0)
	a.EndCall(t0.Add(time.Second))
	now := t0.Add(time.Second)
	enter(t, a, now, false) // b's turn
	in, ok := g.TimeUntilNextChange(now)
	if !ok || in > reservedPlaceTime {
		t.Fatalf("the next change is in %v, %v", in, ok)
	}
	now = now.Add(in)
	enter(t, a, now, true)
	a.EndCall(now)
	in, ok = g.TimeUntilNextChange(now)
	if !ok || in > skipTimeAfterUnusedTurn {
		t.Fatalf("the next change is in %v, %v", in, ok)
	}
	enter(t, b, now.Add(in), true)
	b.EndWait()
}

// TestVanishedWaiters checks that a turn is not forfeited while waiting calls claim it one after
// another, each within reservedPlaceTime. The clients of earlier calls may have disconnected.
func TestVanishedWaiters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, now := New(1), t0
		a, b, rival := g.Model("a"), g.Model("b"), g.Model("rival")
		if ok, _ := a.AdmitCall(now); !ok {
			t.Fatal("the first call does not enter")
		}
		waiters := rapid.IntRange(1, 8).Draw(t, "waiters")
		for range waiters {
			b.BeginWait(now)
		}
		rival.BeginWait(now.Add(time.Millisecond))
		a.EndCall(now.Add(time.Second))
		now = now.Add(time.Hour)
		for ; waiters > 0; waiters-- {
			g.TimeUntilNextChange(now) // the waiting calls are woken, and the first call checks
			for left := reservedPlaceTime - time.Millisecond; left > 0 && rapid.Bool().Draw(t, "looks"); {
				step := min(left, time.Duration(rapid.IntRange(0, 999).Draw(t, "step"))*time.Millisecond)
				now, left = now.Add(step), left-step
				if ok, _ := rival.CanAdmitCall(now); ok {
					t.Fatalf("the turn is another's with %d waiters left", waiters)
				}
			}
			if waiters > 1 && rapid.Bool().Draw(t, "vanishes") {
				b.EndWait()
				continue
			}
			if ok, _ := b.AdmitCall(now); !ok {
				t.Fatalf("the turn is forfeited with %d waiters left", waiters)
			}
			return
		}
	})
}

// TestAdmitCallOpens checks that AdmitCall reports whether another model can now be admitted. When
// the engine uses the busy model again, the idle model becomes the next model to be evicted.
func TestAdmitCallOpens(t *testing.T) {
	g := New(2)
	busy, idle, waits := g.Model("busy"), g.Model("idle"), g.Model("waits")
	enter(t, busy, t0, true)
	enter(t, idle, t0, true)
	idle.EndCall(t0)
	waits.BeginWait(t0)
	enter(t, waits, t0, false) // the engine would evict the busy model
	if ok, opens := busy.AdmitCall(t0); !ok || !opens {
		t.Errorf("it enters: %v, and opens: %v", ok, opens)
	}
	enter(t, waits, t0, true)
}

// TestWaitOpens checks that BeginWait reports whether calls may be sent because the waiting call
// was registered. This is the case if the registration ends another model's unused turn, or if a
// call for another model started to wait at the same moment.
func TestWaitOpens(t *testing.T) {
	g := New(1)
	a, b, c := g.Model("a"), g.Model("b"), g.Model("c")
	if b.BeginWait(t0) {
		t.Error("a place that was free is said to come free")
	}
	now := t0.Add(reservedPlaceTime)
	if ok, _ := c.CanAdmitCall(now); !ok {
		t.Fatal("the turn was not taken up, and is kept")
	}
	if now = now.Add(time.Millisecond); c.BeginWait(now) {
		t.Error("a turn that the call had is said to come")
	}
	if now = now.Add(time.Millisecond); !b.BeginWait(now) {
		t.Error("the call that ends the forfeit is not told")
	}
	b.EndWait()
	b.EndWait()
	c.EndWait()
	c.BeginWait(now)
	if !a.BeginWait(now) {
		t.Error("the call that comes at the same moment is not told")
	}
}

// TestUpdateResidents checks which states of the gate UpdateResidents corrects.
func TestUpdateResidents(t *testing.T) {
	g := New(1)
	a, b := g.Model("a"), g.Model("b")
	lists := func(names ...string) func(string) (bool, bool) {
		return func(name string) (bool, bool) { return slices.Contains(names, name), true }
	}
	g.UpdateResidents(lists("b"), t0)
	if ok, cold := b.CanAdmitCall(t0); !ok || cold {
		t.Error("a model that the engine lists as loaded is cold")
	}
	now := t0.Add(time.Minute)
	enter(t, a, now, true)
	g.UpdateResidents(lists("b"), now.Add(-time.Second)) // this list was read before the change
	g.UpdateResidents(lists("b"), now.Add(time.Second))  // the model has a running call
	if _, cold := a.CanAdmitCall(now); cold {
		t.Error("a list took away the place of a model that has a call")
	}
	a.EndCall(now.Add(2 * time.Second))
	g.UpdateResidents(lists(), now.Add(time.Second))
	if _, cold := a.CanAdmitCall(now); cold {
		t.Error("a list that was read before the call ended took the place away")
	}
	g.UpdateResidents(lists(), now.Add(3*time.Second))
	if _, cold := a.CanAdmitCall(now); !cold {
		t.Error("a model that the engine has unloaded is not cold")
	}
}

func enter(t *testing.T, m *Model, now time.Time, want bool) {
	t.Helper()
	if ok, _ := m.AdmitCall(now); ok != want {
		t.Fatalf("Enter of %s = %v, want %v", m.name, ok, want)
	}
}

// TestGateProperties sends random calls through a gate. An engine that evicts the least recently
// used model never aborts running calls. There are never more models with running calls than
// places. No call waits forever, even if other models never use their turns. At the end, no state
// remains.
func TestGateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places := rapid.IntRange(1, 3).Draw(t, "places")
		e := newEngine(t, places, rapid.IntRange(1, 6).Draw(t, "slots"),
			time.Duration(rapid.IntRange(0, 5000).Draw(t, "load"))*time.Millisecond)
		models := []string{"a", "b", "c", "d", "e"}
		var absent []*Model // models whose calls wait but never enter
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			model := rapid.SampledFrom(models).Draw(t, "model")
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0, 1, 2:
				e.startCall(model, time.Duration(rapid.IntRange(1, 20_000).Draw(t, "takes"))*time.Millisecond, nil)
			case 3:
				e.step()
			case 4:
				if len(absent) < 2 {
					absent = append(absent, e.gate.Model(model))
					e.gate.Model(model).BeginWait(e.now)
				}
			case 5: // a waiting client disconnects
				if n := len(e.queue); n > 0 {
					c := e.queue[n-1]
					e.queue = e.queue[:n-1]
					e.gate.Model(c.model).EndWait()
				}
			}
			busy := map[string]bool{}
			for _, c := range e.running {
				busy[c.model] = true
			}
			if len(busy) > places {
				t.Fatalf("%d models have calls at %d places", len(busy), places)
			}
		}
		for n := 0; len(e.queue)+len(e.running) > 0; n++ {
			if !e.step() || n > 10_000 {
				t.Fatalf("%d calls wait for ever", len(e.queue))
			}
		}
		for _, m := range absent {
			m.EndWait()
		}
		for _, m := range e.gate.order {
			if m.running != 0 || m.waiters != 0 {
				t.Fatalf("%s is left with %d calls and %d waiters", m.name, m.running, m.waiters)
			}
		}
		if len(e.loaded) > places {
			t.Fatalf("%d models loaded", len(e.loaded))
		}
	})
}

// TestRetainModels checks that RetainModels does not remove a loaded model or a model with waiting
// calls.
func TestRetainModels(t *testing.T) {
	g := New(1)
	for _, name := range []string{"placed", "awaited", "idle", "named"} {
		g.Model(name)
	}
	g.Model("placed").AdmitCall(t0)
	g.Model("awaited").BeginWait(t0)
	g.RetainModels([]string{"named"})
	var names []string
	for _, m := range g.order {
		names = append(names, m.name)
	}
	if want := []string{"awaited", "named", "placed"}; !slices.Equal(names, want) || len(g.models) != len(want) {
		t.Errorf("of %d models it keeps %v", len(g.models), names)
	}
}
