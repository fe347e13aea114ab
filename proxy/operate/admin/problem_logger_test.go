package admin

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"penstock/proxy/operate/status"
	"penstock/upstreams"
)

// TestLogProblems checks that each change of the edge's state is logged once, and that each key limit
// that refuses calls is logged once. Changed numbers, and states that last only a few seconds, must
// not be logged.
func TestLogProblems(t *testing.T) {
	core, seen := observer.New(zapcore.InfoLevel)
	log, now := zap.New(core), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var a problemLogger
	look := func(after time.Duration, level, text string, refusals ...status.Reason) []observer.LoggedEntry {
		now = now.Add(after)
		s := &status.Status{Now: now, Verdict: status.Verdict{Level: level, Text: text}, Refusals: refusals}
		if level != status.LevelOK {
			s.Verdict.About = []string{"m"}
			s.EdgeFaults.Unsaved = 60
		}
		a.logProblems(s, log)
		return seen.TakeAll()
	}
	want := func(all []observer.LoggedEntry, level zapcore.Level, event string, fields ...string) {
		t.Helper()
		if len(all) != 1 || all[0].Level != level || all[0].ContextMap()["event"] != event {
			t.Fatalf("logged %v, want one line of level %v with event %s", all, level, event)
		}
		text, _ := zapcore.NewJSONEncoder(zapcore.EncoderConfig{}).EncodeEntry(all[0].Entry, all[0].Context)
		for _, f := range fields {
			if !strings.Contains(text.String(), f) {
				t.Errorf("logged %s, want %s in it", text, f)
			}
		}
	}
	if all := look(0, status.LevelOK, "Healthy"); all != nil {
		t.Errorf("at the start: %v", all)
	}
	want(look(time.Second, status.LevelDegraded, "Degraded: m fails 38 % of its calls (23 of 61 in the last minute)"), zap.WarnLevel, "edge_degraded",
		"23 of 61", `"remedy":["penstock explain PenstockLedgerUnsaved"]`)
	for range 20 {
		if all := look(time.Second, status.LevelDegraded, "Degraded: m fails 39 % of its calls"); all != nil {
			t.Fatalf("another number: %v", all)
		}
	}
	want(look(time.Second, status.LevelOut, "Out: no engine serves m."), zap.ErrorLevel, "edge_out")
	if all := look(30*time.Second, status.LevelFailing, "Failing: m fails 60 % of its calls"); all != nil {
		t.Errorf("an engine is back, and the last minute is told: %v", all)
	}
	want(look(31*time.Second, status.LevelFailing, "Failing: m fails 60 % of its calls"), zap.ErrorLevel, "edge_failing")
	want(look(10*time.Second, status.LevelOut, "Out: no engine serves m."), zap.ErrorLevel, "edge_out")
	if all := look(time.Second, status.LevelOK, "Healthy"); all != nil {
		t.Errorf("within ten seconds: %v", all)
	}
	want(look(10*time.Second, status.LevelOK, "Healthy"), zap.InfoLevel, "edge_ok")

	over := status.Reason{Key: "team-a", Limit: "group_tokens_per_minute", Model: "m", Minute: 12, Count: 40}
	want(look(time.Second, status.LevelOK, "Healthy", over), zap.WarnLevel, "key_over_limit", `"key":"team-a"`, `"refused":12`, `"remedy":"raise groups[].limits.tokens_per_minute, or wait (penstock explain tokens_per_minute)"`)
	if all := look(30*time.Second, status.LevelOK, "Healthy", over); all != nil {
		t.Errorf("again: %v", all)
	}
	over.Minute = 40 // the count after a full minute
	want(look(30*time.Second, status.LevelOK, "Healthy", over), zap.WarnLevel, "key_over_limit", `"refused":40`)
	if all := look(4*time.Minute, status.LevelOK, "Healthy", over); all != nil {
		t.Errorf("a third time: %v", all)
	}
	want(look(time.Minute, status.LevelOK, "Healthy", over), zap.WarnLevel, "key_over_limit")
	over.Minute = 0
	if all := look(limitRestoredDelay-time.Second, status.LevelOK, "Healthy", over); all != nil {
		t.Errorf("within its limit for less than five minutes: %v", all)
	}
	want(look(time.Second, status.LevelOK, "Healthy", over), zap.InfoLevel, "key_within_limit", `"key":"team-a"`, `"limit":"group_tokens_per_minute"`)
	if all := look(time.Hour, status.LevelOK, "Healthy"); all != nil {
		t.Errorf("no more: %v", all)
	}
	over.Minute = 1
	want(look(time.Second, status.LevelOK, "Healthy", over), zap.WarnLevel, "key_over_limit", `"refused":1`)
	lines := 0
	for range 10 { // a call is refused once every 70 s
		over.Minute = 0
		lines += len(look(61*time.Second, status.LevelOK, "Healthy", over))
		over.Minute = 1
		lines += len(look(9*time.Second, status.LevelOK, "Healthy", over))
	}
	if lines != 2 { // the second line, and another line after five more minutes
		t.Errorf("%d lines about a client that polls", lines)
	}
	want(look(limitRestoredDelay, status.LevelOK, "Healthy"), zap.InfoLevel, "key_within_limit")
	var many []status.Reason
	for i := range 100 {
		many = append(many, status.Reason{Key: "k" + string(rune('A'+i)), Limit: "requests_per_minute", Minute: 1})
	}
	if all := look(time.Second, status.LevelOK, "Healthy", many...); len(all) != maxKeyLogLines {
		t.Errorf("%d lines at once", len(all))
	}
}

// TestLogProblems_Refusals checks that if one engine refuses a feature that the model's other
// engines accept, this is logged once every five minutes.
func TestLogProblems_Refusals(t *testing.T) {
	core, seen := observer.New(zapcore.InfoLevel)
	log, now := zap.New(core), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := &status.Status{Now: now, Upstreams: make([]status.Upstream, 2), Models: []status.Model{{ID: "m", Targets: []status.Target{
		{Upstream: "a", Served: "s", Eligible: true}, {Upstream: "b", Served: "s", Eligible: true},
	}}}}
	s.Upstreams[0].Label, s.Upstreams[1].Label = "a", "b"
	s.Upstreams[0].Refuses = []upstreams.RefusedFeature{{Served: "s", Feature: "tools", Status: 400, Refused: 5, Answers: 6}}
	var a problemLogger
	for range 290 {
		a.logRefusedFeatures(s, log)
		s.Now = s.Now.Add(time.Second)
	}
	all := seen.TakeAll()
	if len(all) != 1 {
		t.Fatalf("%d lines", len(all))
	}
	f := all[0].ContextMap()
	if f["event"] != "upstream_refuses" || f["upstream"] != "a" || f["refused"] != int64(5) || f["remedy"] == "" {
		t.Errorf("%v", f)
	}
	s.Now = s.Now.Add(time.Minute)
	if a.logRefusedFeatures(s, log); seen.Len() != 1 {
		t.Error("not again after five minutes")
	}
}

// TestNameSuggestion checks that for an unknown name, a command suggests the most similar name, or lists
// all names if there are only a few.
func TestNameSuggestion(t *testing.T) {
	if got := nameSuggestion("gpu-b", []string{"gpu-a", "vision"}); got != `: did you mean "gpu-a"?` {
		t.Error(got)
	}
	if got := nameSuggestion("other", []string{"gpu-a", "vision"}); got != ": choose gpu-a or vision" {
		t.Error(got)
	}
	if got := nameSuggestion("other", make([]string, 13)); got != "" {
		t.Error(got)
	}
}
