package status

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"penstock/proxy/fleet"
	"penstock/proxy/telemetry/observe"
	"penstock/upstreams"
	"penstock/upstreams/residency"
)

// TestFallback checks that no view reports a model as out while a fallback answers its calls. If
// the fallbacks are also out, the model must be reported.
func TestFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, w, s := newDesk(), new(StateWatch), (*Status)(nil)
		d.models[0].Fallback = []string{"gone", "gemma"}
		run := func(qwen, gemma bool) {
			d.models[0].Ready, d.models[1].Ready = qwen, gemma
			for range 30 {
				s = &Status{Now: time.Now(), Models: append([]Model{}, d.models...)}
				s.SetVerdict(w)
				time.Sleep(time.Second)
			}
		}
		run(true, true)
		if s.Models[0].State != ModelServed || s.Models[0].Fallbacks != nil {
			t.Errorf("model = %+v, want it served without stand-ins", s.Models[0])
		}
		run(false, true)
		const sentence = "no engine serves qwen, so its calls go to its fallback gemma, for 29 s"
		if m := s.Models[0]; m.State != ModelFallback || len(m.Fallbacks) != 1 || m.Fallbacks[0] != "gemma" || m.Idle() ||
			s.Verdict.Level != LevelDegraded || s.Verdict.Text != "Degraded: "+sentence+". No model is out." || s.Verdict.About[0] != "qwen" {
			t.Errorf("verdict %+v, model %+v; want degraded, because calls go to gemma", s.Verdict, m)
		}
		page, err := s.Section("models")
		if err != nil || !strings.Contains(page, `! fallback</span><small>no engine serves it, its calls go to <a href="#model-gemma">gemma</a></small><small>for 29 s`) {
			t.Errorf("section models: %v, want the badge fallback:\n%s", err, page)
		}
		if text := string(s.TerminalText(120)); !strings.Contains(text, "fallback") || !strings.Contains(text, "\n  "+sentence) || strings.Contains(text, "OUT ") {
			t.Errorf("the terminal has\n%s", text)
		}
		run(false, false)
		if m := s.Models[0]; m.State != ModelOut || m.TroubleSeconds != 59 || s.Verdict.Level != LevelOut {
			t.Errorf("verdict %+v, model %+v; want both out, the model for 59 s", s.Verdict, m)
		}
		run(true, true)
		var got []string
		for _, e := range s.Events {
			if e.Who == "qwen" {
				got = append(got, e.Level+": "+e.Text)
			}
		}
		want := "ok: is served again after 1 min; out: is out: no engine serves it; degraded: has no engine: its calls go to its fallback gemma"
		if strings.Join(got, "; ") != want {
			t.Errorf("events: %s, want %s", strings.Join(got, "; "), want)
		}
	})
}

// TestFullAndOverLimit checks that every view distinguishes calls that found no free slot from
// calls refused by a key limit.
func TestFullAndOverLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		for range 3 {
			d.endCall("qwen", "", refuseFull)
		}
		for range 2 {
			d.endCall("qwen", "", func(r *observe.Record) { refuseFull(r); r.Code, r.Limit = "rate_limited", "tokens_per_minute" })
		}
		d.endCall("qwen", "", func(r *observe.Record) {
			refuseFull(r)
			r.Outcome, r.Code, r.Status = observe.OutcomeClientError, "invalid_value", 400
		})
		s := &Status{Now: time.Now(), Models: d.models, Keys: []Key{{ID: "team-b"}}}
		s.addCallSummary(d.calls.Summary(s.Now))
		s.SetVerdict(nil)
		if k := s.Keys[0]; k.Refused != 6 || k.Full != 3 || k.OverLimit != 2 {
			t.Errorf("key = %+v, want 6 refused, 3 full and 2 over the limit", k)
		}
		page, _ := s.Page()
		for _, want := range []string{
			`<dt>Full a minute</dt><dd>3 `, `<dt>Over limit a minute</dt><dd>2 `, `data-label="Full" data-v="3">3 <small>50 %</small>`,
			`data-label="Over limit" data-v="2">2 <small>33 %</small>`,
			`data-v="6">6 <small>2 over its limits</small> <small>3 found it full</small> <small>mostly capacity_full</small>`,
		} {
			if !strings.Contains(string(page), want) {
				t.Errorf("the page lacks %s", want)
			}
		}
		text := string(s.TerminalText(160))
		for _, want := range []string{"0 failed, 3 full, 2 over limit in the last minute", "FULL", "OVER LIMIT", "3 (50%)", "2 (33%)", "refused 6 times in 5 min (2 over its limits, 3 found it full), mostly by capacity_full"} {
			if !strings.Contains(text, want) {
				t.Errorf("the terminal lacks %q:\n%s", want, text)
			}
		}
	})
}

