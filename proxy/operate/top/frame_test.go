package top

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"penstock/proxy/fleet"
	"penstock/proxy/front/plaintext"
	"penstock/proxy/operate/status"
	"penstock/proxy/telemetry/observe"
	"penstock/upstreams"
)

// sample returns the state of an edge with the given number of upstreams and with models in all
// states. The upstream gpu-07 is down.
func sample(upstreamCount int) *status.Status {
	now := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	s := &status.Status{Now: now, Started: now.Add(-time.Hour), Version: 5, InFlight: 3, Fleet: &fleet.State{StoreAnswers: true}}
	for i := range upstreamCount {
		u := status.Upstream{Status: upstreams.Status{
			Label: fmt.Sprintf("gpu-%02d", i), State: "up", StateSeconds: 60, Mode: "ready", Breaker: "closed", EngineTitle: "vLLM",
			URL: fmt.Sprintf("http://10.0.0.%d:8000", i), Limits: upstreams.Limits{Shared: true, Source: "config"},
			Pools: []upstreams.PoolStatus{{Pool: "text", Limit: 8}},
		}}
		u.History.Ended = (i * 7) % upstreamCount
		if i == 7 {
			u.State, u.LastFailure = "down", &upstreams.LastFailure{During: "probe", Reason: "connect"}
		}
		s.Upstreams = append(s.Upstreams, u)
	}
	for i, id := range []string{"llama", "通义千问-72b", "embed", "whisper"} {
		m := status.Model{ID: id, Ready: i != 2, Pools: map[string]status.Pool{"text": {Active: 2 * i, Total: 8}}, Slots: status.Slots{Active: 2 * i, Total: 8}, Targets: []status.Target{{Upstream: "gpu-00", Eligible: true}}}
		m.History.Minute = observe.Minute{Calls: 10 * i, TTFTP95Millis: 100 * float64(i)}
		s.Models = append(s.Models, m)
	}
	s.Calls = []status.Call{
		{ID: "req_aaaaaaaaaaaaaaaa", State: "streaming", Model: "llama", Upstream: "gpu-00", Key: "team-a", Dialect: "chat"},
		{ID: "req_bbbbbbbbbbbbbbbb", State: status.CallFailed, Status: 200, Code: "upstream_bad_response", Model: "llama", Failed: []status.Attempt{{Upstream: "gpu-07", Cause: "connect"}}},
	}
	s.Keys = []status.Key{{ID: "team-a", InFlight: 1, Concurrency: 4}, {ID: "team-b", Refused: 9, Why: "requests_per_minute"}}
	s.Refusals = []status.Reason{{Code: "rate_limited", Status: 429, Limit: "requests_per_minute", Key: "team-b", Count: 9, Minute: 9}}
	s.Fleet.Members = []fleet.Member{{Name: "edge-1", ID: "a", Self: true}, {Name: "edge-2", ID: "b"}}
	s.SetVerdict(new(status.StateWatch))
	return s
}

