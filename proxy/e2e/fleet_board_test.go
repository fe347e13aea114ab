package e2e

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
	"penstock/proxy/fleet"
	"penstock/proxy/operate/status"
)

// twoEdges starts two edges that share a configuration, an engine and a store. If the store
// responds late, it counts as lost, and each edge uses only its share of the slots. Tests that
// count slots are therefore not parallel.
func twoEdges(t *testing.T, upstream, model string) (engine *sim.Engine, a, b *penstock) {
	t.Helper()
	engine = start(t, rig.Setup{}).Engines[0] // a separate edge, used only for its engine
	config := fmt.Sprintf(`
auth: none
fleet: { edges: 2, store: { url: "redis://%s", timeout: 1s }, secrets: [0123456789abcdef0123456789abcdef] }
upstreams: [{ name: gpu, url: %q, %s }]
models: [{ id: sim, %s deployments: [{ upstream: gpu }] }]
admin: { token: %s }
`, miniredis.RunT(t).Addr(), engine.URL(), upstream, model, rig.AdminToken)
	a, b = start(t, rig.Setup{Config: config, Engines: []sim.Options{}}), start(t, rig.Setup{Config: config, Engines: []sim.Options{}})
	for _, edge := range []*penstock{a, b} {
		rig.WaitFor(t, rig.WaitTimeout, "the edges know of each other's work", func() bool { return edge.Metric("penstock_fleet_board_edges") == 2 })
	}
	return engine, a, b
}

// TestFleetBoard checks that the edges of a fleet share all slots of an engine and report the same
// capacity. An upstream mode set at one edge must apply at all edges.
func TestFleetBoard(t *testing.T) {
	_, a, b := twoEdges(t, "concurrency: 5", "")
	both := func(what string, holds func(edge *penstock) bool) {
		t.Helper()
		rig.WaitFor(t, rig.WaitTimeout, what, func() bool { return holds(a) && holds(b) })
	}
	capacity := func(active int) func(*penstock) bool {
		return func(edge *penstock) bool {
			c := edge.catalog("sim").Capacity
			return c.Total == 5 && c.Active == active && c.Available == 5-active
		}
	}
	both("the catalog tells the fleet's slots", capacity(0))
	const link = `<a href="/usage?fleet=true">`
	if page, err := io.ReadAll(a.adminDo("GET", "/", "", rig.AdminToken).Body); err != nil || !strings.Contains(string(page), link) {
		t.Errorf("the status page has no way to the fleet's usage: %v", err)
	}
	members := func(edge *penstock, right func(m fleet.Member) bool) bool {
		s := edge.Status().Fleet
		return s != nil && len(s.Members) == 2 && !slices.ContainsFunc(s.Members, func(m fleet.Member) bool { return !right(m) })
	}
	both("each tells how both are", func(edge *penstock) bool {
		return members(edge, func(m fleet.Member) bool {
			return m.Level == status.LevelOK && m.Generation == 1 && strings.HasPrefix(m.Verdict, "Healthy: ")
		})
	})
	both("each names both by the ports of their APIs", func(edge *penstock) bool {
		other := map[*penstock]*penstock{a: b, b: a}[edge]
		return members(edge, func(m fleet.Member) bool {
			at := edge.URL
			if !m.Self {
				at = other.URL
			}
			return strings.HasSuffix(m.Name, at[strings.LastIndexByte(at, ':'):])
		})
	})
	release := a.hold(4, a.ChatRequest(endlessStream)) // more than half of the slots
	both("each tells whose calls run", func(edge *penstock) bool {
		return members(edge, func(m fleet.Member) bool { return m.InFlight == 4 == (m.Self == (edge == a)) })
	})
	both("the catalog tells the fleet's calls", capacity(4))
	more := b.hold(1, b.ChatRequest(endlessStream))
	both("the catalog tells the calls of both", capacity(5))
	for _, edge := range []*penstock{a, b} {
		edge.Post(chatPath, edge.ChatRequest("")).WantStatus(429)
	}
	release()
	more()
	both("the slots are free at both", capacity(0))
	if res := a.adminDo("POST", "/-/mode", `{"upstream":"gpu","mode":"drain","who":"ann"}`, rig.AdminToken); res.StatusCode != 200 {
		t.Fatal(res.StatusCode)
	}
	both("both are drained", func(edge *penstock) bool { u := edge.Upstream("gpu"); return u.Mode == "drain" })
	both("each tells that both are in trouble, and how many calls have ended", func(edge *penstock) bool {
		return members(edge, func(m fleet.Member) bool { return m.Level != status.LevelOK && m.Verdict != "" && m.Calls > 0 })
	})
	if u := b.Upstream("gpu"); u.ModeWho != "ann" {
		t.Errorf("%q has asked for it", u.ModeWho)
	}
	b.Post(chatPath, b.ChatRequest("")).WantStatus(503)
	if res := b.adminDo("POST", "/-/mode", `{"upstream":"gpu","mode":"ready"}`, rig.AdminToken); res.StatusCode != 200 {
		t.Fatal(res.StatusCode)
	}
	both("both are back", func(edge *penstock) bool { return edge.Upstream("gpu").Mode == "ready" })
	a.Post(chatPath, a.ChatRequest("")).WantStatus(200)
}

