package upstreams

import (
	"math"
	"testing"
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
)

func TestNewLimits(t *testing.T) {
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
		{"absurd", config.Concurrency{Shared: 1 << 30}, 0, generic, Limits{true, maxPoolSlots, maxPoolSlots, maxPoolSlots, "config", false}},
	} {
		if got := newLimits(c.conf, c.reported, c.profile); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestSlotsOfAFleet checks that an edge in a fleet uses only its part of the slots, regardless of
// the source of the slot count. The load is computed from all slots, because it includes the calls
// of the other edges.
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
		u.slots.setObserved(c.ghosts, 0)
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

// TestSlotsByTheEdgesSeen checks that an edge may use all slots while the edges report their work
// to each other. Without these reports, the edge's part of the slots depends on the number of live
// edges, rather than on the configured number.
func TestSlotsByTheEdgesSeen(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 12})
	u.slots.configure(&config.Upstream{Edges: 2, Concurrency: config.Concurrency{Shared: 12}}, 1, mustProfile(t, "llamacpp"))
	limit := func(when string, want int) {
		t.Helper()
		if got := u.Load(PoolText, time.Now()).Limit; got != want {
			t.Errorf("%s: %d slots, want %d", when, got, want)
		}
	}
	limit("nothing is known", 6)
	u.slots.setOtherEdges(nil, 1)
	limit("the only one", 12)
	u.slots.setOtherEdges(nil, 4)
	limit("one of four", 3)
	u.slots.setOtherEdges(&otherEdges{edges: 4}, 0)
	limit("the edges share", 12)
	u.slots.setOtherEdges(nil, 3)
	limit("one of three", 4)
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
		t.Errorf("shared slots: Load = %+v, want 2 of 2 with 150 tokens", l)
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
		t.Errorf("separate slots: Load = %+v, want 1 of 1 with 100 tokens", l)
	}
}

// TestUsualOthers checks that Load.Usual is the average work of other clients over time. The
// average does not depend on how often reports arrive.
func TestUsualOthers(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 8})
	now := time.Now()
	usual := func() float64 { return u.Load(PoolText, now).Usual }
	if usual() != 0 {
		t.Error("without a report")
	}
	u.book(&LoadReport{EngineLoad: engine.EngineLoad{Running: 6}, At: now}, 0, now)
	if usual() != 6 {
		t.Errorf("the first report: %v", usual())
	}
	for _, every := range []time.Duration{100 * time.Millisecond, 5 * time.Second} {
		for d := every; d <= othersAverageTime; d += every {
			now = now.Add(every)
			u.book(&LoadReport{At: now}, 0, now)
		}
	}
	if want := 6 * math.Exp(-2); math.Abs(usual()-want) > 0.01 {
		t.Errorf("after twice the time constant: %v, want %v", usual(), want)
	}
	now = now.Add(time.Hour)
	u.book(&LoadReport{EngineLoad: engine.EngineLoad{Running: 3}, At: now}, 0, now)
	if usual() != 3 {
		t.Errorf("after a gap: %v", usual())
	}
	now = now.Add(-time.Second)
	u.book(&LoadReport{EngineLoad: engine.EngineLoad{Running: 5}, At: now}, 0, now)
	if got := usual(); got < 3 || got > 5 {
		t.Errorf("a report from before the last one: %v", got)
	}
}

