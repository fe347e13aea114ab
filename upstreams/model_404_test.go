package upstreams

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config"
	"penstock/upstreams/engine"
)

func TestModelGone(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{})
	u.recognised(mustProfile(t, "vllm"))
	list := engine.NewModelList([]engine.ModelInfo{{ID: "m"}, {ID: "n"}}, nil)
	begun := time.Now()
	u.Models.setList(list, begun)
	time.Sleep(time.Millisecond)
	u.RecordModelGone(FailureSource{Served: "m"})
	if serves(t, u, "m") || !serves(t, u, "n") {
		t.Fatal("a 404 must take out this name and no other")
	}
	u.Models.setList(list, begun) // a list that was read before the 404 does not bring the model back
	if serves(t, u, "m") {
		t.Error("an older reading brought it back")
	}
	u.Models.setList(engine.NewModelList([]engine.ModelInfo{{ID: "n"}}, list), time.Now().Add(time.Hour))
	if serves(t, u, "m") {
		t.Error("a reading without it brought it back")
	}
	u.Models.setList(list, time.Now().Add(time.Second))
	if !serves(t, u, "m") || u.Models.view.Load().missing != nil {
		t.Error("a newer reading did not bring it back")
	}

	u.recognised(mustProfile(t, "whisper")) // whisper lists no models, so the outage ends after a fixed time
	u.RecordModelGone(FailureSource{Served: "w"})
	if !serves(t, u, "w") {
		t.Error("one call alone took away what no list can bring back")
	}
	u.RecordModelGone(FailureSource{Served: "w"})
	u.Models.setList(nil, time.Now().Add(unlistedModelOutage/2))
	if serves(t, u, "w") {
		t.Error("back too soon")
	}
	u.Models.setList(nil, time.Now().Add(unlistedModelOutage+time.Second))
	if !serves(t, u, "w") {
		t.Error("never back")
	}
}

// TestModelGoneIsCheckedAtOnce checks that the edge reads the list immediately after a 404 for a
// model that the engine still lists. Each later 404 takes the model out of service for longer, up
// to a limit. The edge logs each loss and each return once.
func TestModelGoneIsCheckedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.InfoLevel)
		e := &scriptedEngine{code: 200, pages: map[string]string{"/v1/models": `{"data":[{"id":"m"}]}`}}
		u := probedUpstreamIn(t, newTestSet(t, Options{Log: zap.New(core)}), e, "vllm", "m")
		synctest.Wait()
		for i, bounds := range [][2]time.Duration{
			{0, 200 * time.Millisecond},
			{listedModelOutage, 2300 * time.Millisecond},
			{2 * listedModelOutage, 3500 * time.Millisecond},
			{maxListedModelOutage, 6 * time.Second},
			{maxListedModelOutage, 6 * time.Second},
		} {
			if !serves(t, u, "m") || u.RetryDelay("m", time.Now()) != 0 {
				t.Fatal("not served")
			}
			gone := time.Now()
			u.RecordModelGone(FailureSource{Served: "m"})
			// From a call that was already running; not logged again.
			u.RecordModelGone(FailureSource{Served: "m"})
			if serves(t, u, "m") {
				t.Fatal("a 404 changed nothing")
			}
			if next := u.RetryDelay("m", gone); next > minRequestedProbePause {
				t.Errorf("404 number %d: the next look is said to be %v away", i+1, next)
			}
			for !serves(t, u, "m") {
				sleepAndSettle(10 * time.Millisecond)
			}
			if took := time.Since(gone); !within(took, bounds[0], bounds[1]) {
				t.Errorf("404 number %d: back after %v, want %v", i+1, took, bounds)
			}
			if n := lines.FilterMessage("upstream does not serve a model now").Len(); n != i+1 {
				t.Errorf("%d losses told of, want %d", n, i+1)
			}
			if n := lines.FilterMessage("upstream serves the model again").Len(); n != i+1 {
				t.Errorf("%d returns told of, want %d", n, i+1)
			}
		}
		if f := u.Status(time.Now()).LastFailure; f == nil || f.Reason != "model_gone" || f.Status != 404 {
			t.Errorf("last failure %+v", f)
		}
		sleepAndSettle(modelFlapMemory + time.Second)
		u.RecordModelGone(FailureSource{Served: "m"})
		sleepAndSettle(200 * time.Millisecond)
		if !serves(t, u, "m") {
			t.Error("a 404 of long ago still counts")
		}
	})
}

