package upstreams

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"penstock/config"
)

// TestSuspicion plays scripts:
//
//   - "o" is an accepted call.
//   - A letter from a to f is a refusal, and each letter has a different text.
//   - "P" is a refusal because the engine does not serve the path.
//   - A number is a body that a sibling accepted after a refusal.
//   - "~" advances the clock until the feature is tried again.
//
// asks is the number of calls that are sent to a sibling.
func TestSuspicion(t *testing.T) {
	eleven := strings.Repeat("a ", 11)
	for name, c := range map[string]struct {
		script string
		asks   int
		out    bool
	}{
		"a few refusals":                   {strings.Repeat("a ", 10), 0, false},
		"most of twenty":                   {eleven, 1, false},
		"in other words":                   {strings.Repeat("a b ", 40), 0, false},
		"half of them":                     {strings.Repeat("a o ", 40), 0, false},
		"most of them":                     {strings.Repeat("a a o ", 10), 1, false},
		"one in ten asks":                  {eleven + strings.Repeat("a ", 30), 4, false},
		"each once a sibling has answered": {eleven + "1 a 2 a 3", 3, true},
		"three bodies":                     {eleven + "1 2 3", 1, true},
		"two bodies":                       {eleven + "1 2", 1, false},
		"one body three times":             {eleven + "1 1 1", 1, false},
		"bodies that are not known":        {eleven + "0 0 0", 1, false},
		"the path is missing":              {"P P P", 3, false},
		"for three bodies":                 {"P 1 P 2 P 3", 3, true},
		"what is out asks no more":         {"P 1 P 2 P 3 P P", 3, true},
		"a trial that fails":               {eleven + "1 2 3 ~ a 1", 2, true},
		"until its sibling has answered":   {eleven + "1 2 3 ~ a", 2, false},
	} {
		var s lackSuspicion
		asks, now := 0, Moment(0)
		for _, word := range strings.Fields(c.script) {
			switch {
			case word == "o":
				s.recordAccepted()
			case word == "P":
				if s.recordRefusal('P', true) {
					asks++
				}
			case word == "~":
				now += Moment(s.pause)
				if s.isLacking && now >= s.retryAt {
					s.startTrial()
				}
			case word < "a":
				s.recordSiblingAccept(uint64(word[0]-'0'), now)
			default:
				if s.recordRefusal(uint64(word[0]), false) {
					asks++
				}
			}
		}
		if asks != c.asks || s.isLacking != c.out {
			t.Errorf("%s: %d asked, out %t; want %d, %t", name, asks, s.isLacking, c.asks, c.out)
		}
	}
}

// TestSuspicionNeedsThreeBodies checks that, in any script, an engine counts as lacking a feature
// only after siblings have accepted three different bodies.
func TestSuspicionNeedsThreeBodies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s lackSuspicion
		bodies := map[uint64]bool{}
		for range rapid.IntRange(0, 200).Draw(t, "events") {
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				if s.recordAccepted() {
					s = lackSuspicion{}
					clear(bodies)
				}
			case 1:
				s.recordRefusal(rapid.Uint64Range(1, 3).Draw(t, "text"), rapid.Bool().Draw(t, "plain"))
			default:
				body := rapid.Uint64Range(0, 4).Draw(t, "body")
				if bodies[body] = true; s.recordSiblingAccept(body, 0) && len(bodies) < minAcceptedBodies {
					t.Fatalf("taken for %d bodies", len(bodies))
				}
			}
		}
	})
}

// TestSuspectFeatures checks that a refusal is attributed to the call's special features or, if it
// has none, to its operation.
func TestSuspectFeatures(t *testing.T) {
	chat := OperationFeature(config.OpChat)
	for needs, want := range map[Features]string{
		chat: "chat", chat | FeatureTools: "tools", chat | FeatureImages | FeatureSchema: "json_schema images",
		OperationFeature(config.OpEmbeddings): "embeddings", OperationFeature("no operation"): "",
	} {
		var names []string
		needs.suspectsAfterRefusal().each(func(f Features) { names = append(names, f.featureName()) })
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%b: %s, want %s", needs, got, want)
		}
	}
}

// TestLackingPause checks that the pause before the next trial doubles up to five minutes while the
// engine refuses.
func TestLackingPause(t *testing.T) {
	s, now := lackSuspicion{acceptedBodies: []uint64{1, 2}}, Moment(0)
	for _, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
		if !s.recordSiblingAccept(3, now) || s.retryAt-now != Moment(want) {
			t.Errorf("taken for %v, want %v", time.Duration(s.retryAt-now), want)
		}
		now = s.retryAt
		s.startTrial()
	}
	if !s.recordAccepted() {
		t.Error("its trial has passed, and it is suspected")
	}
}

