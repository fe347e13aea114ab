package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
	"penstock/proxy/e2e/rig"
)

// TestReturningEngineGetsCalls checks that, after recovering, one of two equal engines receives its
// share of the calls again, with one client and with eight clients.
func TestReturningEngineGetsCalls(t *testing.T) {
	fastset.SkipIfShort(t, "an engine that is lost under load")
	for _, clients := range []int{1, 8} {
		t.Run(fmt.Sprint(clients, " at a time"), func(t *testing.T) {
			t.Parallel()
			engine := sim.Options{Slots: 16, PrefillRate: 5000, TokenRate: 500, Latency: 20 * time.Millisecond}
			p := start(t, rig.Setup{Engines: []sim.Options{engine, engine}, Upstream: "probe: { interval: 500ms }"})
			n := 0
			calls := func(rounds int) (first, all int64) {
				before, others := p.Engines[0].Stats().Completed, p.Engines[1].Stats().Completed
				for range rounds {
					var round sync.WaitGroup
					for range clients {
						n++
						body := rig.ChatBody("sim", fmt.Sprintf(`"max_tokens":8,"stream":true,"user":"u%d"`, n))
						round.Go(func() { p.Post(chatPath, body).WantStatus(200) })
					}
					round.Wait()
				}
				first = p.Engines[0].Stats().Completed - before
				return first, first + p.Engines[1].Stats().Completed - others
			}
			calls(40)
			p.Engines[0].Unlisten()
			p.Engines[0].DropConns(1, true)
			rig.WaitFor(t, rig.WaitTimeout, "it is down", func() bool { return p.Upstream("up-0").State == "down" })
			calls(40)
			if err := p.Engines[0].Relisten(); err != nil {
				t.Fatal(err)
			}
			rig.WaitFor(t, rig.WaitTimeout, "it is up", func() bool { return p.Upstream("up-0").State == "up" })
			watch := rig.StartWatch()
			for first, all := calls(20); 4*first < all; first, all = calls(20) {
				// This usually takes about four seconds.
				if took := watch.Elapsed(); took > 30*time.Second+watch.MachineDelay() {
					t.Fatalf("%d of %d calls after %v", first, all, took)
				}
			}
		})
	}
}
