package faults

import (
	"slices"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestFault71_UpstreamRemoved checks that a removed upstream receives no new calls, finishes its
// running calls, and is no longer probed. If the upstream is added again, it must still have its
// old state.
func TestFault71_UpstreamRemoved(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Forgets: true, Engines: []sim.Options{{}, {}}, Upstream: "probe: { interval: 500ms }"})
	var held []*rig.Stream
	for range 6 {
		s := e.OpenStream(rig.Chat.Path, rig.ChatStream.RequestBody("sim", rig.Prompt, `"tokens":100,"delay_ms":100`))
		s.Next()
		held = append(held, s)
	}
	leaving := e.Engines[1]
	rig.WaitFor(t, rig.WaitTimeout, "both work", func() bool { return leaving.Stats().Running > 0 && e.Engines[0].Stats().Running > 0 })
	e.rewrite(", { upstream: up-1 }]", "]")
	e.rewrite("  - { name: up-1,", "  #")
	if r, status := e.askReload(""); status != 200 || len(r.Capacity) != 1 || r.Capacity[0].Draining != 1 {
		t.Fatalf("reload = %d %+v, want 200 and one draining upstream", status, r)
	}
	requests := leaving.Stats().Requests
	states := map[string]string{}
	for _, u := range e.Status().Upstreams {
		states[u.Name] = u.State
	}
	if states["up-1"] != "retiring" {
		t.Errorf("the states are %v", states)
	}
	for range 20 {
		e.SendRequest(rig.Chat, `"tokens":1`).WantStatus(200)
	}
	for i, s := range held {
		if !isCompleteStream(s) {
			t.Errorf("stream %d was cut", i)
		}
	}
	if n := leaving.Stats().Requests; n != requests {
		t.Errorf("it got %d more calls", n-requests)
	}
	rig.WaitFor(t, rig.WaitTimeout, "it is gone", func() bool {
		return !slices.ContainsFunc(e.Status().Upstreams, func(u rig.UpstreamState) bool { return u.Name == "up-1" })
	})
	for name := range e.Metrics() {
		if strings.Contains(name, `upstream="up-1"`) {
			t.Errorf("a series is left: %s", name)
		}
	}
	probes := leaving.Stats().Probes
	time.Sleep(time.Second)
	if n := leaving.Stats().Probes; n != probes {
		t.Errorf("it was probed %d times more", n-probes)
	}
}

