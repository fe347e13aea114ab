package status

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock/proxy/telemetry/observe"
)

// TestBudgetsAreShown checks that the page and the terminal show each budget's use, limit and
// renewal. A key that has exhausted its budget comes first.
func TestBudgetsAreShown(t *testing.T) {
	midnight, month := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	s := sample()
	s.Keys = []Key{
		{ID: "calm", Budgets: []Budget{{"tokens_per_day", "75", "1000", 0.075, midnight}, {"spend_per_month", "4.99", "5", 0.998, month}}},
		{ID: "none", InFlight: 1},
		{ID: "spent", Budgets: []Budget{{"spend_per_month", "5.01", "5", 1.002, month}}},
	}
	s.SetVerdict(nil)
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
	text := string(s.TerminalText(160))
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

// TestSoonIsSaid checks that the first sentence names keys that expire within a week, and budgets
// that are exhausted or nearly exhausted. The edge must still count as healthy.
func TestSoonIsSaid(t *testing.T) {
	s := sample()
	s.Upstreams, s.LastReload = s.Upstreams[:1], nil
	s.Keys = []Key{
		{ID: "late", Ends: now.Add(30 * 24 * time.Hour)},
		{ID: "near", Ends: now.Add(3 * 24 * time.Hour)},
		{ID: "full", Budgets: []Budget{{"spend_per_month", "4.99", "5", 0.998, now}, {"tokens_per_day", "8", "10", 0.8, now}}},
	}
	s.SetVerdict(nil)
	const want = " Keys: the key near ends in 3 d 0 h (2026-11-24T12:00:00Z); the key full has used 4.99 of 5 of its spend_per_month, until 2026-11-21 12:00 UTC."
	if v := s.Verdict; v.Level != LevelOK || !strings.HasPrefix(v.Text, "Healthy: ") || !strings.HasSuffix(v.Text, want) {
		t.Errorf("verdict = %+v, want healthy with %q", v, want)
	}
	if text := string(s.TerminalText(160)); !strings.Contains(text, "the key near ends in 3 d 0 h") {
		t.Errorf("the terminal does not say it:\n%s", text)
	}
}

// TestKeysOverTheirLimitsAreNamed checks that keys that exceed a limit are named, with the number
// of refused calls, in the first sentence, the JSON, the page's badge and the terminal. Keys with
// refused calls come before keys that have nearly reached a limit.
func TestKeysOverTheirLimitsAreNamed(t *testing.T) {
	s := sample()
	s.Upstreams, s.LastReload = s.Upstreams[:1], nil
	s.Keys = []Key{
		{ID: "near", Ends: now.Add(3 * 24 * time.Hour)},
		{ID: "team-a"},
		{ID: "team-b", Group: "staff"},
		{ID: "spent", Budgets: []Budget{{"tokens_per_day", "250", "300", 0.83, now.Add(12 * time.Hour)}}},
		{ID: "gone", Ends: now.Add(-time.Hour)},
		{ID: "long-gone", Ends: now.Add(-30 * 24 * time.Hour)},
		{ID: "calm"},
		{ID: "staff", IsGroup: true},
	}
	s.addCallSummary(&observe.HistorySummary{Refusals: []observe.FailureReasonCount{
		{FailureReason: observe.FailureReason{Key: "team-a", Limit: "tokens_per_minute", Outcome: observe.OutcomeLimited}, Count: 40, Minute: 12},
		{FailureReason: observe.FailureReason{Key: "team-a", Limit: "requests_per_minute", Outcome: observe.OutcomeLimited}, Count: 3},
		{FailureReason: observe.FailureReason{Key: "team-b", Limit: "group_requests_per_minute", Outcome: observe.OutcomeLimited}, Count: 1, Minute: 1},
		{FailureReason: observe.FailureReason{Key: "spent", Limit: "tokens_per_day", Outcome: observe.OutcomeLimited}, Count: 9, Minute: 9},
	}})
	s.SetVerdict(nil)
	if notes := s.Keys[3].Notes; len(notes) != 1 || notes[0] != "is over its tokens per day (250 of 300), 9 calls refused in the last minute, until 2026-11-22 00:00 UTC: raise keys[].limits.tokens_per_day, or wait" {
		t.Errorf("%q", notes)
	}
	s.Keys = slices.Delete(s.Keys, 3, 4)
	s.SetVerdict(nil)
	const want = " Keys: the key team-a is over its tokens per minute, 12 calls refused in the last minute: raise keys[].limits.tokens_per_minute, or wait; " +
		"the key gone expired 1 h 0 min ago (2026-11-21T11:00:00Z); " +
		"the group staff is over its requests per minute, 1 call refused in the last minute: raise groups[].limits.requests_per_minute, or wait; 1 more."
	if v := s.Verdict; v.Level != LevelOK || !strings.HasSuffix(v.Text, want) {
		t.Errorf("verdict = %+v, want %s with %q", v, LevelOK, want)
	}
	badges := map[string]string{}
	for i := range s.Keys {
		badges[s.Keys[i].ID] = s.Keys[i].Badge
	}
	if want := map[string]string{"near": "ends soon", "team-a": "over limit", "team-b": "", "gone": "expired", "long-gone": "expired", "calm": "", "staff": "over limit"}; !maps.Equal(badges, want) {
		t.Errorf("badges = %v, want %v", badges, want)
	}
	if page, _ := s.Section("keys"); !strings.Contains(page, `<b>team-a</b> <em class="fulltag">over limit</em>`) {
		t.Errorf("the page lacks the badge:\n%s", page)
	}
	text := string(s.TerminalText(200))
	for want, n := range map[string]int{"is over its tokens per minute, 12 calls refused": 2, "ends in 3 d 0 h": 1} {
		if strings.Count(text, want) != n { // once in the first sentence and once in the key's row
			t.Errorf("the terminal lacks %q:\n%s", want, text)
		}
	}
	if text, _ := json.Marshal(s); !strings.Contains(string(text), `"notes":["is over its tokens per minute, 12 calls refused in the last minute: raise keys[].limits.tokens_per_minute, or wait"],"badge":"over limit"`) {
		t.Error("the JSON lacks it")
	}
}

// TestBudgetIsSaidOnce checks that the note about an exhausted budget states the usage, the end and
// the remedy only once.
func TestBudgetIsSaidOnce(t *testing.T) {
	k := Key{ID: "a", Budgets: []Budget{{"spend_per_day", "5.01", "5", 1.002, now.Add(12 * time.Hour)}}, exceededLimits: []exceededLimit{{limit: "spend_per_day", calls: 7}}}
	const want = "is over its spend per day (5.01 of 5), 7 calls refused in the last minute, until 2026-11-22 00:00 UTC: raise keys[].limits.spend_per_day, or wait"
	if k.setNotesAndBadge(now); len(k.Notes) != 1 || k.Notes[0] != want {
		t.Errorf("%q", k.Notes)
	}
}

// TestRaisedLimitIsNotOver checks that after a limit is raised, the key counts as over its limit
// only once the new limit refuses a call.
func TestRaisedLimitIsNotOver(t *testing.T) {
	w := new(StateWatch)
	look := func(after time.Duration, limit int64, last time.Time) *Status {
		s := sample()
		s.Now = now.Add(after)
		s.Keys = []Key{{ID: "a", Requests: &LimitUse{Limit: limit}}}
		s.addCallSummary(&observe.HistorySummary{Refusals: []observe.FailureReasonCount{
			{FailureReason: observe.FailureReason{Key: "a", Limit: "requests_per_minute", Outcome: observe.OutcomeLimited}, Count: 3, Minute: 3, Last: last},
		}})
		s.SetVerdict(w)
		return s
	}
	over := func(s *Status) bool {
		in := s.DescribeLimit("a", "requests_per_minute").Over
		if in != strings.Contains(s.Verdict.Text, "the key a is over its requests per minute") || in != (s.Keys[0].Badge == badgeOverLimit) {
			t.Errorf("%t, badge %q: %s", in, s.Keys[0].Badge, s.Verdict.Text)
		}
		return in
	}
	if !over(look(0, 10, now)) {
		t.Error("not over at first")
	}
	for second := range 5 {
		if over(look(time.Duration(2+second)*time.Second, 100, now.Add(time.Second))) {
			t.Errorf("still over %d s after the change", second)
		}
	}
	if !over(look(8*time.Second, 100, now.Add(8*time.Second))) {
		t.Error("the new limit refuses, too")
	}
}
