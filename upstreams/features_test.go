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
//   - "~" lets time pass until the feature is tried again.
//
// asks is how many calls a sibling receives.
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
		var s suspicion
		asks, now := 0, Moment(0)
		for _, word := range strings.Fields(c.script) {
			switch {
			case word == "o":
				s.answered()
			case word == "P":
				if s.refused('P', true) {
					asks++
				}
			case word == "~":
				now += Moment(s.pause)
				if s.out && now >= s.until {
					s.retry()
				}
			case word < "a":
				s.confirmed(uint64(word[0]-'0'), now)
			default:
				if s.refused(uint64(word[0]), false) {
					asks++
				}
			}
		}
		if asks != c.asks || s.out != c.out {
			t.Errorf("%s: %d asked, out %t; want %d, %t", name, asks, s.out, c.asks, c.out)
		}
	}
}

// TestSuspicionNeedsThreeBodies checks that, in any script, an engine loses a feature only after
// three different bodies.
func TestSuspicionNeedsThreeBodies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s suspicion
		bodies := map[uint64]bool{}
		for range rapid.IntRange(0, 200).Draw(t, "events") {
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				if s.answered() {
					s = suspicion{}
					clear(bodies)
				}
			case 1:
				s.refused(rapid.Uint64Range(1, 3).Draw(t, "text"), rapid.Bool().Draw(t, "plain"))
			default:
				body := rapid.Uint64Range(0, 4).Draw(t, "body")
				if bodies[body] = true; s.confirmed(body, 0) && len(bodies) < bodiesNeeded {
					t.Fatalf("taken for %d bodies", len(bodies))
				}
			}
		}
	})
}

// TestBlamed checks that a refusal is attributed to the call's special features, or to its
// operation if it has none.
func TestBlamed(t *testing.T) {
	chat := FeatureOf(config.OpChat)
	for needs, want := range map[Features]string{
		chat: "chat", chat | FeatureTools: "tools", chat | FeatureImages | FeatureSchema: "json_schema images",
		FeatureOf(config.OpEmbeddings): "embeddings", FeatureOf("no operation"): "",
	} {
		var names []string
		needs.blamed().each(func(f Features) { names = append(names, f.name()) })
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%b: %s, want %s", needs, got, want)
		}
	}
}

// TestLackingPause checks that an engine is tried again soon, and then less and less often while it
// refuses.
func TestLackingPause(t *testing.T) {
	s, now := suspicion{bodies: []uint64{1, 2}}, Moment(0)
	for _, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
		if !s.confirmed(3, now) || s.until-now != Moment(want) {
			t.Errorf("taken for %v, want %v", time.Duration(s.until-now), want)
		}
		now = s.until
		s.retry()
	}
	if !s.answered() {
		t.Error("its trial has passed, and it is suspected")
	}
}

