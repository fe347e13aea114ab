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

// sample is an edge with some upstreams, of which gpu-07 is down, and with models of all states.
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
		m := status.Model{ID: id, Ready: i != 2, Pools: map[string]status.Pool{"text": {Active: 2 * i, Total: 8}}, Targets: []status.Target{{Upstream: "gpu-00", Eligible: true}}}
		m.History.Minute = observe.Minute{Calls: 10 * i, TTFTP95Millis: 100 * float64(i)}
		s.Models = append(s.Models, m)
	}
	s.Calls = []status.Call{
		{ID: "req_aaaaaaaaaaaaaaaa", State: "streaming", Model: "llama", Upstream: "gpu-00", Key: "team-a", Dialect: "chat"},
		{ID: "req_bbbbbbbbbbbbbbbb", State: status.StateFailed, Status: 200, Code: "upstream_bad_response", Model: "llama", Failed: []status.Attempt{{Upstream: "gpu-07", Cause: "connect"}}},
	}
	s.Keys = []status.Key{{ID: "team-a", InFlight: 1, Concurrency: 4}, {ID: "team-b", Refused: 9, Why: "requests_per_minute"}}
	s.Refusals = []status.Reason{{Code: "rate_limited", Status: 429, Limit: "requests_per_minute", Key: "team-b", Count: 9, Minute: 9}}
	s.Fleet.Members = []fleet.Member{{Name: "edge-1", ID: "a", Self: true}, {Name: "edge-2", ID: "b"}}
	s.Judge(new(status.Watch))
	return s
}

