package upstreams

import (
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/residency"
)

// oneResidentUpstream returns an upstream that keeps one model loaded at a time, and two of its
// models.
func oneResidentUpstream(t *testing.T, o Options) (u *Upstream, a, b *ServedModel) {
	t.Helper()
	u = residentsUpstream(t, 1, o)
	return u, u.Models.FindModel("a"), u.Models.FindModel("b")
}

func residentsUpstream(t *testing.T, n int, o Options) *Upstream {
	t.Helper()
	s := newTestSet(t, o)
	p, err := s.PlanChanges([]config.Upstream{{Name: "u", URL: "http://127.0.0.1:1", Engine: "ollama", Residents: n}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	u := p.Upstream("u")[0]
	u.bring(StateUp)
	return u
}

// TestLeaseTakesTurns checks that only calls of the resident model acquire a lease. A call of
// another model waits, and is woken at that model's turn.
func TestLeaseTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var woken atomic.Int64
		u, a, b := oneResidentUpstream(t, Options{OnRoom: func(*Upstream) { woken.Add(1) }})
		first, ok := a.TryLease("", PoolText, Prompt{Tokens: 5, Uncached: 5}, 0, time.Now())
		if !ok {
			t.Fatal("no lease for the first model")
		}
		if _, ok := b.TryLease("", PoolText, Prompt{Tokens: 5, Uncached: 5}, 0, time.Now()); ok || u.slots.inFlight() != 1 || u.slots.tokens[PoolText].Load() != 5 {
			t.Fatalf("a lease out of turn; %d calls", u.slots.inFlight())
		}
		var l Load
		u.ReadLoad(&l, PoolText, MomentOf(time.Now()))
		if b.AdjustLoadForCall(&l, time.Now()); l.Active < l.Limit {
			t.Error("there seems to be room out of turn")
		}
		sleepAndSettle(time.Second)
		first.RecordFirstToken(time.Second) // this time includes loading the model
		first.Release(OutcomeOK)
		quit := b.BeginWait(time.Now())
		if _, ok := b.TryLease("", PoolText, Prompt{}, 0, time.Now()); ok {
			t.Error("the place is given away in the first pause of its model")
		}
		before := woken.Load()
		sleepAndSettle(time.Second)
		if woken.Load() == before {
			t.Fatal("nobody was woken in his turn")
		}
		second, ok := b.TryLease("", PoolText, Prompt{}, 0, time.Now())
		if !ok {
			t.Fatal("no lease in its turn")
		}
		quit()
		second.Release(OutcomeOK)
		if s := u.Status(time.Now()).Residency; s == nil || s.Places != 1 || slices.ContainsFunc(s.Models, func(m residency.Resident) bool { return m.Running+m.Waiting > 0 }) {
			t.Errorf("the turns are %+v", s)
		}
	})
}

// TestBeginWakesTheNext checks that a starting call wakes the calls of another model if that model
// can then be admitted.
func TestBeginWakesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var woken atomic.Int64
		u := residentsUpstream(t, 2, Options{OnRoom: func(*Upstream) { woken.Add(1) }})
		lease := func(model string, want bool) *Lease {
			l, ok := u.Models.FindModel(model).TryLease("", PoolText, Prompt{}, 0, time.Now())
			if ok != want {
				t.Fatalf("a lease of %s: %v", model, ok)
			}
			return l
		}
		busy := []*Lease{lease("busy", true)}
		lease("idle", true).Release(OutcomeOK)
		quit := u.Models.FindModel("waits").BeginWait(time.Now())
		lease("waits", false) // the engine would have to unload the busy model
		before := woken.Load()
		busy = append(busy, lease("busy", true))
		if woken.Load() == before {
			t.Error("nobody was woken, and the idle model's place may be taken")
		}
		busy = append(busy, lease("waits", true))
		quit()
		for _, l := range busy {
			l.Release(OutcomeOK)
		}
	})
}