// TestFault71_Added checks that an added upstream is probed before it receives a call. A dead
// engine must receive no calls.
func TestFault71_Added(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Engines: []sim.Options{{}, {}}, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: a, url: "{{up-0}}", engine: sim }]
models: [{ id: sim, policy: round_robin, deployments: [{ upstream: a }] }]
`})
	e.rewrite("upstreams: [", `upstreams: [{ name: b, url: "`+e.Engines[1].URL()+`", engine: sim }, { name: dead, url: "http://127.0.0.1:9", engine: sim }, `)
	e.rewrite("deployments: [", "deployments: [{ upstream: b }, { upstream: dead }, ")
	if r, status := e.askReload(""); status != 200 {
		t.Fatalf("reload = %d %+v, want 200", status, r)
	}
	if e.Engines[1].Stats().Probes == 0 {
		t.Error("the new upstream was not probed")
	}
	for range 30 {
		e.SendRequest(rig.Chat, `"tokens":1`).WantStatus(200)
	}
	if e.Engines[1].Stats().Requests == 0 {
		t.Error("the new upstream got no call")
	}
	for _, l := range e.AccessLinesWhenIdle() {
		if l.Attempts != 1 {
			t.Errorf("a call was sent to the dead one: %+v", l)
		}
	}
}

// TestFault71_StateCarriesOver checks that an upstream, a key and a model with unchanged names keep
// their state across a reload.
func TestFault71_StateCarriesOver(t *testing.T) {
	t.Parallel()
	t.Run("in-flight", func(t *testing.T) {
		t.Parallel()
		e := start(t, rig.Setup{Upstream: "concurrency: 2"})
		var held []*rig.Stream
		for range 2 {
			s := e.OpenStream(rig.Chat.Path, rig.ChatStream.RequestBody("sim", rig.Prompt, `"tokens":100,"delay_ms":100`))
			s.Next()
			held = append(held, s)
		}
		e.apply("id: sim,", "id: sim, policy: two_choices,")
		e.SendRequest(rig.Chat, "").WantStatus(429) // both slots are still in use
		for _, s := range held {
			if !isCompleteStream(s) {
				t.Error("a stream was cut")
			}
		}
		e.SendRequest(rig.Chat, "").WantStatus(200)
	})
	t.Run("health", func(t *testing.T) {
		t.Parallel()
		e := start(t, rig.Setup{Engines: []sim.Options{{}, {}}})
		e.Engines[1].Close()
		rig.WaitFor(t, rig.WaitTimeout, "it is down", func() bool {
			e.SendRequest(rig.Chat, `"tokens":1`).WantStatus(200)
			return e.Upstream("up-1").State == "down"
		})
		e.apply("id: sim,", "id: sim, policy: round_robin,")
		if state := e.Upstream("up-1").State; state != "down" {
			t.Errorf("after the reload it is %s", state)
		}
		before := len(e.AccessLines())
		for range 20 {
			e.SendRequest(rig.Chat, `"tokens":1`).WantStatus(200)
		}
		rig.WaitFor(t, rig.WaitTimeout, "the log", func() bool { return len(e.AccessLines()) >= before+20 })
		for _, l := range e.AccessLines()[before:] {
			if l.Attempts != 1 {
				t.Errorf("a call was sent to the one that is down: %+v", l)
			}
		}
	})
	t.Run("breaker", func(t *testing.T) {
		t.Parallel()
		e := start(t, rig.Setup{})
		e.Engines[0].SetFault(sim.Fault{Spec: "status=500", Path: "/v1/chat"})
		rig.WaitFor(t, rig.WaitTimeout, "the breaker opens", func() bool {
			e.SendRequest(rig.Chat, `"tokens":1`)
			return e.Upstream("up-0").Breaker == "open"
		})
		e.apply("id: sim,", "id: sim, policy: round_robin,")
		if b := e.Upstream("up-0").Breaker; b == "closed" {
			t.Error("the reload has closed the breaker")
		}
		e.Engines[0].SetFault(sim.Fault{})
	})
	t.Run("limits of a key", func(t *testing.T) {
		t.Parallel()
		e := start(t, rig.Setup{Key: ", limits: { requests_per_minute: 3 }"[2:]})
		for range 3 {
			e.SendRequest(rig.Chat, `"tokens":1`).WantStatus(200)
		}
		e.SendRequest(rig.Chat, "").WantStatus(429)
		e.apply("id: sim,", "id: sim, policy: round_robin,")
		e.SendRequest(rig.Chat, "").WantStatus(429)
	})
}

// TestFault72_LimitLowered checks a lowered limit. Calls that now exceed the limit must still
// finish, no call may be admitted above it, and the catalog must never show a negative number.
func TestFault72_LimitLowered(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{Upstream: "concurrency: 6"})
	var held []*rig.Stream
	for range 6 {
		s := e.OpenStream(rig.Chat.Path, rig.ChatStream.RequestBody("sim", rig.Prompt, `"tokens":100,"delay_ms":100`))
		s.Next()
		held = append(held, s)
	}
	e.rewrite("concurrency: 6", "concurrency: 2")
	if r, status := e.askReload(""); status != 200 || len(r.Capacity) != 1 || r.Capacity[0].Before != 6 || r.Capacity[0].After != 2 {
		t.Fatalf("reload = %d %+v, want 200 and a capacity from 6 to 2", status, r)
	}
	rig.WaitFor(t, rig.WaitTimeout, "the catalog knows", func() bool { return e.Catalog()[0].Capacity.Total == 2 })
	if c := e.Catalog()[0].Capacity; c.Active != 6 || c.Available != 0 {
		t.Errorf("the catalog shows %+v", c)
	}
	e.SendRequest(rig.Chat, "").WantStatus(429)
	for range 4 {
		held[0].Disconnect()
		held = held[1:]
	}
	rig.WaitFor(t, rig.WaitTimeout, "four have left", func() bool { return e.Upstream("up-0").Pools[0].Active == 2 })
	e.SendRequest(rig.Chat, "").WantStatus(429) // two calls are running, and there are only two slots
	for _, s := range held {
		if !isCompleteStream(s) {
			t.Error("a stream was cut")
		}
	}
	e.SendRequest(rig.Chat, "").WantStatus(200)
}