// TestWaitsSayWhere checks that the sentence also includes calls that are queued inside engines or
// are waiting for their model's turn.
func TestWaitsSayWhere(t *testing.T) {
	s := sample()
	s.Upstreams, s.LastReload, s.Models[0].Queue = s.Upstreams[:1], nil, nil
	s.Upstreams[0].Residency = &residency.Snapshot{Places: 1, Models: []residency.Resident{{Model: "a", Waiting: 3}}}
	s.SetVerdict(nil)
	if want := "2 calls in flight, 3 waiting for its model's turn, 1 waiting within the engines."; !strings.HasSuffix(s.Verdict.Text, want) {
		t.Errorf("verdict = %s, want it to end in %s", s.Verdict.Text, want)
	}
	s.Upstreams[0].Residency, s.Upstreams[0].ReportFresh = nil, false
	s.SetVerdict(nil)
	if !strings.HasSuffix(s.Verdict.Text, ", nothing waits.") {
		t.Errorf("an old report counts: %s", s.Verdict.Text)
	}
}

// TestSlotsOfAFleet checks that a model and its only upstream show the same number of used slots,
// and how many of these slots other edges use.
func TestSlotsOfAFleet(t *testing.T) {
	s := &Status{Now: now, Fleet: &fleet.State{StoreAnswers: true}, Models: []Model{{ID: "m", Ready: true, Pools: map[string]Pool{"text": {Active: 6, Total: 8, Elsewhere: 4}}, Slots: Slots{6, 8}}}}
	s.Upstreams = []Upstream{{Status: upstreams.Status{
		Name: "gpu", Label: "gpu", State: "up", Mode: "ready", Breaker: "closed", Limits: upstreams.Limits{Shared: true},
		Pools: []upstreams.PoolStatus{{Pool: "text", Active: 2, Elsewhere: 4, Limit: 8}},
	}}}
	s.SetVerdict(nil)
	text := string(s.TerminalText(100))
	if strings.Count(text, " 6/8 ") != 2 || !strings.Contains(text, "Slots in use are those of all edges: 2 at this one, 4 at others.") {
		t.Errorf("the terminal has\n%s", text)
	}
	for section, slots := range map[string]string{"models": "<b>6 <small>of 8</small>", "upstreams": "<b>6</b><small>/8</small>"} {
		if page, _ := s.Section(section); !strings.Contains(page, slots) || !strings.Contains(page, "6 of 8 slots in use, 4 of them by other edges") || !strings.Contains(page, "<small>4 at other edges</small>") {
			t.Errorf("section %s lacks the 6 of 8 slots in use, 4 of them at other edges:\n%s", section, page)
		}
	}
	s.Upstreams[0].Pools[0].Elsewhere = 0
	if text := string(s.TerminalText(100)); strings.Contains(text, "all edges") {
		t.Errorf("no other edge holds a slot:\n%s", text)
	}
}

// TestHeadingsSayTheirTime checks that in the tables of keys, upstreams and edges, every column
// that counts calls names its period.
func TestHeadingsSayTheirTime(t *testing.T) {
	for _, columns := range [][]Column{keyColumns, upstreamColumns, edgeColumns} {
		for _, c := range columns {
			if c.Title == "CALLS" || c.Title == "FAILED" || c.Title == "REFUSED" || len(c.Title) > c.Width {
				t.Errorf("column = %+v, want a title that names its period and fits", c)
			}
		}
	}
}