// TestOthers checks that Load.Others is the reported work minus this edge's work, while the report
// is fresh.
func TestOthers(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 8})
	now := time.Now()
	if u.Load(PoolText, now).Others != 0 {
		t.Error("others without a report")
	}
	u.book(&LoadReport{EngineLoad: engine.EngineLoad{Running: 5, Waiting: 2}, OwnAtScrape: 3, At: now}, 0, now)
	if got := u.Load(PoolText, now).Others; got != 4 {
		t.Errorf("others %d, want 4", got)
	}
	u.book(&LoadReport{EngineLoad: engine.EngineLoad{Running: 2}, OwnAtScrape: 3, At: now}, 0, now)
	if got := u.Load(PoolText, now).Others; got != 0 {
		t.Errorf("others %d, want 0", got)
	}
	u.book(&LoadReport{EngineLoad: engine.EngineLoad{Running: 5}, At: now}, 0, now)
	if got := u.Load(PoolText, now.Add(reportFreshIntervals*defaultProbeInterval+time.Millisecond)).Others; got != 0 {
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
		u.penalty.addFailure(MomentOf(now))
	}
	near(0, 4)
	near(halfLife, 2)
	near(10*halfLife, 0.004)
	for range 1000 {
		u.penalty.addFailure(MomentOf(now))
	}
	near(0, maxPenalty)
	u.bring(StateDown)
	u.bring(StateUp) // after the outage, only the slow start counts
	now = time.Now()
	near(0, 8*slowStartShare)
	near(slowStartTime/2, 8*slowStartShare/2)
	near(slowStartTime, 0)
}

// TestOutcomesAndPenalty checks that only failures and refusals, including a 404 for the model, add
// to the penalty. Otherwise a failing target would look idle.
func TestOutcomesAndPenalty(t *testing.T) {
	for o := range outcomeCount {
		u := newTestUpstream(t, config.Concurrency{Shared: 8})
		l, _ := u.TryLease("", PoolText, 0, time.Now())
		l.Release(o)
		charged := u.Load(PoolText, time.Now()).Penalty > 0
		if want := o == OutcomeTimeout || o == OutcomeUnreachable || o == OutcomeBadResponse || o == OutcomeRefused || o == OutcomeModelGone; charged != want {
			t.Errorf("outcome %v: charged = %t, want %t", o, charged, want)
		}
		if u.series.attempts[o].Get() != 1 {
			t.Errorf("%v: not counted", o)
		}
	}
}

// TestGhosts plays sequences of reports. Each step contains the number of calls abandoned before
// the report, the unexplained requests in the report, and the resulting number of ghosts. held is
// the total number of calls that count as held.
func TestGhosts(t *testing.T) {
	type step struct{ abandoned, unexplained, want int }
	for _, c := range []struct {
		name  string
		held  int
		steps []step
	}{
		{"nothing was abandoned", 0, []step{{0, 0, 0}, {0, 5, 0}, {0, 5, 0}}},
		{"the engine lets go", 0, []step{{0, 0, 0}, {2, 0, 0}, {0, 0, 0}}},
		{"the engine works on", 2, []step{{0, 0, 0}, {2, 2, 0}, {0, 2, 2}, {0, 2, 2}, {0, 1, 2}, {0, 0, 1}, {0, 0, 0}, {0, 2, 0}}},
		{"others' work of before is no ghost", 0, []step{{0, 3, 0}, {2, 3, 0}, {0, 3, 0}}},
		{"others' work and a ghost", 1, []step{{0, 3, 0}, {1, 4, 0}, {0, 4, 1}, {0, 3, 1}, {0, 3, 0}}},
		{"never more than were abandoned", 1, []step{{0, 0, 0}, {1, 9, 0}, {0, 9, 1}}},
		{"one look is not enough", 0, []step{{0, 0, 0}, {1, 1, 0}, {0, 0, 0}, {0, 1, 0}}},
		{"a new call has not reached the engine yet", 3, []step{{0, 0, 0}, {3, 3, 0}, {0, 3, 3}, {0, 2, 3}, {0, 3, 3}, {0, 2, 3}, {0, 2, 2}}},
		{"more come while some are there", 2, []step{{0, 0, 0}, {1, 1, 0}, {1, 2, 1}, {0, 2, 2}}},
		{"more come while one is missing", 2, []step{{0, 0, 0}, {1, 1, 0}, {0, 1, 1}, {0, 0, 1}, {1, 2, 1}, {0, 2, 2}}},
	} {
		var g ghostRequestTracker
		now := time.Now()
		var abandoned, freed, held int
		for i, s := range c.steps {
			g.abandonedNow += s.abandoned
			f, h := g.judgeReport(g.beginReport(now), s.unexplained, now)
			abandoned, freed, held = abandoned+s.abandoned, freed+f, held+h
			if got := g.confirmed; got != s.want {
				t.Errorf("%s: step %d: %d ghosts, want %d", c.name, i, got, s.want)
			}
			now = now.Add(2 * time.Second)
		}
		if held != c.held || freed+g.unconfirmed != abandoned {
			t.Errorf("%s: held %d, want %d; freed %d and in doubt %d of %d", c.name, held, c.held, freed, g.unconfirmed, abandoned)
		}
	}
	var g ghostRequestTracker
	now := time.Now()
	g.abandonedNow++
	g.judgeReport(g.beginReport(now), 1, now)
	g.judgeReport(g.beginReport(now), 1, now.Add(ghostSuspicionTime+time.Second))
	if got := g.confirmed; got != 0 {
		t.Errorf("%d ghosts after %v", got, ghostSuspicionTime)
	}
}