// TestExactSlots checks that two edges never have more calls at an engine than the engine has
// slots. One edge must be able to use a slot released by the other edge.
func TestExactSlots(t *testing.T) {
	_, a, b := twoEdges(t, "concurrency: { shared: 4, fleet: exact }", "")
	release := a.hold(3, a.ChatRequest(endlessStream))
	// must start immediately, regardless of what the load board in the store contains
	more := b.hold(1, b.ChatRequest(endlessStream))
	for _, edge := range []*penstock{a, b} {
		edge.Post(chatPath, edge.ChatRequest("")).WantStatus(429)
	}
	release()
	rig.WaitFor(t, rig.WaitTimeout, "a knows that its calls have ended", func() bool { return a.catalog("sim").Capacity.Active == 1 })
	rig.WaitFor(t, rig.WaitTimeout, "the slots are told to be free", func() bool { return b.catalog("sim").Capacity.Active == 1 })
	all := b.hold(3, b.ChatRequest(endlessStream))
	b.Post(chatPath, b.ChatRequest("")).WantStatus(429)
	a.Post(chatPath, a.ChatRequest("")).WantStatus(429)
	all()
	more()
	b.WaitIdle()
	a.Post(chatPath, a.ChatRequest("")).WantStatus(200)
}

// TestTurnsAtAnEngine checks that an edge does not reserve released slots for its own waiting
// calls. Calls waiting at another edge must also get a slot.
func TestTurnsAtAnEngine(t *testing.T) {
	engine, a, b := twoEdges(t, "concurrency: { shared: 2, fleet: exact }", "queue: { depth: 16, wait: 10m },")
	const short = `"sim":{"tokens":1,"ttft_ms":50}`
	stop, ended := make(chan struct{}), make(chan int, 6)
	end := sync.OnceFunc(func() { close(stop) })
	defer end()
	const clients = 6
	for range clients {
		go func() { // enough calls to fill both slots and a queue
			n := 0
			defer func() { ended <- n }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if a.Post(chatPath, a.ChatRequest(short)).Status != 200 {
					return
				}
				n++
			}
		}()
	}
	rig.WaitFor(t, rig.WaitTimeout, "calls wait at a", func() bool { return a.Metric("penstock_model_queue_waiting") > 0 })
	for range 5 {
		b.Post(chatPath, b.ChatRequest(short)).WantStatus(200)
	}
	end()
	for range clients {
		if n := <-ended; n == 0 {
			t.Error("a client of a got nothing")
		}
	}
	if peak := engine.Stats().Peak; peak > 2 {
		t.Errorf("%d calls at once in two slots", peak)
	}
}