// TestFrameFits checks that a frame of any view fits into a terminal of any size.
func TestFrameFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sample(rapid.IntRange(0, 40).Draw(t, "upstreams"))
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z东京🚰 ]{0,90}`))
		for i := range s.Upstreams {
			s.Upstreams[i].Label = name.Draw(t, "name")
		}
		s.Models[0].ID = name.Draw(t, "model")
		s.SetVerdict(nil)
		v := newView(s)
		for _, k := range rapid.SliceOfN(rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6", "7", "9", " ", "\t", "\x1b[A", "x"}), 0, 12).Draw(t, "keys") {
			v.handleKeys([]byte(k))
			if rapid.Bool().Draw(t, "fails") {
				v.setState(nil, errors.New("nobody\x1b[2J answers"))
			}
			width, height := rapid.IntRange(1, 180).Draw(t, "width"), rapid.IntRange(1, 60).Draw(t, "height")
			frame := v.renderFrame(width, height)
			if len(frame) != height {
				t.Fatalf("%d lines for %d", len(frame), height)
			}
			for _, l := range frame {
				if plaintext.LineCells(l.text) > width || l.text != plaintext.CleanLine(l.text) {
					t.Fatalf("a line of %d in a terminal of %d: %q", plaintext.LineCells(l.text), width, l.text)
				}
			}
		}
	})
}

func textOf(frame []frameLine) string {
	var all []string
	for _, l := range frame {
		all = append(all, strings.TrimRight(l.text, " "))
	}
	return strings.Join(all, "\n")
}

// TestTroubleFirst checks that a small window shows the sentence, the rows with a problem, and the
// number of hidden rows.
func TestTroubleFirst(t *testing.T) {
	v := newView(sample(50))
	v.handleKeys([]byte("2"))
	text := textOf(v.renderFrame(80, 24))
	lines := strings.Split(text, "\n")
	if !strings.HasPrefix(lines[0], "Penstock  Out: no engine serves embed.") {
		t.Errorf("the sentence is not on top:\n%s", text)
	}
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "UPSTREAM") })
	if at < 0 || !strings.HasPrefix(lines[at+1], "> gpu-07") {
		t.Errorf("what is down is not the first row:\n%s", text)
	}
	for _, want := range []string{"of 50, ", " more", "gpu-07 is down for 1 min (no connection)", "[2 Upstreams 50 (1!)]", "q quit", "What to do: penstock explain PenstockModelWithoutEngine, penstock explain "} {
		if !strings.Contains(text, want) {
			t.Errorf("the frame lacks %q:\n%s", want, text)
		}
	}
	narrow := textOf(v.renderFrame(40, 24))
	for _, want := range []string{"> gpu-07", "down 1 min", "q quit", "1 [2 Upstreams 50 (1!)] 3"} {
		if !strings.Contains(narrow, want) {
			t.Errorf("no %q in 40 columns:\n%s", want, narrow)
		}
	}
	wide := textOf(v.renderFrame(150, 24))
	if !strings.Contains(wide, "ENGINE") || strings.Contains(narrow, "ENGINE") {
		t.Errorf("a wide window does not show more:\n%s", wide)
	}
	idle := sample(50)
	idle.Models = idle.Models[:1]
	for i := range idle.Upstreams {
		idle.Upstreams[i].History.Ended = 0
	}
	v = newView(idle)
	v.handleKeys([]byte("2"))
	if text := textOf(v.renderFrame(80, 24)); !strings.Contains(text, "more, all idle") {
		t.Errorf("it is not told that the rest is idle:\n%s", text)
	}
}

// TestColumnsStandInLine checks that a name with wide characters does not shift the columns.
func TestColumnsStandInLine(t *testing.T) {
	v := newView(sample(3))
	var at []int
	for _, l := range v.renderFrame(100, 24) {
		if i := strings.Index(l.text, "served"); i >= 0 && strings.Contains(l.text, "/8") {
			at = append(at, plaintext.LineCells(l.text[:i]))
		}
	}
	if len(at) != 3 || at[0] != at[1] || at[1] != at[2] {
		t.Errorf("the states stand at %v:\n%s", at, textOf(v.renderFrame(100, 24)))
	}
}

func TestDetails(t *testing.T) {
	v := newView(sample(10))
	for keys, want := range map[string]string{
		"1": "no engine serves it", "2": "http://10.0.0.7:8000", "3": "chat · began", "4": "refused 9 times in 5 min, mostly by requests_per_minute",
		"5": "over limit: requests_per_minute", "6": "the edge has started", "7": "edge-1",
	} {
		v.handleKeys([]byte(keys))
		if text := textOf(v.renderFrame(100, 40)); !strings.Contains(text, want) {
			t.Errorf("after the key %s the frame lacks %q\n%s", keys, want, text)
		}
	}
}

func TestKeys(t *testing.T) {
	for typed, want := range map[string]struct {
		table        int
		paused, quit bool
	}{
		"q": {quit: true}, "\x03": {quit: true}, "2": {table: 1}, "9": {table: 6}, "\t\t": {table: 2}, "7\t": {},
		" ": {paused: true}, "  ": {}, "x東/s?": {}, "\x1b[A": {}, "\x1b[5~": {}, "\x1b": {}, "\x1bOA2": {table: 1}, "\x1b[1;5A\x1b[Bq": {quit: true},
	} {
		v := newView(sample(3))
		if quit := v.handleKeys([]byte(typed)); quit != want.quit || v.tableIndex != want.table || v.paused != want.paused {
			t.Errorf("%q: table %d, paused %v, quits %v", typed, v.tableIndex, v.paused, quit)
		}
	}
}
