package status

import (
	"strings"
	"testing"
	"time"

	"penstock/proxy/telemetry/observe"
	"penstock/upstreams"
)

// TestBadge checks that an upstream's badge shows the worst of its states, on the page and in a
// terminal.
func TestBadge(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(u *Upstream)
	}{
		{"✓ up", func(*Upstream) {}},
		{"✓ up", func(u *Upstream) { u.History.Minute = observe.Minute{Calls: 1000, Failed: 2} }},
		{"▸ busy", func(u *Upstream) { u.State = "busy" }},
		{"! incomplete", func(u *Upstream) { u.Missing = []string{"m"} }},
		{"! suspect", func(u *Upstream) { u.Suspect, u.Missing = true, []string{"m"} }},
		{"! failing", func(u *Upstream) {
			u.Suspect, u.History.Minute = true, observe.Minute{Calls: 100, Failed: 39}
		}},
		{"! breaker half-open", func(u *Upstream) {
			u.Breaker, u.History.Minute = "half-open", observe.Minute{Calls: 100, Failed: 39}
		}},
		{"✕ breaker open", func(u *Upstream) { u.Breaker = "open" }},
		{"… pending", func(u *Upstream) { u.State = "pending" }},
		{"✕ stalled", func(u *Upstream) { u.State, u.Breaker = "stalled", "open" }},
		{"✕ down", func(u *Upstream) { u.State, u.Breaker = "down", "open" }},
		{"◐ draining", func(u *Upstream) { u.Mode, u.State = "drain", "down" }},
		{"■ maintenance", func(u *Upstream) { u.Mode, u.Breaker = "maintenance", "open" }},
	} {
		s := sample()
		s.Upstreams = s.Upstreams[:1]
		c.change(&s.Upstreams[0])
		s.SetVerdict(nil)
		text, err := s.Section("upstreams")
		if err != nil || !strings.Contains(text, ">"+c.want+"</span>") {
			t.Errorf("the page does not say %s: %v\n%s", c.want, err, text)
		}
		_, word, _ := strings.Cut(c.want, " ")
		if got := upstreamRow(&s.Upstreams[0]).Cells[1]; !strings.HasPrefix(got, word) {
			t.Errorf("a terminal says %s, want %s", got, word)
		}
	}
}

// TestTargetsDown checks that a model that is still served shows how many of its engines are down.
func TestTargetsDown(t *testing.T) {
	s := sample()
	s.Models = s.Models[1:]
	s.Models[0].Ready = true
	s.Models[0].Targets = []Target{{Upstream: "a", Eligible: true}, {Upstream: "b", Down: true}, {Upstream: "c", Why: "upstream was taken out by the operator: drain"}}
	s.SetVerdict(nil)
	text, err := s.Section("models")
	if err != nil || !strings.Contains(text, `<span class="state warn">! served</span><small>1 of 3 targets is down</small>`) {
		t.Errorf("section models: %v, want the badge served with 1 of 3 targets down\n%s", err, text)
	}
	if r := modelRow(&s.Models[0]); r.Level != LevelDegraded || r.More[0] != "1 of 3 targets is down" {
		t.Errorf("row = %+v, want %s with 1 of 3 targets down", r, LevelDegraded)
	}
	if got := downTargetsText([]Target{{Down: true}, {Down: true}, {}}); got != "2 of 3 targets are down" {
		t.Error(got)
	}
}

// TestIdleBreakerIsNoTrouble checks that a half-open breaker without calls counts as a problem only
// for five minutes after the last failure.
func TestIdleBreakerIsNoTrouble(t *testing.T) {
	for after, level := range map[time.Duration]string{4 * time.Minute: LevelDegraded, 6 * time.Minute: LevelOK} {
		s := sample()
		s.LastReload, s.Upstreams = nil, s.Upstreams[:1]
		u := &s.Upstreams[0]
		u.State, u.Mode, u.Breaker, u.Suspect, u.Pools = "up", "ready", "half-open", false, nil
		u.LastFailure = &upstreams.LastFailure{At: s.Now.Add(-after), During: "call", Reason: "status", Status: 500}
		s.SetVerdict(nil)
		if word := u.Badge().Word; s.Verdict.Level != level || (word == "up") != (level == LevelOK) {
			t.Errorf("after %s: badge %s, verdict %q; want level %s", after, word, s.Verdict.Text, level)
		}
		if page, _ := s.Section("upstreams"); !strings.Contains(page, "5 min after the last failure") {
			t.Error("the page does not say when it ends")
		}
	}
}
