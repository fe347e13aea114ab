package upstreams

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
)

// TestProbeOfBrokenAnswers checks that after responses have broken off, the probe of a chat model
// requires more than a first token, until a response completes.
func TestProbeOfBrokenAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, _ := generationUpstream(t, func(int64) engine.GenerationVerdict { return engine.GenerationOK })
		var sent []string
		u.probeControl.mu.Lock()
		u.probeControl.prober.generate = func(_ context.Context, _ *engine.Profile, s *engine.GenerationStep, limit time.Duration) engine.GenerationResult {
			sent = append(sent, string(s.Body)+" "+limit.String())
			return engine.GenerationResult{Verdict: engine.GenerationFailed}
		}
		u.probeControl.mu.Unlock()
		fail := func(begun bool) {
			for range 5 {
				if l, ok := u.TryLease("a", PoolText, 0, time.Now()); ok {
					l.SetFailureSource(FailureSource{Key: "a", Served: "m", Sent: true, Begun: begun, Limit: 2 * time.Second})
					l.Release(OutcomeBadResponse)
				}
			}
			synctest.Wait()
		}
		fail(true)
		sleepAndSettle(breakerCoolDown)
		fail(false) // the trial
		sleepAndSettle(2*breakerCoolDown + 2*callTrialHeadStart)
		if len(sent) != 2 {
			t.Fatalf("%d probes, want 2", len(sent))
		}
		for _, s := range sent {
			if !strings.Contains(s, `"max_tokens":16`) || !strings.Contains(s, "Count") || !strings.HasSuffix(s, " 10s") {
				t.Error(s)
			}
		}
		l, ok := u.TryLease("b", PoolText, 0, time.Now().Add(maxBreakerCoolDown))
		if !ok {
			t.Fatal("no trial")
		}
		l.Release(OutcomeOK)
		sleepAndSettle(minGenerationInterval)
		fail(false)
		if len(sent) != 3 || !strings.Contains(sent[2], `"max_tokens":1,`) || !strings.HasSuffix(sent[2], " 2s") {
			t.Error(sent[2:])
		}
	})
}

// generationUpstream returns an upstream whose generation probes get their results from verdict,
// which is called with the number of the probe.
func generationUpstream(t *testing.T, verdict func(n int64) engine.GenerationVerdict) (u *Upstream, sent *atomic.Int64) {
	t.Helper()
	u, sent = probedUpstream(t, &scriptedEngine{code: 200}, "vllm"), new(atomic.Int64)
	synctest.Wait()
	u.probeControl.mu.Lock()
	u.probeControl.prober.generate = func(ctx context.Context, _ *engine.Profile, _ *engine.GenerationStep, limit time.Duration) engine.GenerationResult {
		n := sent.Add(1)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return engine.GenerationResult{Verdict: engine.GenerationAborted}
		}
		return engine.GenerationResult{Verdict: verdict(n)}
	}
	u.probeControl.mu.Unlock()
	return u, sent
}