// TestLacking checks that once siblings have accepted three bodies, an engine loses the feature for
// one model and for half a minute. Each later refusal extends this time.
func TestLacking(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 100})
	u.recognised(mustProfile(t, "vllm"))
	u.bring(StateUp)
	m, other := u.Models.Entry("m"), u.Models.Entry("n")
	now := time.Now()
	chat := FeatureOf(config.OpChat)
	call := func(needs Features, o Outcome, body uint64, path bool) *Doubt {
		l, ok := m.TryLease("k", PoolText, Prompt{Tokens: 1, Uncached: 1}, 0, now)
		if !ok {
			t.Fatal("no lease")
		}
		l.Needs(needs)
		defer l.Release(o)
		if o == OutcomeRejected {
			return l.Refused(Refusal{Status: 400, Text: 7, Body: body, Path: path})
		}
		return nil
	}
	answers := func(d *Doubt, o Outcome) {
		l, _ := other.TryLease("k", PoolText, Prompt{Tokens: 1, Uncached: 1}, 0, now)
		l.Settles(d)
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
	if !m.Lacks(chat|FeatureTools, At(now)) || m.Lacks(chat, At(now)) || m.Lacks(chat|FeatureForcedTool, At(now)) || other.Lacks(FeatureTools, At(now)) {
		t.Errorf("Lacking = %+v, want tools alone, and chat served", Lacking(u, now))
	}
	if all := Lacking(u, now); len(all) != 1 || all[0].Feature != "tools" || all[0].Status != 400 || !strings.Contains(all[0].Flag, "--enable-auto-tool-choice") {
		t.Errorf("Lacking = %+v, want tools with status 400 and its flag", all)
	}
	now = now.Add(lackingLeast)
	if m.Lacks(FeatureTools, At(now)) {
		t.Fatal("it is not tried again")
	}
	if all := Lacking(u, now); len(all) != 1 || all[0].Retry != 0 || len(RefusingNow(u, now)) != 0 {
		t.Errorf("during its trial it shows %+v and %+v, want that it lacks tools", all, RefusingNow(u, now))
	}
	d := call(chat|FeatureTools, OutcomeRejected, 9, false)
	if d == nil {
		t.Fatal("its trial is not asked elsewhere")
	}
	if answers(d, OutcomeOK); !m.Lacks(FeatureTools, At(now)) {
		t.Error("its trial has failed, and it lacks nothing")
	}
	now = now.Add(lackingLeast)
	if !m.Lacks(FeatureTools, At(now)) {
		t.Error("it is tried again as soon as the first time")
	}
	now = now.Add(lackingLeast)
	if m.Lacks(FeatureTools, At(now)) {
		t.Fatal("it is not tried again")
	}
	if call(chat|FeatureTools, OutcomeOK, 1, false); m.lacking.watched.Load() != 0 || Lacking(u, now) != nil {
		t.Error("its trial has passed, and it is suspected")
	}
	for range 11 {
		d = call(chat|FeatureTools, OutcomeRejected, 1, false)
	}
	if answers(d, OutcomeRejected); m.lacking.watched.Load() != 0 {
		t.Error("its sibling refuses, too, and it is suspected")
	}
	take()
	u.bring(StateDown)
	u.bring(StateUp)
	if m.Lacks(FeatureTools, At(now)) {
		t.Error("it was started anew, and lacks what it lacked")
	}
}

// TestRefusing checks that a feature for which an engine refuses most calls is reported from the
// third refusal on, with the number of refusals. The report ends when the feature counts as
// lacking, or after five minutes. Other refusals, and a few refusals among accepted calls, are not
// reported.
func TestRefusing(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 100})
	u.recognised(mustProfile(t, "vllm"))
	u.bring(StateUp)
	m, now := u.Models.Entry("m"), time.Now()
	call := func(o Outcome, text uint64) (d *Doubt) {
		l, _ := m.TryLease("k", PoolText, Prompt{Tokens: 1, Uncached: 1}, 0, now)
		l.Needs(FeatureOf(config.OpChat) | FeatureForcedTool)
		if o == OutcomeRejected {
			d = l.Refused(Refusal{Status: 400, Text: text, Body: 1})
		}
		l.Release(o)
		return d
	}
	for i := range uint64(4) {
		call(OutcomeRejected, 10+i)
	}
	call(OutcomeRejected, 7)
	call(OutcomeRejected, 7)
	if all := RefusingNow(u, now); all != nil {
		t.Errorf("refusals in different words: %+v", all)
	}
	for range 4 {
		call(OutcomeRejected, 7)
	}
	all := RefusingNow(u, now)
	if len(all) != 1 || all[0].Served != "m" || all[0].Feature != "forced_tool" || all[0].Status != 400 || all[0].Refused != 6 || all[0].Answers != 10 ||
		!strings.Contains(all[0].Remedy(), "--enable-auto-tool-choice") {
		t.Errorf("Lacking = %+v, want a forced tool of m with 6 refusals and 10 answers", all)
	}
	if all := RefusingNow(u, now.Add(refusingFor+time.Minute)); all != nil {
		t.Errorf("long after the last refusal: %+v", all)
	}
	for range 3 {
		call(OutcomeOK, 0)
	}
	if all := RefusingNow(u, now); all != nil {
		t.Errorf("among good answers: %+v", all)
	}
}
