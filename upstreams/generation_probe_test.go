package upstreams

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
)

// Where answers broke off behind their beginning, the probe of a chat model asks for more than a first token, until one has ended
// well.
func TestProbeOfBrokenAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, _ := generating(t, func(int64) engine.Generation { return engine.GenerationOK })
		var sent []string
		u.probing.mu.Lock()
		u.probing.prober.generate = func(_ context.Context, _ *engine.Profile, s *engine.GenerationStep, limit time.Duration) engine.GenerationResult {
			sent = append(sent, string(s.Body)+" "+limit.String())
			return engine.GenerationResult{Verdict: engine.GenerationFailed}
		}
		u.probing.mu.Unlock()
		fail := func(begun bool) {
			for range 5 {
				if l, ok := u.TryLease("a", PoolText, 0, time.Now()); ok {
					l.FailedFor(FailureSource{Key: "a", Served: "m", Sent: true, Begun: begun, Limit: 2 * time.Second})
					l.Release(OutcomeBadResponse)
				}
			}
			synctest.Wait()
		}
		fail(true)
		pass(coolDown)
		fail(false) // the trial
		pass(2*coolDown + 2*trialHeadStart)
		if len(sent) != 2 {
			t.Fatalf("%d probes", len(sent))
		}
		for _, s := range sent {
			if !strings.Contains(s, `"max_tokens":16`) || !strings.Contains(s, "Count") || !strings.HasSuffix(s, " 10s") {
				t.Error(s)
			}
		}
		l, ok := u.TryLease("b", PoolText, 0, time.Now().Add(coolDownMax))
		if !ok {
			t.Fatal("no trial")
		}
		l.Release(OutcomeOK)
		pass(generationPause)
		fail(false)
		if len(sent) != 3 || !strings.Contains(sent[2], `"max_tokens":1,`) || !strings.HasSuffix(sent[2], " 2s") {
			t.Error(sent[2:])
		}
	})
}

// generating is an upstream whose generation probes are played by verdict, which counts them.
func generating(t *testing.T, verdict func(n int64) engine.Generation) (u *Upstream, sent *atomic.Int64) {
	t.Helper()
	u, sent = watched(t, &playedEngine{code: 200}, "vllm"), new(atomic.Int64)
	synctest.Wait()
	u.probing.mu.Lock()
	u.probing.prober.generate = func(ctx context.Context, _ *engine.Profile, _ *engine.GenerationStep, limit time.Duration) engine.GenerationResult {
		n := sent.Add(1)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return engine.GenerationResult{Verdict: engine.GenerationAborted}
		}
		return engine.GenerationResult{Verdict: verdict(n)}
	}
	u.probing.mu.Unlock()
	return u, sent
}

// TestGenerationProbeTellsItsPriority: an engine that orders its queue is told the first class's number with a probe, which
// would wait behind all calls otherwise; one that is told nothing of calls is told nothing of probes.
func TestGenerationProbeTellsItsPriority(t *testing.T) {
	for _, c := range []struct {
		engine string
		told   bool
		kind   string
		want   string // of the body's beginning
	}{
		{"sglang", true, config.KindChat, `{"priority":0,"`},
		{"vllm", true, config.KindChat, `{"priority":0,"`},
		{"vllm", true, config.KindEmbedding, `{"priority":0,"`},
		{"vllm", true, config.KindTranscription, "--"}, // a form
		{"vllm", false, config.KindChat, `{"max_tokens":`},
		{"llamacpp", true, config.KindChat, `{"max_tokens":`}, // it orders nothing
	} {
		t.Run(fmt.Sprint(c.engine, c.told, c.kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := watched(t, &playedEngine{code: 200, pages: map[string]string{"/v1/models": `{"data":[{"id":"m"}]}`}}, c.engine)
				synctest.Wait()
				settings := *u.settings.Load()
				settings.spec.Priorities, settings.kinds = c.told, map[string]string{"m": c.kind}
				u.settings.Store(&settings)
				var sent []byte
				u.probing.mu.Lock()
				u.probing.prober.generate = func(_ context.Context, _ *engine.Profile, s *engine.GenerationStep, _ time.Duration) engine.GenerationResult {
					sent = s.Body
					return engine.GenerationResult{Verdict: engine.GenerationOK}
				}
				u.probing.mu.Unlock()
				for range 5 {
					if l, ok := u.TryLease("a", PoolText, 0, time.Now()); ok {
						l.FailedFor(FailureSource{Key: "a", Served: "m", Sent: true, Limit: 2 * time.Second})
						l.Release(OutcomeBadResponse)
					}
				}
				synctest.Wait()
				if !strings.HasPrefix(string(sent), c.want) || c.want[0] == '{' && !json.Valid(sent) {
					t.Errorf("the probe begins %.60q, want %q", sent, c.want)
				}
			})
		})
	}
}