// TestGenerationProbeTellsItsPriority checks that a probe has the priority of the first class if
// the engine orders its queue by priority. Otherwise the probe would wait behind all calls. If
// calls are sent without a priority, so are probes.
func TestGenerationProbeTellsItsPriority(t *testing.T) {
	for _, c := range []struct {
		engine string
		told   bool
		kind   string
		want   string // start of the body
	}{
		{"sglang", true, config.ModelKindChat, `{"priority":0,"`},
		{"vllm", true, config.ModelKindChat, `{"priority":0,"`},
		{"vllm", true, config.ModelKindEmbedding, `{"priority":0,"`},
		{"vllm", true, config.ModelKindTranscription, "--"}, // the body is a form
		{"vllm", false, config.ModelKindChat, `{"max_tokens":`},
		{"llamacpp", true, config.ModelKindChat, `{"max_tokens":`}, // this engine does not order its queue
	} {
		t.Run(fmt.Sprint(c.engine, c.told, c.kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := probedUpstream(t, &scriptedEngine{code: 200, pages: map[string]string{"/v1/models": `{"data":[{"id":"m"}]}`}}, c.engine)
				synctest.Wait()
				settings := *u.settings.Load()
				settings.spec.Priorities = c.told
				u.settings.Store(&settings)
				var sent []byte
				u.probeControl.mu.Lock()
				u.probeControl.prober.generate = func(_ context.Context, _ *engine.Profile, s *engine.GenerationStep, _ time.Duration) engine.GenerationResult {
					sent = s.Body
					return engine.GenerationResult{Verdict: engine.GenerationOK}
				}
				u.probeControl.mu.Unlock()
				for range 5 {
					if l, ok := u.TryLease("a", PoolText, 0, time.Now()); ok {
						l.SetFailureSource(FailureSource{Key: "a", Served: "m", Kind: c.kind, Sent: true, Limit: 2 * time.Second})
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

// failAlone simulates the given number of failed calls of one client.
func (u *Upstream) failAlone(t *testing.T, times int) {
	t.Helper()
	for range times {
		u.failFor(t, 1, OutcomeBadResponse)
	}
}

// TestProbeGeneration checks that a generation probe uses the slot that the fifth failure frees,
// and that probes are sent at most once a second.
func TestProbeGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, sent := generationUpstream(t, func(int64) engine.GenerationVerdict { return engine.GenerationOK })
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
		sleepAndSettle(200 * time.Millisecond)
		if u.slots.inFlight() != 0 || u.Breaker.HasFailures() {
			t.Errorf("%d slots are held, doubted %t", u.slots.inFlight(), u.Breaker.HasFailures())
		}
		u.failAlone(t, 20)
		synctest.Wait()
		if sent.Load() != 1 {
			t.Error("a second probe within a second")
		}
		sleepAndSettle(time.Second)
		u.failAlone(t, 1)
		synctest.Wait()
		if sent.Load() != 2 {
			t.Error("no probe after a second, with the row still there")
		}
		sleepAndSettle(200 * time.Millisecond)
		if u.Breaker.StateAt(time.Now()) != BreakerClosed {
			t.Error("one client has opened the breaker")
		}
		if st := u.Status(time.Now()); st.GenerationProbes["ok"] != 2 || st.Generation == nil || st.Generation.Result != "ok" || st.Generation.Milliseconds != 100 {
			t.Errorf("the status page says %v, %+v", st.GenerationProbes, st.Generation)
		}
	})
}

// TestProbeDoubt checks that two failures trigger a generation probe if no other call arrives,
// because routing avoids the engine.
func TestProbeDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, sent := generationUpstream(t, func(n int64) engine.GenerationVerdict {
			return []engine.GenerationVerdict{engine.GenerationOK, engine.GenerationFailed}[n-1]
		})
		u.failAlone(t, 1)
		sleepAndSettle(10 * doubtProbePause)
		if sent.Load() != 0 {
			t.Fatal("a probe after one failure")
		}
		u.failAlone(t, 1)
		sleepAndSettle(doubtProbePause - time.Millisecond)
		u.failAlone(t, 1)
		sleepAndSettle(2 * time.Millisecond)
		if sent.Load() != 0 {
			t.Fatal("a probe while calls come")
		}
		sleepAndSettle(doubtProbePause - 2*time.Millisecond)
		if sent.Load() != 0 {
			t.Fatal("a probe before its time")
		}
		sleepAndSettle(time.Millisecond)
		if sent.Load() != 1 || u.slots.inFlight() != 1 {
			t.Fatalf("%d probes in %d slots", sent.Load(), u.slots.inFlight())
		}
		sleepAndSettle(minGenerationInterval)
		if u.Breaker.StateAt(time.Now()) != BreakerClosed || u.Breaker.HasFailures() || u.slots.inFlight() != 0 {
			t.Fatal("the probe passed, and the engine is in doubt")
		}
		u.failAlone(t, 2)
		l, _ := u.TryLease("", PoolText, 0, time.Now())
		l.Release(OutcomeOK)
		sleepAndSettle(2 * doubtProbePause)
		if sent.Load() != 1 {
			t.Fatal("a probe after a success")
		}
		u.failAlone(t, 2)
		sleepAndSettle(2 * doubtProbePause)
		if sent.Load() != 2 || u.Breaker.StateAt(time.Now()) != BreakerOpen {
			t.Errorf("%d probes, breaker %v", sent.Load(), u.Breaker.StateAt(time.Now()))
		}
	})
}

