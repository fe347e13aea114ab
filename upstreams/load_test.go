package upstreams

import (
	"math"
	"testing"
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
)

func TestLimitsOf(t *testing.T) {
	generic, whisper, llama := mustProfile(t, "openai"), mustProfile(t, "whisper"), mustProfile(t, "llamacpp")
	for _, c := range []struct {
		name     string
		conf     config.Concurrency
		reported int
		profile  *engine.Profile
		want     Limits
	}{
		{"one number", config.Concurrency{Shared: 5}, 9, llama, Limits{true, 5, 5, 5, "config", false}},
		{"a map", config.Concurrency{Text: 5, Vision: 2}, 9, llama, Limits{false, 5, 2, 0, "config", false}},
		{"what the engine says", config.Concurrency{}, 9, llama, Limits{true, 9, 9, 9, "engine", false}},
		{"the profile's", config.Concurrency{}, 0, whisper, Limits{true, 1, 1, 1, "profile", false}},
		{"nobody knows", config.Concurrency{}, 0, generic, Limits{true, 16, 16, 16, "default", false}},
		{"absurd", config.Concurrency{Shared: 1 << 30}, 0, generic, Limits{true, slotMax, slotMax, slotMax, "config", false}},
	} {
		if got := limitsOf(c.conf, c.reported, c.profile); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// An edge of a fleet admits its share of the slots, wherever their number comes from, and weighs a
// call by the whole: what the others have there is weighed, too.
func TestSlotsOfAFleet(t *testing.T) {
	for _, c := range []struct {
		name             string
		upstream         config.Upstream
		reported, ghosts int
		text, vision     int
		source           string
	}{
		{"alone", config.Upstream{Edges: 1, Concurrency: config.Concurrency{Shared: 10}}, 0, 0, 10, 10, "config"},
		{"one number", config.Upstream{Edges: 4, Concurrency: config.Concurrency{Shared: 10}}, 0, 0, 2, 2, "config / 4 edges"},
		{"a map", config.Upstream{Edges: 4, Concurrency: config.Concurrency{Text: 8, Vision: 2}}, 0, 0, 2, 1, "config / 4 edges"},
		{"what the engine says", config.Upstream{Edges: 2}, 8, 0, 4, 4, "engine / 2 edges"},
		{"ghosts", config.Upstream{Edges: 2}, 8, 4, 2, 2, "engine / 2 edges"},
	} {
		u := newTestUpstream(t, config.Concurrency{Shared: 1})
		u.slots.configure(&c.upstream, 1, mustProfile(t, "llamacpp"))
		u.slots.setReported(c.reported)
		u.slots.setGhosts(c.ghosts)
		text, vision := u.Load(PoolText, time.Now()), u.Load(PoolVision, time.Now())
		if text.Limit != c.text || vision.Limit != c.vision || u.Limits().Source != c.source {
			t.Errorf("%s: %d text, %d vision, from %s", c.name, text.Limit, vision.Limit, u.Limits().Source)
		}
		whole := max(c.upstream.Concurrency.Shared, c.upstream.Concurrency.Text, c.reported-c.ghosts)
		if got := 1 / text.Share; got != float64(whole) {
			t.Errorf("%s: a call weighs 1/%v, want 1/%d", c.name, got, whole)
		}
	}
}

func TestSharedAndSeparatePools(t *testing.T) {
	now := time.Now()
	shared := newTestUpstream(t, config.Concurrency{Shared: 2})
	shared.TryLease("", PoolText, 100, now)
	shared.TryLease("", PoolVision, 50, now)
	if _, ok := shared.TryLease("", PoolAudio, 0, now); ok {
		t.Error("a shared pool gave more than it has")
	}
	if l := shared.Load(PoolAudio, now); l.Active != 2 || l.Limit != 2 || l.Tokens != 150 {
		t.Errorf("shared: %+v", l)
	}
	separate := newTestUpstream(t, config.Concurrency{Text: 1, Vision: 1})
	separate.TryLease("", PoolText, 100, now)
	if _, ok := separate.TryLease("", PoolVision, 50, now); !ok {
		t.Error("a full text pool kept a vision call out")
	}
	if _, ok := separate.TryLease("", PoolAudio, 0, now); ok {
		t.Error("a pool that the map leaves out gave a lease")
	}
	if l := separate.Load(PoolText, now); l.Active != 1 || l.Limit != 1 || l.Tokens != 100 || l.Share != 1 {
		t.Errorf("separate: %+v", l)
	}
}

// A pick weighs others' work on average over time, however often reports come, from the first one
// on.
func TestUsualOthers(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 8})
	now := time.Now()
	usual := func() float64 { return u.Load(PoolText, now).Usual }
	if usual() != 0 {
		t.Error("without a report")
	}
	u.book(&Report{Load: engine.Load{Running: 6}, At: now}, 0, now)
	if usual() != 6 {
		t.Errorf("the first report: %v", usual())
	}
	for _, every := range []time.Duration{100 * time.Millisecond, 5 * time.Second} {
		for d := every; d <= othersTime; d += every {
			now = now.Add(every)
			u.book(&Report{At: now}, 0, now)
		}
	}
	if want := 6 * math.Exp(-2); math.Abs(usual()-want) > 0.01 {
		t.Errorf("after twice the time constant: %v, want %v", usual(), want)
	}
	now = now.Add(time.Hour)
	u.book(&Report{Load: engine.Load{Running: 3}, At: now}, 0, now)
	if usual() != 3 {
		t.Errorf("after a gap: %v", usual())
	}
	now = now.Add(-time.Second)
	u.book(&Report{Load: engine.Load{Running: 5}, At: now}, 0, now)
	if got := usual(); got < 3 || got > 5 {
		t.Errorf("a report from before the last one: %v", got)
	}
}

