package status

import (
	"strings"
	"testing"
)

// TestQuestion checks that the confirmation for draining an upstream names the models for which no
// other upstream accepts calls.
func TestQuestion(t *testing.T) {
	s := sample()
	s.Models = []Model{
		{ID: "alone", Ready: true, Targets: []Target{{Upstream: "gpu-a", Eligible: true}, {Upstream: "gpu-a", Served: "b", Eligible: true}, {Upstream: "gpu-b"}}},
		{ID: "both", Ready: true, Targets: []Target{{Upstream: "gpu-a", Eligible: true}, {Upstream: "gpu-b", Eligible: true}}},
		{ID: "three", Ready: true, Targets: []Target{{Upstream: "gpu-b", Eligible: true}, {Upstream: "gpu-c", Eligible: true}, {Upstream: "gpu-d", Eligible: true}}},
		{ID: "gone", Targets: []Target{{Upstream: "gpu-a"}}},
		{ID: "last", Ready: true, Targets: []Target{{Upstream: "gpu-a", Eligible: true}}},
	}
	s.SetVerdict(nil)
	for i := range s.Upstreams {
		if u := &s.Upstreams[i]; u.Label == "gpu-a" && strings.Join(u.SoleFor, " ") != "alone last" {
			t.Errorf("%s is the last engine of %v", u.Label, u.SoleFor)
		}
	}
	s.SelectRows(RowRange{Limit: 2})
	text, err := s.Section("upstreams")
	if err != nil || strings.Count(text, "No other engine takes calls for alone, last.") != 1 || !strings.Contains(text, "Take gpu-a out of service?") {
		t.Errorf("section upstreams: %v, want one warning and the question about gpu-a\n%s", err, text)
	}
}

// TestTabTitle checks that the title of a browser tab shows a problem.
func TestTabTitle(t *testing.T) {
	for level, want := range map[string]string{LevelOK: "Penstock", LevelDegraded: "! Penstock", LevelOut: "✕ Penstock", LevelDraining: "↓ Penstock"} {
		s := sample()
		s.Verdict = Verdict{Level: level}
		page, err := s.Page()
		if err != nil || !strings.Contains(string(page), "<title>"+want+"</title>") || !strings.Contains(string(page), `data-title="`+want+`"`) {
			t.Errorf("page of level %s: %v, want the title %s", level, err, want)
		}
	}
}