// failAlone fails so often for one client.
func (u *Upstream) failAlone(t *testing.T, times int) {
	t.Helper()
	for range times {
		u.failFor(t, 1, OutcomeBadResponse)
	}
}

// A generation probe goes out with the fifth failure, in the slot that this leaves, and at most
// once a second.
func TestProbeGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, sent := generating(t, func(int64) engine.Generation { return engine.GenerationOK })
		u.failAlone(t, 4)
		synctest.Wait()
		if sent.Load() != 0 {
			t.Fatal("a probe after four failures")
		}
		u.failAlone(t, 20)
		synctest.Wait()
		if sent.Load() != 1 || u.slots.inFlight() != 1 {
			t.Fatalf("%d probes under way in %d slots", sent.Load(), u.slots.inFlight())
		}
		pass(200 * time.Millisecond)
		if u.slots.inFlight() != 0 || u.Breaker.Doubted() {
			t.Errorf("%d slots are held, doubted %t", u.slots.inFlight(), u.Breaker.Doubted())
		}
		u.failAlone(t, 20)
		synctest.Wait()
		if sent.Load() != 1 {
			t.Error("a second probe within a second")
		}
		pass(time.Second)
		u.failAlone(t, 1)
		synctest.Wait()
		if sent.Load() != 2 {
			t.Error("no probe after a second, with the row still there")
		}
		pass(200 * time.Millisecond)
		if u.Breaker.Position(time.Now()) != BreakerClosed {
			t.Error("one client has opened the breaker")
		}
		if st := u.Status(time.Now()); st.GenerationProbes["ok"] != 2 || st.Generation == nil || st.Generation.Result != "ok" || st.Generation.Milliseconds != 100 {
			t.Errorf("the status page says %v, %+v", st.GenerationProbes, st.Generation)
		}
	})
}

// Two failures are enough where no other call comes to an engine that routing avoids: a generation
// probe goes out after a while.
func TestProbeDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, sent := generating(t, func(n int64) engine.Generation {
			return []engine.Generation{engine.GenerationOK, engine.GenerationFailed}[n-1]
		})
		u.failAlone(t, 1)
		pass(10 * doubtPause)
		if sent.Load() != 0 {
			t.Fatal("a probe after one failure")
		}
		u.failAlone(t, 1)
		pass(doubtPause - time.Millisecond)
		u.failAlone(t, 1)
		pass(2 * time.Millisecond)
		if sent.Load() != 0 {
			t.Fatal("a probe while calls come")
		}
		pass(doubtPause - 2*time.Millisecond)
		if sent.Load() != 0 {
			t.Fatal("a probe before its time")
		}
		pass(time.Millisecond)
		if sent.Load() != 1 || u.slots.inFlight() != 1 {
			t.Fatalf("%d probes in %d slots", sent.Load(), u.slots.inFlight())
		}
		pass(generationPause)
		if u.Breaker.Position(time.Now()) != BreakerClosed || u.Breaker.Doubted() || u.slots.inFlight() != 0 {
			t.Fatal("the probe passed, and the engine is in doubt")
		}
		u.failAlone(t, 2)
		l, _ := u.TryLease("", PoolText, 0, time.Now())
		l.Release(OutcomeOK)
		pass(2 * doubtPause)
		if sent.Load() != 1 {
			t.Fatal("a probe after a success")
		}
		u.failAlone(t, 2)
		pass(2 * doubtPause)
		if sent.Load() != 2 || u.Breaker.Position(time.Now()) != BreakerOpen {
			t.Errorf("%d probes, breaker %v", sent.Load(), u.Breaker.Position(time.Now()))
		}
	})
}

