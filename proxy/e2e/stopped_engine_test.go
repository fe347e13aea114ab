//go:build unix

package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
	"penstock/proxy/e2e/rig"
)

// startFreezable starts a simulated engine in a separate process, so that it can be suspended.
func startFreezable(t *testing.T) (url string, engine *rig.Process) {
	engine = rig.StartProcess(t, "sim", "--listen=127.0.0.1:0", "--latency=1h")
	t.Cleanup(func() { engine.Signal(syscall.SIGCONT) })
	return engine.WaitOutput(`(http://127\.0\.0\.1:\d+)`)[1], engine
}

// TestStoppedEngine suspends an engine's process. The kernel still accepts connections for it. If
// the suspended engine is the only engine, it must be down within a minute after its last response,
// and its calls must end. If another engine is working, new calls must go to that engine, and the
// calls of the suspended engine must move there after half a minute of silence.
func TestStoppedEngine(t *testing.T) {
	fastset.SkipIfShort(t, "an engine that is stopped for a minute")
	for _, k := range workKinds {
		if k.name == "image" {
			continue // the simulator does not serve images
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			url, engine := startFreezable(t)
			s := rig.Setup{Fakes: []string{url}, Model: k.kind, Upstream: "concurrency: 2, probe: { interval: 500ms, timeout: 500ms }", Untidy: true}
			alone := start(t, s)
			s.Engines = []sim.Options{{}}
			both := start(t, s)
			both.Engines[0].SetSlots(0) // the first call goes to the other engine or waits
			held := make(chan *rig.Reply)
			for _, p := range []*penstock{alone, both, both} {
				go func() { held <- k.ask(p) }()
			}
			rig.WaitFor(t, rig.WaitTimeout, "each has its call", func() bool { return alone.Status().InFlight == 1 && both.Status().InFlight == 2 })
			both.Engines[0].SetSlots(16)
			(<-held).WantStatus(200)
			engine.Signal(syscall.SIGSTOP)
			at := time.Now()
			stopped := func(p *penstock) string { return p.Upstream("fake-0").State }
			rig.WaitFor(t, rig.WaitTimeout, "it is busy", func() bool { return stopped(alone) == "busy" && stopped(both) == "busy" })
			k.ask(alone).WantStatus(429)
			for range 5 {
				k.ask(both).WantStatus(200).WantWithin(5 * time.Second)
			}
			rig.WaitFor(t, 90*time.Second, "its call goes to the good engine", func() bool {
				return both.Metric("penstock_calls_moved_total", `reason="stalled"`) == 1
			})
			took := rig.WaitFor(t, 90*time.Second, "it is down", func() bool { return stopped(alone) == "down" && stopped(both) == "down" })
			if d := time.Since(at); d < 30*time.Second {
				t.Errorf("down %v after the stop, %v after it was busy", d, took)
			}
			// A call without output moves to the good engine. If there is no other engine, the call
			// fails.
			failed := 0
			for range 2 {
				// the stream's status, 200, has already been sent
				if r := <-held; strings.Contains(r.Body, "upstream_unreachable") {
					failed++
				} else {
					r.WantStatus(200)
				}
			}
			if failed != 1 {
				t.Errorf("%d of the stopped engine's calls failed", failed)
			}
			k.ask(alone).WantStatus(map[bool]int{true: 529, false: 503}[strings.HasSuffix(k.path, "messages")])
			engine.Signal(syscall.SIGCONT)
			rig.WaitFor(t, 30*time.Second, "it is back", func() bool { return stopped(alone) == "up" && stopped(both) == "up" })
			engine.Signal(syscall.SIGKILL)
		})
	}
}