// TestGenerationProbeIsTheTrial checks that a failed trial bars its client from the next trial. A
// generation probe becomes the next trial, regardless of which clients send calls in the meantime.
func TestGenerationProbeIsTheTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, sent := generationUpstream(t, func(n int64) engine.GenerationVerdict {
			return []engine.GenerationVerdict{engine.GenerationFailed, engine.GenerationFailed, engine.GenerationRefused, engine.GenerationOK}[n-1]
		})
		u.failAlone(t, 5)
		sleepAndSettle(200 * time.Millisecond)
		if u.Breaker.StateAt(time.Now()) != BreakerOpen {
			t.Fatal("the probe has failed, but the breaker is not open")
		}
		sleepAndSettle(breakerCoolDown)
		if sent.Load() != 1 {
			t.Fatal("a probe where any call may be the trial")
		}
		u.failAlone(t, 1) // the trial
		if u.Breaker.StateAt(time.Now()) != BreakerOpen {
			t.Fatal("the trial has failed, but the breaker is not open")
		}
		sleepAndSettle(2*breakerCoolDown + callTrialHeadStart/2)
		if sent.Load() != 1 {
			t.Fatal("other clients' calls have no time to be the trial")
		}
		sleepAndSettle(callTrialHeadStart)
		if sent.Load() != 2 || u.slots.inFlight() != 1 {
			t.Fatalf("%d probes, %d in flight", sent.Load(), u.slots.inFlight())
		}
		sleepAndSettle(time.Second) // the generation probe has also failed
		if u.Breaker.StateAt(time.Now()) != BreakerOpen {
			t.Fatal("the second trial has failed, but the breaker is not open")
		}
		sleepAndSettle(4*breakerCoolDown - 500*time.Millisecond) // no slot was free
		if sent.Load() != 3 || u.Breaker.StateAt(time.Now()) != BreakerHalfOpen {
			t.Fatalf("%d probes, breaker %v", sent.Load(), u.Breaker.StateAt(time.Now()))
		}
		now := time.Now()
		if _, ok := u.TryLease("client1", PoolText, 0, now); ok || u.IsEligibleFor("client1", StateUp, MomentOf(now)) || !u.IsEligibleFor("client2", StateUp, MomentOf(now)) {
			t.Error("the client whose trial failed may be the next one, or another may not")
		}
		sleepAndSettle(2 * time.Second)
		if sent.Load() != 4 || u.Breaker.StateAt(time.Now()) != BreakerClosed || u.Breaker.trialRunning.Load() || u.slots.inFlight() != 0 {
			t.Errorf("%d probes, breaker %v, trial %t, %d in flight", sent.Load(), u.Breaker.StateAt(time.Now()), u.Breaker.trialRunning.Load(), u.slots.inFlight())
		}
		sleepAndSettle(time.Minute)
		if sent.Load() != 4 {
			t.Error("probes go on behind a closed breaker")
		}
	})
}

// TestGenerationProbeEndsWithItsUpstream checks that a running probe is aborted and its slot
// released when its upstream retires.
func TestGenerationProbeEndsWithItsUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, sent := generationUpstream(t, func(int64) engine.GenerationVerdict { return engine.GenerationFailed })
		u.failAlone(t, 5)
		synctest.Wait()
		u.removal.isRetiring.Store(true)
		u.probeControl.stop()
		synctest.Wait()
		if sent.Load() != 1 || u.slots.inFlight() != 0 || u.series.generated[engine.GenerationAborted].Get() != 1 || u.Breaker.openUntil.Load() != breakerClosed {
			t.Errorf("%d probes, %d in flight", sent.Load(), u.slots.inFlight())
		}
	})
}

// TestGenerationProbeHasNoTurn checks that a probe that times out counts as failed only if the
// engine was silent. If the engine responded to other calls, the probe was only queued.
func TestGenerationProbeHasNoTurn(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		answers int // chunks of another call's response that arrive during the probe
		others  string
		want    BreakerState
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
				played := &scriptedEngine{code: 200, pages: map[string]string{}}
				if c.others != "" {
					played.pages["/metrics"] = c.others
				}
				u := probedUpstream(t, played, "vllm")
				synctest.Wait()
				l, ok := u.TryLease("", PoolText, 0, time.Now())
				if !ok {
					t.Fatal("no lease")
				}
				u.probeControl.mu.Lock()
				u.probeControl.prober.generate = func(_ context.Context, _ *engine.Profile, _ *engine.GenerationStep, limit time.Duration) engine.GenerationResult {
					for range c.answers {
						u.client.answerWatch.RecordBytes(c.status, []byte("x"))
					}
					time.Sleep(limit)
					return engine.GenerationResult{Verdict: engine.GenerationFailed, Reason: http1.ReasonTimeout}
				}
				u.probeControl.mu.Unlock()
				u.failAlone(t, 5)
				sleepAndSettle(generationProbeTimeout + 100*time.Millisecond)
				if got := u.Breaker.StateAt(time.Now()); got != c.want {
					t.Errorf("breaker %v, want %v; the probe: %+v", got, c.want, u.Status(time.Now()).Generation)
				}
				l.Release(OutcomeOK)
			})
		})
	}
}