// A failed trial bars its client from the next one: a generation probe is it, whoever asks
// meanwhile.
func TestGenerationProbeIsTheTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, sent := generating(t, func(n int64) engine.Generation {
			return []engine.Generation{engine.GenerationFailed, engine.GenerationFailed, engine.GenerationRefused, engine.GenerationOK}[n-1]
		})
		u.failAlone(t, 5)
		pass(200 * time.Millisecond)
		if u.Breaker.Position(time.Now()) != BreakerOpen {
			t.Fatal("the probe has failed, but the breaker is not open")
		}
		pass(coolDown)
		if sent.Load() != 1 {
			t.Fatal("a probe where any call may be the trial")
		}
		u.failAlone(t, 1) // the trial
		if u.Breaker.Position(time.Now()) != BreakerOpen {
			t.Fatal("the trial has failed, but the breaker is not open")
		}
		pass(2*coolDown + trialHeadStart/2)
		if sent.Load() != 1 {
			t.Fatal("other clients' calls have no time to be the trial")
		}
		pass(trialHeadStart)
		if sent.Load() != 2 || u.slots.inFlight() != 1 {
			t.Fatalf("%d probes, %d in flight", sent.Load(), u.slots.inFlight())
		}
		pass(time.Second) // has failed, too
		if u.Breaker.Position(time.Now()) != BreakerOpen {
			t.Fatal("the second trial has failed, but the breaker is not open")
		}
		pass(4*coolDown - 500*time.Millisecond) // no room
		if sent.Load() != 3 || u.Breaker.Position(time.Now()) != BreakerHalfOpen {
			t.Fatalf("%d probes, breaker %v", sent.Load(), u.Breaker.Position(time.Now()))
		}
		now := time.Now()
		if _, ok := u.TryLease("client1", PoolText, 0, now); ok || u.EligibleFor("client1", StateUp, At(now)) || !u.EligibleFor("client2", StateUp, At(now)) {
			t.Error("the client whose trial failed may be the next one, or another may not")
		}
		pass(2 * time.Second)
		if sent.Load() != 4 || u.Breaker.Position(time.Now()) != BreakerClosed || u.Breaker.trial.Load() || u.slots.inFlight() != 0 {
			t.Errorf("%d probes, breaker %v, trial %t, %d in flight", sent.Load(), u.Breaker.Position(time.Now()), u.Breaker.trial.Load(), u.slots.inFlight())
		}
		pass(time.Minute)
		if sent.Load() != 4 {
			t.Error("probes go on behind a closed breaker")
		}
	})
}

// A probe that is under way when its upstream retires ends, and gives its slot back.
func TestGenerationProbeEndsWithItsUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, sent := generating(t, func(int64) engine.Generation { return engine.GenerationFailed })
		u.failAlone(t, 5)
		synctest.Wait()
		u.ending.retiring.Store(true)
		u.probing.stop()
		synctest.Wait()
		if sent.Load() != 1 || u.slots.inFlight() != 0 || u.series.generated[engine.GenerationAborted].Get() != 1 || u.Breaker.openUntil.Load() != breakerClosed {
			t.Errorf("%d probes, %d in flight", sent.Load(), u.slots.inFlight())
		}
	})
}

// A probe that waits in vain convicts a silent engine alone: one that goes on with other calls has merely had no turn for it.
func TestGenerationProbeHasNoTurn(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		answers int // how often a piece of the answer to another call comes during the probe
		others  string
		want    Breaker
	}{
		{name: "silence", status: 200, want: BreakerOpen},
		{name: "a stream goes on", status: 200, answers: 1, want: BreakerClosed},
		{name: "many streams go on", status: 200, answers: 5, want: BreakerClosed},
		{name: "errors alone", status: 500, answers: 3, want: BreakerOpen},
		{name: "others wait", status: 200, others: "vllm:num_requests_running 4\nvllm:num_requests_waiting 9\n", want: BreakerClosed},
		{name: "only this edge's", status: 200, others: "vllm:num_requests_running 1\nvllm:num_requests_waiting 1\n", want: BreakerOpen},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				played := &playedEngine{code: 200, pages: map[string]string{}}
				if c.others != "" {
					played.pages["/metrics"] = c.others
				}
				u := watched(t, played, "vllm")
				synctest.Wait()
				l, ok := u.TryLease("", PoolText, 0, time.Now())
				if !ok {
					t.Fatal("no lease")
				}
				u.probing.mu.Lock()
				u.probing.prober.generate = func(_ context.Context, _ *engine.Profile, _ *engine.GenerationStep, limit time.Duration) engine.GenerationResult {
					for range c.answers {
						u.client.answers.Came(c.status, []byte("x"))
					}
					time.Sleep(limit)
					return engine.GenerationResult{Verdict: engine.GenerationFailed, Reason: http1.ReasonTimeout}
				}
				u.probing.mu.Unlock()
				u.failAlone(t, 5)
				pass(generationLimit + 100*time.Millisecond)
				if got := u.Breaker.Position(time.Now()); got != c.want {
					t.Errorf("breaker %v, want %v; the probe: %+v", got, c.want, u.Status(time.Now()).Generation)
				}
				l.Release(OutcomeOK)
			})
		})
	}
}