// TestModelGoneByOneClient checks that 404s for a single client or a single body take a listed
// model out of service only once.
func TestModelGoneByOneClient(t *testing.T) {
	for name, w := range map[string]func(i int) FailureSource{
		"one key":  func(i int) FailureSource { return FailureSource{Served: "m", Key: "a", Body: uint64(i + 1)} },
		"one body": func(i int) FailureSource { return FailureSource{Served: "m", Key: string(rune('a' + i%26)), Body: 7} },
		"no key":   func(int) FailureSource { return FailureSource{Served: "m", Body: 7} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &scriptedEngine{code: 200, pages: map[string]string{"/v1/models": `{"data":[{"id":"m"}]}`}}
				u := probedUpstream(t, e, "vllm", "m")
				synctest.Wait()
				away := 0
				for i := range 600 { // one minute of calls
					if i%10 == 0 {
						u.RecordModelGone(w(i / 10))
					}
					if !serves(t, u, "m") {
						away++
					}
					sleepAndSettle(100 * time.Millisecond)
				}
				if away > 2 {
					t.Errorf("away for %d of 600 moments", away)
				}
				u.RecordModelGone(FailureSource{Served: "m", Key: "other", Body: 1 << 40})
				if serves(t, u, "m") {
					t.Error("a second source does not count")
				}
			})
		})
	}
}

// TestModelStaysGoneUntilListed checks that a model stays out of service while the engine does not list it,
// and returns soon after the engine lists it again.
func TestModelStaysGoneUntilListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &scriptedEngine{code: 200, pages: map[string]string{"/v1/models": `{"data":[{"id":"m"}]}`}}
		u := probedUpstream(t, e, "vllm", "m")
		synctest.Wait()
		list := func(page string) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.pages["/v1/models"] = page
		}
		list(`{"data":[{"id":"n"}]}`)
		u.RecordModelGone(FailureSource{Served: "m"})
		for range 10 {
			sleepAndSettle(500 * time.Millisecond)
			if serves(t, u, "m") {
				t.Fatal("back, although the engine does not list it")
			}
			if next := u.RetryDelay("m", time.Now()); next > 1200*time.Millisecond {
				t.Errorf("the next look is %v away", next)
			}
		}
		list(`{"data":[{"id":"m"}]}`)
		sleepAndSettle(1200 * time.Millisecond)
		if !serves(t, u, "m") {
			t.Error("not back")
		}
	})
}

func TestNextChance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &scriptedEngine{code: 200}
		u := probedUpstream(t, e, "vllm")
		synctest.Wait()
		now := time.Now()
		if d := u.RetryDelay("m", now); d != 0 {
			t.Errorf("RetryDelay while up = %v, want 0", d)
		}
		for i := range openAfterFailures {
			u.failFor(t, i, OutcomeBadResponse)
		}
		if d := u.RetryDelay("m", now); d != breakerCoolDown {
			t.Errorf("breaker open: %v", d)
		}
		e.set(0, 0)
		sleepAndSettle(time.Minute)
		if d := u.RetryDelay("m", time.Now()); u.State() != StateDown || d <= 0 || d > 2*defaultProbeInterval*11/10+recoveryConfirmPause {
			t.Errorf("state %v, RetryDelay = %v; want down and the pause between probes", u.State(), d)
		}
		u.removal.isRetiring.Store(true)
		if d := u.RetryDelay("m", time.Now()); d < time.Minute {
			t.Errorf("RetryDelay while retiring = %v, want at least 1 m", d)
		}
	})
}
