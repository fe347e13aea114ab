package upstreams

import (
	"testing"
	"testing/synctest"
	"time"

	"penstock/config"
)

// TestHandover checks that ShouldHandOverCalls returns true once an upstream has got no new calls for
// the drain time. The upstream may be in drain or maintenance, or was removed from the
// configuration file. If the upstream gets calls again, the running calls stay.
func TestHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := NewSet(Options{DrainTime: func() time.Duration { return time.Minute }})
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.PlanChanges([]config.Upstream{{Name: "a", URL: "http://127.0.0.1:1", Engine: "openai"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		u := p.Upstream("a")[0]
		at := func(what string, want bool) {
			t.Helper()
			synctest.Wait()
			if got := ShouldHandOverCalls(u); got != want {
				t.Errorf("%s: ShouldHandOverCalls = %v, want %v", what, got, want)
			}
		}
		u.SetMode(ModeDrain)
		time.Sleep(40 * time.Second)
		u.SetMode(ModeMaintenance)
		at("in the drain time", false)
		time.Sleep(20 * time.Second)
		at("after it", true)
		u.SetMode(ModeReady)
		at("ready", false)
		u.SetMode(ModeDrain)
		time.Sleep(30 * time.Second)
		u.SetMode(ModeReady)
		u.SetMode(ModeDrain)
		time.Sleep(59 * time.Second)
		at("drained anew", false)
		u.SetMode(ModeReady)
		time.Sleep(time.Hour)
		at("long ready", false)
		u.removal.isRetiring.Store(true)
		updateDrainTimer(u)
		at("retired", false)
		time.Sleep(time.Minute)
		at("retired for long", true)
		u.SetMode(ModeDrain)
		u.SetMode(ModeReady)
		at("still retired", true)
		u.removal.isRetiring.Store(false)
		updateDrainTimer(u)
		at("revived", false)
	})
}