// TestConcurrencyEstimates plays an engine's reports, two seconds apart. Each row contains the
// running calls, the waiting calls, and the resulting estimate of how many calls the engine runs
// concurrently.
func TestConcurrencyEstimates(t *testing.T) {
	type step struct{ running, waiting, want int }
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"it never queues", []step{{0, 0, 0}, {30, 0, 0}, {64, 0, 0}}},
		{"it queues", []step{{3, 0, 0}, {4, 9, 4}, {4, 5, 4}, {4, 0, 4}, {0, 0, 4}, {0, 0, 4}}},
		{"a burst of long prompts", []step{{3, 2, 3}, {5, 0, 0}, {2, 1, 2}, {3, 0, 0}}},
		{"the more of two reports", []step{{3, 2, 3}, {7, 2, 7}, {6, 1, 7}, {5, 0, 7}}},
		{"long prompts leave less room", []step{{9, 2, 9}, {9, 2, 9}, {5, 3, 9}, {5, 3, 5}, {4, 0, 5}}},
		{"it runs more without a queue", []step{{4, 2, 4}, {4, 2, 4}, {9, 0, 9}, {2, 0, 9}}},
		{"one queue does not make it smaller for long", []step{{9, 2, 9}, {9, 2, 9}, {6, 0, 9}, {3, 1, 3}, {6, 0, 9}}},
		{"it loads", []step{{0, 5, 0}, {0, 5, 0}, {0, 5, 0}}},
	} {
		var p concurrencyTracker
		now := time.Now()
		for i, s := range c.steps {
			p.judgeReport(s.running, s.waiting, now)
			if p.current != s.want {
				t.Errorf("%s: step %d: %d places, want %d", c.name, i, p.current, s.want)
			}
			now = now.Add(2 * time.Second)
		}
	}
	p := concurrencyTracker{estimate: 10, reportedAt: time.Now()}
	p.judgeReport(0, 0, p.reportedAt.Add(concurrencyGrowthTime))
	if p.current != 27 {
		t.Errorf("%d places some time after a queue at 10", p.current)
	}
}

// TestConcurrencyAffectsLoad checks that the observed places affect the load but not the limit,
// because the engine accepts more calls than it runs. The observed number of places is used only if
// the limit is shared, and only until the reports expire.
func TestConcurrencyAffectsLoad(t *testing.T) {
	now := time.Now()
	queue := func(u *Upstream) {
		for range 2 {
			u.book(&LoadReport{EngineLoad: engine.EngineLoad{Running: 4, Waiting: 3}, At: now}, 0, now)
			now = now.Add(time.Second)
		}
	}
	u := newTestUpstream(t, config.Concurrency{})
	queue(u)
	if l := u.Load(PoolText, now); l.Places != 4 || l.Share != 0.25 || l.Limit != 16 {
		t.Errorf("Load = %+v, want 4 places, share 0.25 and limit 16", l)
	}
	u.slots.setObserved(1, 4)
	if l := u.Load(PoolText, now); l.Places != 3 || l.Limit != 15 {
		t.Errorf("with a ghost in one of them: %+v", l)
	}
	u.slots.setObserved(0, 40)
	if l := u.Load(PoolText, now); l.Places != 16 {
		t.Errorf("more than there are slots: %+v", l)
	}
	queue(u)
	u.book(nil, 0, now.Add(time.Hour))
	if l := u.Load(PoolText, now); l.Places != 16 || l.Share != 1.0/16 {
		t.Errorf("the engine has ceased to report: %+v", l)
	}
	separate := newTestUpstream(t, config.Concurrency{Text: 8, Vision: 2})
	queue(separate)
	if l := separate.Load(PoolText, now); l.Places != 8 || l.Share != 0.125 {
		t.Errorf("separate pools: %+v", l)
	}
}