// Others' work is what the engine has beyond our own, while the report is fresh.
func TestOthers(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 8})
	now := time.Now()
	if u.Load(PoolText, now).Others != 0 {
		t.Error("others without a report")
	}
	u.book(&Report{Load: engine.Load{Running: 5, Waiting: 2}, OwnAtScrape: 3, At: now}, 0, now)
	if got := u.Load(PoolText, now).Others; got != 4 {
		t.Errorf("others %d, want 4", got)
	}
	u.book(&Report{Load: engine.Load{Running: 2}, OwnAtScrape: 3, At: now}, 0, now)
	if got := u.Load(PoolText, now).Others; got != 0 {
		t.Errorf("others %d, want 0", got)
	}
	u.book(&Report{Load: engine.Load{Running: 5}, At: now}, 0, now)
	if got := u.Load(PoolText, now.Add(freshIntervals*defaultInterval+time.Millisecond)).Others; got != 0 {
		t.Errorf("others %d from a stale report", got)
	}
	if _, fresh := u.reports.newest(now.Add(time.Minute)); fresh {
		t.Error("a minute-old report is fresh")
	}
}

func TestPenalty(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 8})
	now := time.Now()
	near := func(d time.Duration, want float64) {
		t.Helper()
		if got := u.Load(PoolText, now.Add(d)).Penalty; math.Abs(got-want) > 0.05*want+1e-3 {
			t.Errorf("after %v: penalty %.3f, want %.3f", d, got, want)
		}
	}
	near(0, 0)
	for range 4 {
		u.penalty.charge(At(now))
	}
	near(0, 4)
	near(halfLife, 2)
	near(10*halfLife, 0.004)
	for range 1000 {
		u.penalty.charge(At(now))
	}
	near(0, penaltyMax)
	u.bring(StateDown)
	u.bring(StateUp) // an outage is over: only the slow start is left
	now = time.Now()
	near(0, 8*slowStartShare)
	near(slowStartTime/2, 8*slowStartShare/2)
	near(slowStartTime, 0)
}

// What charges the score is what must not look idle: failures and refusals, nothing else.
func TestOutcomesAndPenalty(t *testing.T) {
	for o := range outcomeCount {
		u := newTestUpstream(t, config.Concurrency{Shared: 8})
		l, _ := u.TryLease("", PoolText, 0, time.Now())
		l.Release(o)
		charged := u.Load(PoolText, time.Now()).Penalty > 0
		if want := o == OutcomeTimeout || o == OutcomeUnreachable || o == OutcomeBadResponse || o == OutcomeRefused; charged != want {
			t.Errorf("%v: charged %t", o, charged)
		}
		if u.series.attempts[o].Get() != 1 {
			t.Errorf("%v: not counted", o)
		}
	}
}