// TestLacksFeature checks that after siblings have accepted three bodies, an engine counts as
// lacking the feature for one model and half a minute. Each later refusal extends this time.
func TestLacksFeature(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 100})
	u.recognised(mustProfile(t, "vllm"))
	u.bring(StateUp)
	m, other := u.Models.FindModel("m"), u.Models.FindModel("n")
	now := time.Now()
	chat := OperationFeature(config.OpChat)
	call := func(needs Features, o Outcome, body uint64, path bool) *DisputedRefusal {
		l, ok := m.TryLease("k", PoolText, Prompt{Tokens: 1, Uncached: 1}, 0, now)
		if !ok {
			t.Fatal("no lease")
		}
		l.SetFeatures(needs)
		defer l.Release(o)
		if o == OutcomeRejected {
			return l.RecordDisputableRefusal(Refusal{Status: 400, Text: 7, Body: body, Path: path})
		}
		return nil
	}
	answers := func(d *DisputedRefusal, o Outcome) {
		l, _ := other.TryLease("k", PoolText, Prompt{Tokens: 1, Uncached: 1}, 0, now)
		l.SetDisputedRefusal(d)
		l.ReleaseAt(o, now)
	}
	take := func() {
		t.Helper()
		asked := uint64(0)
		for range 60 {
			if d := call(chat|FeatureTools, OutcomeRejected, asked, false); d != nil {
				asked++
				d.body = asked
				answers(d, OutcomeOK)
			}
		}
		if asked != 3 {
			t.Errorf("%d were asked elsewhere", asked)
		}
	}
	call(chat, OutcomeOK, 1, false)
	take()
	if !m.LacksFeature(chat|FeatureTools, MomentOf(now)) || m.LacksFeature(chat, MomentOf(now)) || m.LacksFeature(chat|FeatureForcedTool, MomentOf(now)) || other.LacksFeature(FeatureTools, MomentOf(now)) {
		t.Errorf("ListLackedFeatures = %+v, want tools alone, and chat served", ListLackedFeatures(u, now))
	}
	if all := ListLackedFeatures(u, now); len(all) != 1 || all[0].Feature != "tools" || all[0].Status != 400 || !strings.Contains(all[0].Flag, "--enable-auto-tool-choice") {
		t.Errorf("ListLackedFeatures = %+v, want tools with status 400 and its flag", all)
	}
	now = now.Add(minLackPause)
	if m.LacksFeature(FeatureTools, MomentOf(now)) {
		t.Fatal("it is not tried again")
	}
	if all := ListLackedFeatures(u, now); len(all) != 1 || all[0].Retry != 0 || len(ListRefusedFeatures(u, now)) != 0 {
		t.Errorf("during its trial it shows %+v and %+v, want that it lacks tools", all, ListRefusedFeatures(u, now))
	}
	d := call(chat|FeatureTools, OutcomeRejected, 9, false)
	if d == nil {
		t.Fatal("its trial is not asked elsewhere")
	}
	if answers(d, OutcomeOK); !m.LacksFeature(FeatureTools, MomentOf(now)) {
		t.Error("its trial has failed, and it lacks nothing")
	}
	now = now.Add(minLackPause)
	if !m.LacksFeature(FeatureTools, MomentOf(now)) {
		t.Error("it is tried again as soon as the first time")
	}
	now = now.Add(minLackPause)
	if m.LacksFeature(FeatureTools, MomentOf(now)) {
		t.Fatal("it is not tried again")
	}
	if call(chat|FeatureTools, OutcomeOK, 1, false); m.lacking.suspectedFeatures.Load() != 0 || ListLackedFeatures(u, now) != nil {
		t.Error("its trial has passed, and it is suspected")
	}
	for range 11 {
		d = call(chat|FeatureTools, OutcomeRejected, 1, false)
	}
	if answers(d, OutcomeRejected); m.lacking.suspectedFeatures.Load() != 0 {
		t.Error("its sibling refuses, too, and it is suspected")
	}
	take()
	u.bring(StateDown)
	u.bring(StateUp)
	if m.LacksFeature(FeatureTools, MomentOf(now)) {
		t.Error("it was started anew, and lacks what it lacked")
	}
}

// TestRefusing checks ListRefusedFeatures. If an engine refuses most calls for a feature,
// ListRefusedFeatures returns the feature and the number of refusals after the third refusal. It omits
// the feature once the engine counts as lacking it, or after five minutes. A few refusals among
// accepted calls do not count.
func TestRefusing(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 100})
	u.recognised(mustProfile(t, "vllm"))
	u.bring(StateUp)
	m, now := u.Models.FindModel("m"), time.Now()
	call := func(o Outcome, text uint64) (d *DisputedRefusal) {
		l, _ := m.TryLease("k", PoolText, Prompt{Tokens: 1, Uncached: 1}, 0, now)
		l.SetFeatures(OperationFeature(config.OpChat) | FeatureForcedTool)
		if o == OutcomeRejected {
			d = l.RecordDisputableRefusal(Refusal{Status: 400, Text: text, Body: 1})
		}
		l.Release(o)
		return d
	}
	for i := range uint64(4) {
		call(OutcomeRejected, 10+i)
	}
	call(OutcomeRejected, 7)
	call(OutcomeRejected, 7)
	if all := ListRefusedFeatures(u, now); all != nil {
		t.Errorf("refusals in different words: %+v", all)
	}
	for range 4 {
		call(OutcomeRejected, 7)
	}
	all := ListRefusedFeatures(u, now)
	if len(all) != 1 || all[0].Served != "m" || all[0].Feature != "forced_tool" || all[0].Status != 400 || all[0].Refused != 6 || all[0].Answers != 10 ||
		!strings.Contains(all[0].Remedy(), "--enable-auto-tool-choice") {
		t.Errorf("ListRefusedFeatures = %+v, want a forced tool of m with 6 refusals and 10 answers", all)
	}
	if all := ListRefusedFeatures(u, now.Add(shownRefusalTime+time.Minute)); all != nil {
		t.Errorf("long after the last refusal: %+v", all)
	}
	for range 3 {
		call(OutcomeOK, 0)
	}
	if all := ListRefusedFeatures(u, now); all != nil {
		t.Errorf("among good answers: %+v", all)
	}
}