// TestFrameFits: whatever the size, the names and the view, a frame has the lines of the terminal, and none is wider.
func TestFrameFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sample(rapid.IntRange(0, 40).Draw(t, "upstreams"))
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z东京🚰 ]{0,90}`))
		for i := range s.Upstreams {
			s.Upstreams[i].Label = name.Draw(t, "name")
		}
		s.Models[0].ID = name.Draw(t, "model")
		s.Judge(nil)
		v := newView(s)
		for _, k := range rapid.SliceOfN(rapid.SampledFrom([]key{'1', '2', '3', '4', '5', '6', '7', 's', 'r', '/', 'g', '-', keyEnter, keyErase, keyDown, keyUp, keyPageDown, keyEnd, keyHome, '?', ' ', '\t', keyUnknown}), 0, 12).Draw(t, "keys") {
			v.press(k)
			if rapid.Bool().Draw(t, "fails") {
				v.show(nil, errors.New("nobody\x1b[2J answers"))
			}
			width, height := rapid.IntRange(1, 180).Draw(t, "width"), rapid.IntRange(1, 60).Draw(t, "height")
			frame := v.frame(width, height)
			if len(frame) != height {
				t.Fatalf("%d lines for %d", len(frame), height)
			}
			for _, l := range frame {
				if plaintext.Width(l.text) > width || l.text != plaintext.Line(l.text) {
					t.Fatalf("a line of %d in a terminal of %d: %q", plaintext.Width(l.text), width, l.text)
				}
			}
		}
	})
}

func textOf(frame []line) string {
	var all []string
	for _, l := range frame {
		all = append(all, strings.TrimRight(l.text, " "))
	}
	return strings.Join(all, "\n")
}

// TestTroubleFirst: in a small window the sentence stands on top, then what is in trouble; the rest is told in one line.
func TestTroubleFirst(t *testing.T) {
	v := newView(sample(50))
	v.press('2')
	text := textOf(v.frame(80, 24))
	lines := strings.Split(text, "\n")
	if !strings.HasPrefix(lines[0], "Penstock  Out: no engine serves embed.") {
		t.Errorf("the sentence is not on top:\n%s", text)
	}
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "UPSTREAM") })
	if at < 0 || !strings.HasPrefix(lines[at+1], "> gpu-07") {
		t.Errorf("what is down is not the first row:\n%s", text)
	}
	for _, want := range []string{"of 50, ", "more below", "gpu-07 is down for 1 min (no connection)", "[2 Upstreams 50 (1!)]", "q quit"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q:\n%s", want, text)
		}
	}
	narrow := textOf(v.frame(40, 24))
	for _, want := range []string{"> gpu-07", "down 1 min", "q quit", "1 [2 Upstreams 50 (1!)] 3"} {
		if !strings.Contains(narrow, want) {
			t.Errorf("no %q in 40 columns:\n%s", want, narrow)
		}
	}
	wide := textOf(v.frame(150, 24))
	if !strings.Contains(wide, "ENGINE") || strings.Contains(narrow, "ENGINE") {
		t.Errorf("a wide window does not show more:\n%s", wide)
	}
	idle := sample(50)
	idle.Models = idle.Models[:1]
	for i := range idle.Upstreams {
		idle.Upstreams[i].History.Ended = 0
	}
	v = newView(idle)
	v.press('2')
	if text := textOf(v.frame(80, 24)); !strings.Contains(text, "more below, all idle") {
		t.Errorf("it is not told that the rest is idle:\n%s", text)
	}
}

// TestColumnsStandInLine: a name of wide characters moves no column.
func TestColumnsStandInLine(t *testing.T) {
	v := newView(sample(3))
	var at []int
	for _, l := range v.frame(100, 24) {
		if i := strings.Index(l.text, "served"); i >= 0 && strings.Contains(l.text, "/8") {
			at = append(at, plaintext.Width(l.text[:i]))
		}
	}
	if len(at) != 3 || at[0] != at[1] || at[1] != at[2] {
		t.Errorf("the states stand at %v:\n%s", at, textOf(v.frame(100, 24)))
	}
}

// first is the first column of the rows on the screen.
func first(v *view, width, height int) (names []string) {
	text := textOf(v.frame(width, height))
	_, l := v.current()
	for i, r := range v.rows() {
		if i >= l.top && strings.Contains(text, " "+r.Cells[0].Text) {
			names = append(names, r.Cells[0].Text)
		}
	}
	return names
}

func TestSort(t *testing.T) {
	v := newView(sample(12))
	v.press('2')
	v.frame(150, 60)
	_, l := v.current()
	titles := map[int]string{}
	for i, c := range v.tables[1].Columns {
		titles[i] = c.Title
	}
	v.press('s')
	if got := first(v, 150, 60); titles[l.sort] != "UPSTREAM" || !slices.IsSorted(got) || len(got) != 12 {
		t.Errorf("by name: %v", got)
	}
	if text := textOf(v.frame(150, 60)); !strings.Contains(text, "UPSTREAM▲") {
		t.Errorf("no mark:\n%s", text)
	}
	v.press('r')
	if got := first(v, 150, 60); got[0] != "gpu-11" || !strings.Contains(textOf(v.frame(150, 60)), "UPSTREAM▼") {
		t.Errorf("turned round: %v", got)
	}
	for titles[l.sort] != "CALLS 5m" {
		v.press(keyRight)
	}
	if got := v.rows(); got[0].Cells[l.sort].Text != "11" || got[11].Cells[l.sort].Text != "0" {
		t.Errorf("by calls, 11 is not before 9: %v", got)
	}
	if !strings.Contains(textOf(v.frame(150, 60)), "CALLS 5▼") && !strings.Contains(textOf(v.frame(150, 60)), "CALLS 5m▼") {
		t.Errorf("no mark:\n%s", textOf(v.frame(150, 60)))
	}
	for range len(v.tables[1].Columns) {
		v.press('S')
		if l.sort == unsorted {
			break
		}
	}
	if got := first(v, 150, 60); l.sort != unsorted || got[0] != "gpu-07" {
		t.Errorf("beyond the first column trouble does not come first: %v", got)
	}
	v.press('S')
	if titles[l.sort] != "CACHED 5m" {
		t.Errorf("before the first one is the last column, not %q", titles[l.sort])
	}
}

// TestChoice: the choice stays on its row while the state changes and rows move; without a choice it is the worst row.
func TestChoice(t *testing.T) {
	v := newView(sample(30))
	v.press('2')
	chosen := func() string {
		v.frame(80, 20)
		_, l := v.current()
		return v.rows()[l.at].ID
	}
	if got := chosen(); got != "gpu-07" {
		t.Errorf("at first %s", got)
	}
	v.press(keyDown)
	v.press('j')
	was := chosen()
	next := sample(30)
	next.Upstreams[3].State = "stalled" // it moves up
	next.Judge(nil)
	v.show(next, nil)
	if got := chosen(); got != was || was == "gpu-07" {
		t.Errorf("the choice was %s and is %s", was, got)
	}
	v.press(keyEnd)
	_, l := v.current()
	if got := chosen(); l.at != 29 || !strings.Contains(textOf(v.frame(80, 20)), "> "+got) {
		t.Errorf("the last row is not on the screen:\n%s", textOf(v.frame(80, 20)))
	}
	v.press(keyPageUp)
	if chosen(); l.at >= 29 || l.at < 29-20 {
		t.Errorf("a page up is row %d", l.at)
	}
	v.press(keyHome)
	if got := chosen(); got != "gpu-03" && got != "gpu-07" {
		t.Errorf("home is %s", got)
	}
	v.press('G')
	v.show(sample(5), nil) // the row is gone
	if chosen(); l.at != 4 {
		t.Errorf("the choice is at %d of 5 rows", l.at)
	}
}

func TestFilter(t *testing.T) {
	v := newView(sample(30))
	for _, k := range "2/GPU-1" {
		v.press(key(k))
	}
	if got := first(v, 80, 40); len(got) != 10 || got[0] != "gpu-10" {
		t.Errorf("%v", got)
	}
	v.press('q') // is typed, and quits nothing
	if text := textOf(v.frame(80, 40)); !strings.Contains(text, "nothing passes") || !strings.Contains(text, "/GPU-1q") {
		t.Errorf("%s", text)
	}
	v.press(keyErase)
	v.press(keyEnter)
	if text := textOf(v.frame(80, 40)); !strings.Contains(text, "filter: GPU-1 (10 of 30)") {
		t.Errorf("%s", text)
	}
	v.press('/')
	if v.press(keyEscape) {
		t.Error("an escape within the filter quits")
	}
	if got := first(v, 80, 50); len(got) != 30 {
		t.Errorf("the filter was not dropped: %v", got)
	}
	if !v.press(keyEscape) || !v.press('q') || !v.press(keyCtrlC) {
		t.Error("it does not quit")
	}
}

func TestDetails(t *testing.T) {
	v := newView(sample(10))
	for keys, want := range map[string]string{
		"1": "no engine serves it", "2": "http://10.0.0.7:8000", "3j": "gpu-07 failed after", "4": "refused 9 times in 5 min, mostly by requests_per_minute",
		"5": "limit of the key: requests_per_minute", "6": "the edge has started", "7": "edge-1",
	} {
		for _, k := range keys {
			v.press(key(k))
		}
		if text := textOf(v.frame(100, 40)); !strings.Contains(text, want) {
			t.Errorf("%s: no %q\n%s", keys, want, text)
		}
	}
}

func TestParse(t *testing.T) {
	for typed, want := range map[string][]key{
		"q": {'q'}, "\x03": {keyCtrlC}, "\r": {keyEnter}, "\x7f\b": {keyErase, keyErase}, "\x1b[A\x1b[B": {keyUp, keyDown},
		"\x1bOC": {keyRight}, "\x1b[5~x": {keyPageUp, 'x'}, "\x1b[1;5A": {keyUnknown}, "东": {'东'}, "\x1bq": {keyEscape, 'q'}, "\xff": {0xfffd},
	} {
		if keys, rest := parse([]byte(typed)); !slices.Equal(keys, want) || len(rest) > 0 {
			t.Errorf("%q: %v, rest %q", typed, keys, rest)
		}
	}
	rapid.Check(t, func(t *rapid.T) { // in pieces it is the same
		typed := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"q", "\x1b[A", "\x1bOB", "\x1b[15~", "东", "\x1b[6~"})).Draw(t, "typed"), "")
		whole, _ := parse([]byte(typed))
		var keys []key
		var rest []byte
		for i := range len(typed) {
			var some []key
			some, rest = parse(append(rest, typed[i]))
			keys = append(keys, some...)
		}
		if !slices.Equal(keys, whole) || len(rest) > 0 {
			t.Fatalf("%q: %v in pieces, %v whole", typed, keys, whole)
		}
	})
}