// TestGhosts plays reports: what was abandoned while it was read, and the work that own calls do
// not explain.
func TestGhosts(t *testing.T) {
	type step struct{ abandoned, unexplained, want int }
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"nothing was abandoned", []step{{0, 0, 0}, {0, 5, 0}, {0, 5, 0}}},
		{"the engine lets go", []step{{0, 0, 0}, {2, 0, 0}, {0, 0, 0}}},
		{"the engine works on", []step{{0, 0, 0}, {2, 2, 0}, {0, 2, 2}, {0, 2, 2}, {0, 1, 1}, {0, 0, 0}, {0, 2, 0}}},
		{"others' work of before is no ghost", []step{{0, 3, 0}, {2, 3, 0}, {0, 3, 0}}},
		{"others' work and a ghost", []step{{0, 3, 0}, {1, 4, 0}, {0, 4, 1}, {0, 3, 0}}},
		{"never more than were abandoned", []step{{0, 0, 0}, {1, 9, 0}, {0, 9, 1}}},
		{"one look is not enough", []step{{0, 0, 0}, {1, 1, 0}, {0, 0, 0}, {0, 1, 0}}},
		{"more come while some are there", []step{{0, 0, 0}, {1, 1, 0}, {1, 2, 1}, {0, 2, 2}}},
	} {
		var g ghostTracker
		now := time.Now()
		for i, s := range c.steps {
			for range s.abandoned {
				g.abandonedNow++
			}
			g.judgeReport(g.beginReport(now), s.unexplained, now)
			if got := g.confirmed; got != s.want {
				t.Errorf("%s: step %d: %d ghosts, want %d", c.name, i, got, s.want)
			}
			now = now.Add(2 * time.Second)
		}
	}
	var g ghostTracker
	now := time.Now()
	g.abandonedNow++
	g.judgeReport(g.beginReport(now), 1, now)
	g.judgeReport(g.beginReport(now), 1, now.Add(ghostLife+time.Second))
	if got := g.confirmed; got != 0 {
		t.Errorf("%d ghosts after %v", got, ghostLife)
	}
}

func TestGhostsDerate(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 2})
	now := time.Now()
	l, _ := u.TryLease("", PoolText, 0, now)
	l.Release(OutcomeClientGone)
	for range 2 {
		batch := u.reports.begin(now)
		u.book(&Report{Load: engine.Load{Running: 1}, At: now}, batch, now)
	}
	if got := u.Load(PoolText, now); got.Limit != 1 || got.Others != 0 || u.Limits().Text != 2 || u.Status(now).Ghosts != 1 {
		t.Errorf("%+v", got)
	}
	if _, ok := u.TryLease("", PoolText, 0, now); !ok {
		t.Error("no lease although one slot is free")
	}
	if _, ok := u.TryLease("", PoolText, 0, now); ok {
		t.Error("the ghost's slot was given away")
	}
	u.book(nil, 0, now.Add(time.Minute)) // the engine stops telling: nothing is held against it
	if got := u.Load(PoolText, now.Add(time.Minute)).Limit; got != 2 {
		t.Errorf("limit %d after the report aged out", got)
	}
}

func TestAverages(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{})
	if u.Averages.BytesPerToken() != 0 || u.Averages.TTFT() != 0 {
		t.Error("defaults")
	}
	for range 300 {
		u.Averages.LearnTokens(600, 200)
	}
	u.Averages.LearnTokens(0, 5)
	u.Averages.LearnTokens(5, 0)
	if got := u.Averages.BytesPerToken(); math.Abs(got-3) > 0.01 {
		t.Errorf("bytes per token %v", got)
	}
	l, _ := u.TryLease("", PoolText, 0, time.Now())
	l.FirstToken(200 * time.Millisecond)
	l.Release(OutcomeOK)
	if got := u.Averages.TTFT(); got != 200*time.Millisecond {
		t.Errorf("TTFT %v", got)
	}
}
