package status

import (
	"strings"
	"testing"

	"penstock/upstreams"
)

// TestTroubleIsThePresentOne checks that the reason on the page is the feature that an engine
// currently refuses, rather than an older failure that the breaker still reports.
func TestTroubleIsThePresentOne(t *testing.T) {
	u := &Upstream{Status: upstreams.Status{
		Label: "a", State: "up", Mode: "ready", Breaker: "half_open",
		LastFailure: &upstreams.LastFailure{During: "call", Reason: "reset"},
		Lacks:       []upstreams.LackedFeature{{Served: "m", Feature: "chat", Status: 400, Refused: 4}},
	}}
	if got := u.troubleText(); !strings.Contains(got, "a refuses calls with the operation chat (status 400, 4 calls refused), which others") || strings.Contains(got, "reset") {
		t.Error(got)
	}
	if u.Lacks = nil; !strings.Contains(u.troubleText(), "connection reset") {
		t.Error(u.troubleText())
	}
}

// TestTroubleText checks that a busy engine that does not answer probes counts as a problem
// only after a while.
func TestTroubleText(t *testing.T) {
	u := Upstream{Status: upstreams.Status{Label: "a", State: "busy", Mode: "ready"}}
	if got := u.troubleText(); got != "" {
		t.Error(got)
	}
	u.Unheard, u.Leaves = 41, true
	if got, want := u.troubleText(), "a does not answer its probes, and nothing has come from it for 41 s: it is busy or has stopped. Look at its process and its log, or take it out (penstock drain a)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestRefusalsOfOneEngineAreNamed checks that the first sentence and the page name an engine that
// refuses a tool choice that the model's other engine accepts. If all engines refuse the tool
// choice, the requests may be invalid, and no engine is named.
func TestRefusalsOfOneEngineAreNamed(t *testing.T) {
	refuses := []upstreams.RefusedFeature{{Served: "m", Feature: "forced_tool", Status: 400, Flag: "--enable-auto-tool-choice", Refused: 5, Answers: 6}}
	make2 := func() *Status {
		s := sample()
		s.LastReload = nil
		up := s.Upstreams[0]
		a, b := up, up
		a.Name, a.Label, b.Name, b.Label = "gpu-a", "gpu-a", "gpu-b", "gpu-b"
		b.Refuses = refuses
		s.Upstreams = []Upstream{a, b}
		s.Models = []Model{{ID: "chat", Ready: true, Targets: []Target{{Upstream: "gpu-a", Served: "m", Eligible: true}, {Upstream: "gpu-b", Served: "m", Eligible: true}}}}
		return s
	}
	s := make2()
	s.SetVerdict(nil)
	const want = " Look at: gpu-b refused 5 of its last 6 calls with a forced tool (tool_choice) (status 400), the others of its model did not: start it with --enable-auto-tool-choice."
	if !strings.HasSuffix(s.Verdict.Text, want) || s.Verdict.Level != LevelOK {
		t.Errorf("verdict = %+v, want healthy with %q", s.Verdict, want)
	}
	page, err := s.Section("upstreams")
	if err != nil || !strings.Contains(page, "refused 5 of its last 6 calls with a forced tool") || !strings.Contains(page, "start it with --enable-auto-tool-choice") {
		t.Errorf("%v: the page lacks it:\n%s", err, page)
	}
	s = make2()
	s.Upstreams[0].Refuses = refuses
	if s.SetVerdict(nil); strings.Contains(s.Verdict.Text, "Look at") {
		t.Errorf("both refuse: %q", s.Verdict.Text)
	}
	s = make2()
	s.Models[0].Targets = s.Models[0].Targets[1:]
	if s.SetVerdict(nil); strings.Contains(s.Verdict.Text, "Look at") {
		t.Errorf("there is no other: %q", s.Verdict.Text)
	}
}

// TestRefusalsOfTheOnlyEngine checks when the first sentence mentions a model's only engine: the
// engine has refused many calls with a feature in a row, and a missing flag would explain this.
func TestRefusalsOfTheOnlyEngine(t *testing.T) {
	const flag = "--enable-auto-tool-choice"
	for _, c := range []struct {
		flag             string
		refused, answers int
		other            bool
		want             bool
	}{
		{flag, 10, 10, false, true},
		{flag, 9, 9, false, false},
		{flag, 10, 11, false, false}, // the engine can answer such calls
		{"", 10, 10, false, false},
		{flag, 10, 10, true, false}, // the other engine also refuses such calls
	} {
		s := sample()
		s.LastReload, s.Upstreams, s.Models = nil, s.Upstreams[:1], s.Models[:1]
		u := &s.Upstreams[0]
		u.Refuses = []upstreams.RefusedFeature{{Served: "m", Feature: "tools", Status: 400, Flag: c.flag, Refused: c.refused, Answers: c.answers}}
		s.Models[0].Targets = []Target{{Upstream: u.Label, Served: "m", Eligible: true}}
		if c.other {
			b := *u
			b.Name, b.Label = "other", "other"
			s.Upstreams = append(s.Upstreams, b)
			s.Models[0].Targets = append(s.Models[0].Targets, Target{Upstream: "other", Served: "m", Eligible: true})
		}
		s.SetVerdict(nil)
		const want = " calls with tools (status 400), and no other engine of its model can be compared: are the calls right? Otherwise start it with --enable-auto-tool-choice."
		if s.Verdict.Level != LevelOK || strings.HasSuffix(s.Verdict.Text, want) != c.want || strings.Contains(s.Verdict.Text, "Look at") != c.want {
			t.Errorf("%+v: %+v", c, s.Verdict)
		}
	}
}