// TestColdLoadIsNoFailure checks that a timeout while the engine loads a model does not count as a
// failure, and that a timeout after the model was loaded does.
func TestColdLoadIsNoFailure(t *testing.T) {
	u, a, _ := oneResidentUpstream(t, Options{})
	timeouts := func() {
		for i := range openAfterFailures {
			if l, ok := a.TryLease("", PoolText, Prompt{}, 0, time.Now()); ok {
				l.SetFailureSource(FailureSource{Key: strconv.Itoa(i)})
				l.Release(OutcomeTimeout)
			}
		}
	}
	timeouts()
	if at := u.Breaker.StateAt(time.Now()); at != BreakerClosed {
		t.Fatalf("the breaker is %v behind a slow load", at)
	}
	l, ok := a.TryLease("", PoolText, Prompt{}, 0, time.Now())
	if !ok {
		t.Fatal("no lease")
	}
	l.Release(OutcomeOK)
	timeouts()
	if at := u.Breaker.StateAt(time.Now()); at == BreakerClosed {
		t.Error("the breaker is closed behind timeouts of a loaded model")
	}
}

// TestAnsweredIsLoaded checks that a model that has answered a call counts as loaded, even if an
// older list shows it as unloaded. Otherwise, the edge would mistake any silence for loading until
// the next list.
func TestAnsweredIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestSet(t, Options{})
		p, err := s.PlanChanges([]config.Upstream{{Name: "u", URL: "http://127.0.0.1:1", Engine: "llamacpp-router"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		u := p.Upstream("u")[0]
		u.bring(StateUp)
		unloaded := func() {
			u.Models.setList(engine.NewModelList([]engine.ModelInfo{{ID: "a", LoadedKnown: true}}, nil), time.Now())
		}
		lease := func(loads bool, outcome func(l *Lease)) {
			t.Helper()
			l, ok := u.Models.FindModel("a").TryLease("", PoolText, Prompt{}, 0, time.Now())
			if !ok || l.IsLoading() != loads {
				t.Fatalf("a lease %v, loads %v", ok, l.IsLoading())
			}
			sleepAndSettle(time.Second)
			outcome(l)
		}
		ok := func(l *Lease) { l.Release(OutcomeOK) }
		unloaded()
		lease(true, func(l *Lease) { l.Release(OutcomeClientGone) })
		lease(true, func(l *Lease) { l.RecordFirstToken(time.Second); l.Release(OutcomeClientGone) })
		lease(false, ok)
		sleepAndSettle(time.Second)
		unloaded() // a newer list shows the model as unloaded
		lease(true, ok)
		lease(false, ok)
	})
}

// TestColdLoadByTheList checks that a timeout does not count as a failure if the engine lists the
// model as not loaded, even if the models take no turns.
func TestColdLoadByTheList(t *testing.T) {
	for _, loaded := range []bool{false, true} {
		s := newTestSet(t, Options{})
		p, err := s.PlanChanges([]config.Upstream{{Name: "u", URL: "http://127.0.0.1:1", Engine: "ollama"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		u := p.Upstream("u")[0]
		u.bring(StateUp)
		u.Models.setList(engine.NewModelList([]engine.ModelInfo{{ID: "a", LoadedKnown: true, Loaded: loaded}}, nil), time.Now())
		for i := range openAfterFailures {
			if l, ok := u.Models.FindModel("a").TryLease("", PoolText, Prompt{}, 0, time.Now()); ok {
				l.SetFailureSource(FailureSource{Key: strconv.Itoa(i)})
				l.Release(OutcomeTimeout)
			}
		}
		if closed := u.Breaker.StateAt(time.Now()) == BreakerClosed; closed == loaded {
			t.Errorf("loaded %v: closed %v", loaded, closed)
		}
	}
}

// TestResidentCount checks that the number of resident models is the smaller of the configured and the
// reported number. If no number is configured, there are no turns.
func TestResidentCount(t *testing.T) {
	u, a, _ := oneResidentUpstream(t, Options{})
	st := *u.settings.Load()
	st.expected = []string{"a"}
	for _, c := range []struct{ residents, told, want int }{{3, 0, 3}, {3, 2, 2}, {1, 2, 1}, {0, 2, 0}, {2, 2, 2}} {
		st.spec.Residents = c.residents
		u.Models.configure(u.engine.Load(), &st)
		u.Models.setReportedResidentCount(c.told)
		s := u.Status(time.Now()).Residency
		if c.want == 0 && (s != nil || a.turn.Load() != nil) || c.want > 0 && (s == nil || s.Places != c.want || a.turn.Load() == nil) {
			t.Errorf("residents %+v: Residency = %+v, want %d places", c, s, c.want)
		}
	}
}