// TestProbeAfterNotFound checks a probe after calls that got a 404 without a reason. The breaker
// opens only if each step of the probe gets such a 404, too.
func TestProbeAfterNotFound(t *testing.T) {
	notFound := engine.GenerationResult{Verdict: engine.GenerationRejected, Status: 404, NotFound: true}
	rejected := engine.GenerationResult{Verdict: engine.GenerationRejected, Status: 400}
	noModel := engine.GenerationResult{Verdict: engine.GenerationRejected, Status: 404}
	for _, c := range []struct {
		name              string
		chat, completions engine.GenerationResult
		want              BreakerState
	}{
		{"nothing is found", notFound, notFound, BreakerOpen},
		{"chat is refused, completions are not there", rejected, notFound, BreakerClosed},
		{"chat is not there, completions are refused", notFound, rejected, BreakerClosed},
		{"the probe's model is not there", noModel, noModel, BreakerClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := probedUpstream(t, &scriptedEngine{code: 200}, "vllm")
				synctest.Wait()
				u.probeControl.mu.Lock()
				u.probeControl.prober.generate = func(_ context.Context, _ *engine.Profile, s *engine.GenerationStep, _ time.Duration) engine.GenerationResult {
					if strings.Contains(s.Path, "chat") {
						return c.chat
					}
					return c.completions
				}
				u.probeControl.mu.Unlock()
				for range 5 {
					if l, ok := u.TryLease("a", PoolText, 0, time.Now()); ok {
						l.SetFailureSource(FailureSource{Key: "a", Served: "m", Sent: true, NotFound: true})
						l.Release(OutcomeBadResponse)
					}
				}
				synctest.Wait()
				if got := u.Breaker.StateAt(time.Now()); got != c.want || u.Status(time.Now()).Generation == nil {
					t.Errorf("breaker %v, want %v; the probe: %+v", got, c.want, u.Status(time.Now()).Generation)
				}
			})
		})
	}
}

// failWork simulates the given number of failed calls of one client to a model. Each call has a
// different body.
func (u *Upstream) failWork(key, served, kind string, times int) {
	for i := range times {
		if l, ok := u.TryLease(key, PoolText, 0, time.Now()); ok {
			l.SetFailureSource(FailureSource{Key: key, Body: uint64(i+1) + uint64(key[0])<<8, Served: served, Kind: kind, Sent: true})
			l.Release(OutcomeBadResponse)
		}
	}
	synctest.Wait()
}

// probeRequests records the requests of generation probes.
type probeRequests struct {
	mu   sync.Mutex
	list []string
}

func (a *probeRequests) add(s string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, s)
}

func (a *probeRequests) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.list)
}

// working returns an upstream with the given models, and a record of the requests that its
// generation probes send. The probes fail while fails is true.
func working(t *testing.T, models []config.Model, fails *atomic.Bool) (u *Upstream, asked *probeRequests) {
	t.Helper()
	p, err := newTestSet(t, Options{}).PlanChanges([]config.Upstream{{Name: "a", URL: "http://127.0.0.1:1", Engine: "openai"}}, models)
	if err != nil {
		t.Fatal(err)
	}
	u, asked = p.Upstream("a")[0], new(probeRequests)
	u.probeControl.replace(newProber(u, (&scriptedEngine{code: 200}).get, func() {}))
	u.probeControl.prober.start(func() {})
	prober := u.probeControl.currentProber()
	t.Cleanup(func() { prober.stop(); <-prober.done })
	synctest.Wait()
	u.probeControl.mu.Lock()
	u.probeControl.prober.generate = func(_ context.Context, _ *engine.Profile, s *engine.GenerationStep, _ time.Duration) engine.GenerationResult {
		asked.add(s.Path + " " + string(s.Body))
		if fails.Load() {
			return engine.GenerationResult{Verdict: engine.GenerationFailed}
		}
		return engine.GenerationResult{Verdict: engine.GenerationOK}
	}
	u.probeControl.mu.Unlock()
	return u, asked
}

