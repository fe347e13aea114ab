package status

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"penstock/proxy/telemetry/observe"
	"penstock/upstreams"
)

// TestStateWatch checks that each change between two checks is reported once, with its duration and
// count.
func TestStateWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, w := newDesk(), new(StateWatch)
		state, breaker, mode, active, reload := "up", "closed", "ready", 0, (*Reload)(nil)
		ready := true
		look := func() *Status {
			d.models[1].Ready = ready
			s := &Status{Now: time.Now(), Models: append([]Model{}, d.models...), LastReload: reload, Upstreams: []Upstream{{
				Status: upstreams.Status{
					Name: "tgi-1", Label: "tgi-1", State: state, Breaker: breaker, Mode: mode, Pools: []upstreams.PoolStatus{{Pool: "text", Active: active}},
					LastFailure: &upstreams.LastFailure{During: "call", Reason: "truncated"},
				}, ModeWho: "ann",
			}}}
			s.addCallSummary(d.calls.Summary(s.Now))
			s.SetVerdict(w)
			return s
		}
		run := func(seconds int) (s *Status) {
			for range seconds {
				s = look()
				time.Sleep(time.Second)
			}
			return s
		}
		run(10)
		state, ready = "down", false
		run(30)
		state, ready = "up", true
		run(60)
		state = "down"
		run(10)
		state, breaker = "up", "open"
		run(5)
		breaker = "half-open"
		run(5)
		breaker = "closed"
		run(5)
		mode, active = "drain", 2
		run(5)
		active = 0
		run(60)
		mode = "ready"
		for range 5 {
			d.endCall("qwen", "tgi-1", breakStream)
		}
		if s := run(30); s.Models[0].TroubleSeconds != 29 || !strings.Contains(s.Verdict.Text, ", for 29 s") {
			t.Errorf("the trouble has lasted for %v s: %s", s.Models[0].TroubleSeconds, s.Verdict.Text)
		}
		reload = &Reload{At: time.Now(), OK: true, Version: 4}
		s := run(120)
		var got []string
		for i := len(s.Events) - 1; i >= 0; i-- {
			got = append(got, strings.TrimSpace(s.Events[i].Who+" "+s.Events[i].Text))
		}
		want := []string{
			"the edge has started",
			"tgi-1 is down: answer cut off", "gemma is out: no engine serves it",
			"tgi-1 is up again after 30 s", "gemma is served again after 30 s",
			"tgi-1 is down: answer cut off", "tgi-1 is up again after 10 s",
			"tgi-1 fails its calls (answer cut off): its breaker opens", "tgi-1 serves its calls again: its breaker closes after 10 s",
			"tgi-1 goes into drain by ann", "tgi-1 is drained: no call is left", "tgi-1 takes calls again after 1 min of drain",
			"qwen fails 100 % of its calls (5 of 5 in the last minute), all on tgi-1 (answer cut off)",
			"configuration #4 is in force",
		}
		for i := range max(len(got), len(want)) {
			if i >= len(want) && strings.HasPrefix(got[i], "qwen has recovered after ") {
				continue
			}
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("event %d:\n%s\nwant\n%s", i, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		if len(got) != len(want)+1 {
			t.Errorf("nobody says that the trouble of qwen is over:\n%s", strings.Join(got, "\n"))
		}
		if h := s.Upstreams[0].Hour; h.Downs != 2 || h.DownSeconds < 38 || h.DownSeconds > 42 {
			t.Errorf("down %d times, %v s", h.Downs, h.DownSeconds)
		}
		time.Sleep(time.Hour)
		if h := look().Upstreams[0].Hour; h.Downs != 0 || len(h.Failed) != hourMinutes {
			t.Errorf("an hour later: %+v", h)
		}
	})
}

// TestStateWatchIsBounded checks that many different models or events do not exceed the documented
// memory limit.
func TestStateWatchIsBounded(t *testing.T) {
	w, at := new(StateWatch), now
	for i := range 3 * maxListedEvents {
		at = at.Add(time.Second)
		s := &Status{Now: at, Models: []Model{{ID: fmt.Sprint("m", i), Ready: true}}, Upstreams: []Upstream{{Status: upstreams.Status{
			Label: "u", Mode: "ready", Breaker: "closed", State: []string{"up", "down"}[i%2],
		}}}}
		s.SetVerdict(w)
		if i == 3*maxListedEvents-1 && len(s.Events) != maxListedEvents {
			t.Errorf("%d events, want %d", len(s.Events), maxListedEvents)
		}
	}
	if len(w.models) != 1 || len(w.upstreams) != 1 {
		t.Errorf("%d models, %d upstreams", len(w.models), len(w.upstreams))
	}
}

// TestRowsByTrouble checks that rows with a problem come first, that idle rows can be folded, and
// that the order stays the same if only numbers change.
func TestRowsByTrouble(t *testing.T) {
	up := func(name, state, mode string, ended int) Upstream {
		return Upstream{Status: upstreams.Status{Label: name, State: state, Mode: mode, Breaker: "closed"}, History: observe.History{Ended: ended}}
	}
	s := &Status{
		Upstreams: []Upstream{up("idle", "up", "ready", 0), up("busy", "up", "ready", 1), up("busier", "up", "ready", 9), up("held", "up", "drain", 0), up("dead", "down", "ready", 0)},
		Models:    []Model{{ID: "idle", Ready: true, State: ModelServed}, {ID: "bad", Ready: true, State: ModelDegraded}, {ID: "failing", Ready: true, State: ModelFailing}, {ID: "out", State: ModelOut}},
		Keys:      []Key{{ID: "idle"}, {ID: "busy", InFlight: 1}, {ID: "refused", Refused: 1}},
	}
	var got []string
	for _, u := range s.UpstreamRows() {
		got = append(got, fmt.Sprint(u.Label, u.Idle()))
	}
	for _, m := range s.ModelRows() {
		got = append(got, fmt.Sprint(m.ID, m.Idle()))
	}
	for _, k := range s.KeyRows() {
		got = append(got, fmt.Sprint(k.ID, k.Idle()))
	}
	if text := strings.Join(got, " "); text != "deadfalse heldfalse busyfalse busierfalse idletrue outfalse failingfalse badfalse idletrue refusedfalse busyfalse idletrue" {
		t.Error(text)
	}
}

// TestCallPage checks that a call's page lists the attempts with reasons and times, and that a call
// that is no longer stored has no page.
func TestCallPage(t *testing.T) {
	s := sample()
	s.Calls[2].Failed = []Attempt{{Upstream: "gpu-a", Cause: "status", EngineStatus: 500, After: 12, Took: 345}, {Upstream: "gpu-<b>", Cause: "first_event_timeout", After: 400, Took: 2000}}
	s.Calls[2].Class = "batch<b>"
	body, err := s.CallPage("req_failed")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"req_failed", "✕ 502", "<b>status 500</b>", "Its own log says why.", "asked 12 ms after the call began, took 345 ms", "gpu-&lt;b&gt;", "<b>first_event_timeout</b>", "class batch&lt;b&gt;<"} {
		if !strings.Contains(string(body), want) {
			t.Errorf("the page lacks %q:\n%s", want, body)
		}
	}
	if body, err = s.CallPage("req_done"); err != nil || !strings.Contains(string(body), "gpu-a</a> answered") {
		t.Errorf("page of req_done: %v, want the answer of gpu-a: %s", err, body)
	}
	if body, err = s.CallPage("req_unknown"); err != nil || body != nil {
		t.Errorf("page of req_unknown: %v, want none: %s", err, body)
	}
}