func TestGhostsReduceLimit(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 2})
	now := time.Now()
	l, _ := u.TryLease("", PoolText, 0, now)
	l.Release(OutcomeClientGone)
	for range 2 {
		batch := u.reports.beginReport(now)
		u.book(&LoadReport{EngineLoad: engine.EngineLoad{Running: 1}, At: now}, batch, now)
	}
	if got := u.Load(PoolText, now); got.Limit != 1 || got.Others != 0 || u.Limits().Text != 2 || u.Status(now).Ghosts != 1 {
		t.Errorf("Load = %+v, want limit 1 and no others, with 1 ghost", got)
	}
	if _, ok := u.TryLease("", PoolText, 0, now); !ok {
		t.Error("no lease although one slot is free")
	}
	if _, ok := u.TryLease("", PoolText, 0, now); ok {
		t.Error("the ghost's slot was given away")
	}
	u.book(nil, 0, now.Add(time.Minute)) // once the reports have expired, no ghosts are subtracted
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
		u.Averages.UpdateBytesPerToken(600, 200)
	}
	u.Averages.UpdateBytesPerToken(0, 5)
	u.Averages.UpdateBytesPerToken(5, 0)
	if got := u.Averages.BytesPerToken(); math.Abs(got-3) > 0.01 {
		t.Errorf("bytes per token %v", got)
	}
	l, _ := u.TryLease("", PoolText, 0, time.Now())
	l.RecordFirstToken(200 * time.Millisecond)
	l.Release(OutcomeOK)
	if got := u.Averages.TTFT(); got != 200*time.Millisecond {
		t.Errorf("TTFT = %v, want 200 ms", got)
	}
}

// speedOf computes the speed from a speedometer's samples. It returns false if there are too few
// samples.
func speedOf(m *speedometer, v *Speed, now Moment) bool {
	e := m.decayedSamples(now)
	if !e.isSufficient(minLongPrompts) {
		return false
	}
	*v = e.computeSpeed()
	return true
}

