package status

import (
	"strings"
	"testing"
	"time"
)

// TestBudgetsAreShown checks that the page and the terminal show use, limit and renewal of each
// budget of a key. A key with a used-up budget comes first, and is not folded as idle.
func TestBudgetsAreShown(t *testing.T) {
	midnight, month := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	s := sample()
	s.Keys = []Key{
		{ID: "calm", Budgets: []Budget{{"tokens_per_day", "75", "1000", 0.075, midnight}, {"spend_per_month", "4.99", "5", 0.998, month}}},
		{ID: "none", InFlight: 1},
		{ID: "spent", Budgets: []Budget{{"spend_per_month", "5.01", "5", 1.002, month}}},
	}
	s.Judge(nil)
	if rows := s.KeyRows(); rows[0].ID != "spent" || rows[0].Idle() || !rows[2].Idle() {
		t.Errorf("%s is first", rows[0].ID)
	}
	page, err := s.Section("keys")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<td data-label="Budgets" data-v="0.998"><small>tokens_per_day: <b>75</b> of 1000, until <time datetime="2026-11-22T00:00:00Z">2026-11-22 00:00 UTC</time></small><small>spend_per_month: <b>4.99</b> of 5, until `,
		`<small>spend_per_month: <b>5.01</b> of 5 <em class="fulltag">used up</em>, until <time datetime="2026-12-01T00:00:00Z">`,
		`<td data-label="Budgets" data-v="-1"><small>none</small></td>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
	}
	text := string(s.Terminal(160))
	for _, want := range []string{"BUDGET", "  99%  ", " 100%  ", "\n  spend_per_month is used up: 5.01 of 5, until 2026-12-01 00:00 UTC\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the terminal lacks %q:\n%s", want, text)
		}
	}
	s.Now = s.Now.Add(time.Minute)
	if again, _ := s.Section("keys"); again != page {
		t.Error("budgets that nobody uses are sent anew")
	}
}

// TestSoonIsSaid checks that the first sentence names keys that expire within a week and budgets
// that are used up or nearly so, and that the edge counts as healthy.
func TestSoonIsSaid(t *testing.T) {
	s := sample()
	s.Upstreams, s.LastReload = s.Upstreams[:1], nil
	s.Keys = []Key{
		{ID: "late", Ends: now.Add(30 * 24 * time.Hour)},
		{ID: "near", Ends: now.Add(3 * 24 * time.Hour)},
		{ID: "full", Budgets: []Budget{{"spend_per_month", "4.99", "5", 0.998, now}, {"tokens_per_day", "8", "10", 0.8, now}}},
	}
	s.Judge(nil)
	const want = " Keys: the key near ends in 3 d 0 h (2026-11-24T12:00:00Z); the key full has used 4.99 of 5 of its spend_per_month, until 2026-11-21 12:00 UTC."
	if v := s.Verdict; v.Level != LevelOK || !strings.HasPrefix(v.Text, "Healthy: ") || !strings.HasSuffix(v.Text, want) {
		t.Errorf("%+v", v)
	}
	if text := string(s.Terminal(160)); !strings.Contains(text, "the key near ends in 3 d 0 h") {
		t.Errorf("the terminal does not say it:\n%s", text)
	}
}