// TestProbeAmongKinds checks that a single client cannot open the breaker by calling a served name
// whose models cannot be probed or are of more than one kind. The edge then probes another model,
// preferably a chat model.
func TestProbeAmongKinds(t *testing.T) {
	model := func(id, served, kind string) config.Model {
		return config.Model{ID: id, Kind: kind, Deployments: []config.Deployment{{Upstream: "a", Served: served}}}
	}
	chat, image := model("mb", "sim", config.ModelKindChat), model("img", "sim", config.ModelKindImage)
	embedding, other := model("e", "emb", config.ModelKindEmbedding), model("draw", "flux", config.ModelKindImage)
	for _, c := range []struct {
		name         string
		models       []config.Model
		served, kind string // served name and kind of the failing calls
		asks         string // path and model of the probe; empty means no probe
	}{
		{"the image behind the chat", []config.Model{chat, image}, "sim", config.ModelKindChat, "/v1/chat/completions sim"},
		{"before it", []config.Model{image, chat}, "sim", config.ModelKindChat, "/v1/chat/completions sim"},
		{"an image fails", []config.Model{chat, image}, "sim", config.ModelKindImage, "/v1/chat/completions sim"},
		{"one of another name", []config.Model{other, embedding, chat}, "flux", config.ModelKindImage, "/v1/chat/completions sim"},
		{"beside an embedding alone", []config.Model{other, embedding}, "flux", config.ModelKindImage, "/v1/embeddings emb"},
		{"an embedding fails", []config.Model{chat, embedding}, "emb", config.ModelKindEmbedding, "/v1/embeddings emb"},
		{"under the name of a chat", []config.Model{chat, model("e", "sim", config.ModelKindEmbedding)}, "sim", config.ModelKindEmbedding, "/v1/embeddings sim"},
		{"images alone", []config.Model{other}, "flux", config.ModelKindImage, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fails atomic.Bool
				u, asked := working(t, c.models, &fails)
				u.failWork("t", c.served, c.kind, 9)
				sleepAndSettle(2 * doubtProbePause)
				if l, ok := u.TryLease("u", PoolText, 0, time.Now()); !ok {
					t.Error("another client's call has no engine")
				} else {
					l.Release(OutcomeClientGone)
				}
				path, served, _ := strings.Cut(c.asks, " ")
				switch all := asked.all(); {
				case c.asks == "" && len(all) == 0:
				case len(all) == 0, !strings.HasPrefix(all[0], path+" "), !strings.Contains(all[0], `"model":"`+served+`"`):
					t.Errorf("asked %q, want %q", all, c.asks)
				}
				sleepAndSettle(minGenerationInterval)
				fails.Store(true)
				u.failWork("t", c.served, c.kind, 9)
				sleepAndSettle(2 * doubtProbePause)
				if got, want := u.Breaker.StateAt(time.Now()) != BreakerClosed, c.asks != ""; got != want {
					t.Errorf("the edge's own request fails, too: out %t, want %t", got, want)
				}
			})
		})
	}
}

// TestTrialWithoutProbe checks that the failures of five clients open the breaker if no generation
// probe is possible, and that no single client can keep the breaker open. After a failed trial,
// other clients have one second to send the next trial.
func TestTrialWithoutProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, _ := working(t, []config.Model{{ID: "flux", Kind: config.ModelKindImage, Deployments: []config.Deployment{{Upstream: "a"}}}}, new(atomic.Bool))
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			u.failWork(key, "flux", config.ModelKindImage, 1)
		}
		if u.Breaker.StateAt(time.Now()) != BreakerOpen {
			t.Fatal("five clients: not open")
		}
		sleepAndSettle(breakerCoolDown + 2*callTrialHeadStart)
		u.failWork("a", "flux", config.ModelKindImage, 1) // the trial
		sleepAndSettle(2 * breakerCoolDown)
		for range 5 {
			if !u.IsEligibleFor("b", StateUp, MomentOf(time.Now())) || u.IsEligibleFor("a", StateUp, MomentOf(time.Now())) {
				t.Fatal("another client's call may not be the trial, or the same client's may")
			}
			sleepAndSettle(barredTrialHeadStart)
			if !u.IsEligibleFor("a", StateUp, MomentOf(time.Now())) {
				t.Fatal("no other call has come, and there is no trial")
			}
			u.failWork("a", "flux", config.ModelKindImage, 1)
			sleepAndSettle(breakerCoolDown)
		}
		l, ok := u.TryLease("b", PoolText, 0, time.Now())
		if !ok {
			t.Fatal("no trial for another client")
		}
		l.Release(OutcomeOK)
		if u.Breaker.StateAt(time.Now()) != BreakerClosed {
			t.Error("its trial has passed, and the breaker is not closed")
		}
	})
}