// TestSpeedometer checks that a speedometer distinguishes a slow engine from a busy one.
func TestSpeedometer(t *testing.T) {
	now := MomentOf(time.Now())
	learn := func(m *speedometer, slowness float64, calls ...float64) {
		for range 20 {
			for _, n := range calls {
				now += Moment(time.Second)
				m.recordPrompt(time.Duration(n*200*slowness*float64(time.Millisecond)), int64(n*1000), loadAtAcquire{calls: n, unread: int64(n * 1000)}, now)
				m.recordAnswer(time.Duration(100*slowness*(20+n)*float64(time.Millisecond)), 101, n, now)
			}
		}
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.05*want {
			t.Errorf("%s: %.6f, want %.6f", what, got, want)
		}
	}
	var idle, busy, slow speedometer
	var v Speed
	if speedOf(&idle, &v, now) {
		t.Error("it knows a speed before any call")
	}
	learn(&idle, 1, 1, 8)
	learn(&busy, 1, 20, 40)
	learn(&slow, 3, 1, 8)
	for _, m := range []*speedometer{&idle, &busy} {
		if !speedOf(m, &v, now) {
			t.Fatal("it knows no speed")
		}
		near("prefill", v.Prefill, 0.0002)
		near("a token beside 20", v.TokenTime(20), 0.040)
		near("unread a call", v.Unread, 1000)
	}
	if !speedOf(&slow, &v, now) {
		t.Fatal("it knows no speed")
	}
	near("prefill of a slow one", v.Prefill, 0.0006)
	near("a token of a slow one beside 20", v.TokenTime(20), 0.120)
	learn(&slow, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	speedOf(&slow, &v, now)
	near("prefill of one that was slow", v.Prefill, 0.0002)
	if speedOf(&busy, &v, now+Moment(time.Hour)) {
		t.Error("it knows a speed of long ago")
	}
	var none speedometer
	for range 9 {
		none.recordPrompt(0, 10, loadAtAcquire{calls: 1}, now)
		none.recordPrompt(time.Second, 0, loadAtAcquire{calls: 1}, now)
		none.recordAnswer(time.Second, minAnswerTokens-1, 1, now)
	}
	if none.prefillFit.n != 0 || none.outputFit.n != 0 {
		t.Error("it has learned from what shows nothing")
	}
}

// TestSpeedometerFixedStart checks that the fixed time before a first token does not make an engine
// look slow. Two engines read prompts equally fast, but one of them gets only short prompts. Fewer
// than ten long prompts are not enough to know a speed. Ten long prompts are enough, even if they
// are equally long.
func TestSpeedometerFixedStart(t *testing.T) {
	now := MomentOf(time.Now())
	reads := func(m *speedometer, prompts int, tokens ...int64) (v Speed, ok bool) {
		for i := range prompts {
			now += Moment(time.Second)
			n := tokens[i%len(tokens)]
			m.recordPrompt(300*time.Millisecond+time.Duration(n)*100*time.Microsecond, n, loadAtAcquire{calls: 1, unread: n}, now)
			m.recordAnswer(time.Second, 51, 1, now)
		}
		ok = speedOf(m, &v, now)
		return v, ok
	}
	for name, c := range map[string]struct {
		prompts       int
		tokens        []int64
		known         bool
		slow, fast    float64 // bounds for the seconds per token
		least, almost float64 // bounds for the fixed start time in seconds
	}{
		"short and long":          {40, []int64{50, 200, 8000, 30000}, true, 95e-6, 110e-6, 0.2, 0.32},
		"few short, mostly long":  {40, []int64{600, 4000, 8000, 30000}, true, 95e-6, 125e-6, 0.15, 0.32},
		"short alone":             {40, []int64{50, 100, 400}, false, 0, 0, 0, 0},
		"nine long ones":          {9, []int64{9000}, false, 0, 0, 0, 0},
		"all of one length":       {40, []int64{9000}, true, 100e-6, 140e-6, 0, 0.31},
		"little else than a turn": {40, []int64{900, 1100}, true, 100e-6, 450e-6, 0, 0.31},
	} {
		var m speedometer
		v, ok := reads(&m, c.prompts, c.tokens...)
		if ok != c.known || ok && (v.Prefill < c.slow || v.Prefill > c.fast || v.Start < c.least || v.Start > c.almost) {
			t.Errorf("%s: known %t, %.0f us a token behind %.3f s", name, ok, 1e6*v.Prefill, v.Start)
		}
	}
	var m speedometer
	reads(&m, 20, 9000)
	now += Moment(time.Hour)
	if _, ok := reads(&m, 9, 9000); ok {
		t.Error("an hour later nine prompts are enough")
	}
}

// TestSiblings checks that an engine with few samples is assumed to be as fast as the others. The
// number and age of the engine's own samples determine how much they count. The other engine reads
// 10,000 tokens per second, and this engine is three times slower.
func TestSiblings(t *testing.T) {
	for name, c := range map[string]struct {
		others, own int     // number of sampled prompts
		age         float64 // minutes since the engine's own prompts
		known       bool
		least, most float64 // bounds for the estimated factor by which the engine is slower
	}{
		"nothing":                 {0, 0, 0, false, 0, 0},
		"too little of both":      {6, 3, 0, false, 0, 0},
		"enough of both together": {7, 3, 0, true, 2.2, 2.8},
		"the others' alone":       {20, 0, 0, true, 0.99, 1.01},
		"one prompt":              {20, 1, 0, true, 1.9, 2.1},
		"ten prompts":             {20, 10, 0, true, 2.7, 3},
		"ten an hour ago":         {20, 10, 60, true, 0.99, 1.1},
		"its own alone":           {0, 10, 0, true, 0.99, 1.01},
	} {
		models := []*ServedModel{{}, {}}
		now := MomentOf(time.Now())
		reads := func(m *ServedModel, n int, slow float64) {
			for i := range n {
				tokens := 4000 * (1 + i%2)
				took := time.Duration(slow * float64(tokens) * 100e3)
				m.speed.recordPrompt(took, int64(tokens), loadAtAcquire{calls: 1, unread: int64(tokens)}, now)
				m.speed.recordAnswer(time.Duration(slow)*time.Second, 51, 1, now)
			}
		}
		reads(models[1], c.own, 3)
		now += Moment(c.age * float64(time.Minute))
		reads(models[0], c.others, 1)
		s := NewSiblingSpeeds(models)
		if s.Refresh(now) != c.known {
			t.Errorf("%s: a speed is known: %t", name, !c.known)
		}
		if !c.known {
			continue
		}
		var other, own Speed
		s.ReadSpeed(0, &other)
		s.ReadSpeed(1, &own)
		if by := own.Prefill / other.Prefill; by < c.least || by > c.most {
			t.Errorf("%s: %.2f times slower, want %.2f to %.2f", name, by, c.least, c.most)
		}
		for range 20 { // short prompts reveal little about the speed
			models[1].speed.recordPrompt(time.Second, longPromptTokens, loadAtAcquire{calls: 1, unread: longPromptTokens}, now)
		}
		before := own
		s.Refresh(now)
		if s.ReadSpeed(1, &own); own != before {
			t.Errorf("%s: estimated again at once", name)
		}
		s.Refresh(now + Moment(speedRefreshInterval))
		if s.ReadSpeed(1, &own); c.own > 0 && own == before {
			t.Errorf("%s: not estimated again", name)
		}
	}
}

// TestSiblingsAfterReload checks that a reload does not change the estimates, no matter how long
// the engines have been idle.
func TestSiblingsAfterReload(t *testing.T) {
	for _, idle := range []time.Duration{0, 3 * time.Minute, 20 * time.Minute, 3 * time.Hour} {
		models := []*ServedModel{{}, {}}
		now := MomentOf(time.Now())
		for i, m := range models {
			for range 200 {
				m.speed.recordPrompt(time.Duration(1+2*i)*time.Second, 10_000, loadAtAcquire{calls: 1}, now)
			}
		}
		now += Moment(idle)
		reloaded := NewSiblingSpeeds(models)
		var first [2]Speed
		for n := range 3 {
			reloaded.Refresh(now + Moment(n)*Moment(speedRefreshInterval))
			for i := range models {
				var v Speed
				reloaded.ReadSpeed(i, &v)
				if n == 0 {
					first[i] = v
				}
				if f := v.Prefill / first[i].Prefill; v.Prefill < 90e-6 || f < 0.99 || f > 1.01 {
					t.Errorf("engine %d, idle for %s, estimate %d: %.0f us per token, want %.0f, and at least 90", i, idle, n, v.Prefill*1e6, first[i].Prefill*1e6)
				}
			}
		}
	}
}

// TestPromptTrust checks how fast the samples of an engine without new long prompts lose weight.
func TestPromptTrust(t *testing.T) {
	for _, c := range []struct {
		silence   time.Duration
		elsewhere int64
		want      float64
	}{
		{0, 0, 1},
		{time.Hour, 0, 1}, // nobody could have tried it
		{0, 1000, 1},
		{time.Minute, 1000, 0.37},
		{time.Hour, 16, 0.37},
		{3 * time.Minute, 32, 0.14},
	} {
		if got := promptTrust(c.silence, c.elsewhere); math.Abs(got-c.want) > 0.01 {
			t.Errorf("after %s and %d prompts: %.2f, want %.2f", c.silence, c.elsewhere, got, c.want)
		}
	}
}

// TestLeaseShowsSpeed checks that a lease records the time since the previous call's first token,
// and the number of tokens that the engine has read according to its report. A prompt that was
// queued at the engine does not count, because it does not reveal the prefill speed.
func TestLeaseShowsSpeed(t *testing.T) {
	u, now := newTestUpstream(t, config.Concurrency{Shared: 8}), time.Now()
	m := u.Models.FindModel("m")
	take := func() *Lease {
		l, ok := m.TryLease("", PoolText, Prompt{Tokens: 9000, Uncached: 1000}, 0, now)
		if !ok {
			t.Fatal("no slot")
		}
		return l
	}
	var v Speed
	for i := range 5 {
		if speedOf(&m.speed, &v, MomentOf(now)) {
			t.Fatalf("%d prompts show a speed", 2*i)
		}
		first, second := take(), take()
		if first.TokensAhead() != 0 || second.TokensAhead() != 1000 {
			t.Errorf("%d and %d tokens ahead", first.TokensAhead(), second.TokensAhead())
		}
		first.RecordFirstToken(time.Second)
		second.RecordFirstToken(3 * time.Second)
		for _, l := range []*Lease{first, second} {
			if l == second {
				l.RecordPromptTokens(9000, 7000) // fewer tokens were cached than assumed
			}
			l.RecordResponse(101, 3*time.Second, now)
			l.Release(OutcomeOK)
		}
		now = now.Add(time.Minute)
	}
	if !speedOf(&m.speed, &v, MomentOf(now)) || math.Abs(v.Prefill-0.001) > 1e-5 || math.Abs(v.TokenTime(2)-0.03) > 1e-6 {
		t.Errorf("Speed = %+v, want 1 ms a prompt token and 30 ms an answer token", v)
	}
	if s := u.Status(now).Speeds; len(s) != 1 || s[0].Served != "m" || math.Abs(s[0].Prompt-1000) > 10 {
		t.Errorf("Speeds = %+v, want 1 of m with 1000 prompt tokens a second", s)
	}
	before := v
	u.slots.setObserved(0, 1)
	_, late := take(), take()
	late.RecordFirstToken(time.Minute)
	late.RecordResponse(101, 3*time.Second, now)
	if speedOf(&m.speed, &v, MomentOf(now)); v.Prefill != before.Prefill {
		t.Errorf("a call that waited for a place: %+v", v)
	}
}

// TestLeaseRecordsUncachedTokens checks that a lease counts the tokens that the engine has to read.
// The engine's report corrects this number. At the first token, the number of unread tokens becomes
// 0. For the stall bound, the whole prompt counts.
func TestLeaseRecordsUncachedTokens(t *testing.T) {
	u, now := newTestUpstream(t, config.Concurrency{Shared: 8}), time.Now()
	look := func(what string, tokens, unread int64) {
		t.Helper()
		var l Load
		if u.ReadLoad(&l, PoolText, MomentOf(now)); l.Tokens != tokens || l.Unread != unread {
			t.Errorf("%s: %d tokens, %d unread; want %d, %d", what, l.Tokens, l.Unread, tokens, unread)
		}
	}
	l, ok := u.Models.FindModel("m").TryLease("", PoolText, Prompt{Tokens: 5000, Uncached: 700}, 0, now)
	if !ok {
		t.Fatal("no slot")
	}
	look("sent", 700, 700)
	l.RecordFirstToken(time.Second)
	look("read", 700, 0)
	l.RecordPromptTokens(5100, 100)
	look("counted", 5000, 0)
	l.Release(OutcomeOK)
	look("ended", 0, 0)
}
