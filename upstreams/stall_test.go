package upstreams

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
)

// stallRig is an upstream with calls. The test controls its engine's counters and how the engine
// responds to probes.
type stallRig struct {
	*Upstream
	played *scriptedEngine
	works  atomic.Bool // generation probes succeed
	leases []*Lease
}

// newStallRig returns a stallRig for a known engine with the given number of running calls.
func newStallRig(t *testing.T, o Options, engineName string, calls int) *stallRig {
	r := &stallRig{played: &scriptedEngine{code: http.StatusOK, pages: map[string]string{}}}
	r.Upstream = probedUpstreamIn(t, newTestSet(t, o), r.played, engineName, "m")
	r.probeControl.mu.Lock()
	r.probeControl.prober.generate = func(ctx context.Context, _ *engine.Profile, _ *engine.GenerationStep, limit time.Duration) engine.GenerationResult {
		for end := time.Now().Add(limit); time.Now().Before(end); {
			if r.works.Load() {
				return engine.GenerationResult{Verdict: engine.GenerationOK, Status: http.StatusOK}
			}
			select {
			case <-ctx.Done():
				return engine.GenerationResult{Verdict: engine.GenerationAborted}
			case <-time.After(100 * time.Millisecond):
			}
		}
		return engine.GenerationResult{Verdict: engine.GenerationFailed, Reason: http1.ReasonTimeout}
	}
	r.probeControl.mu.Unlock()
	synctest.Wait()
	for range calls {
		l, ok := r.TryLease("", PoolText, 10, time.Now())
		if !ok {
			t.Fatal("no lease")
		}
		l.RecordFirstToken(time.Second)
		r.leases = append(r.leases, l)
	}
	return r
}

// answers simulates response bytes that arrive for the given number of seconds.
func (r *stallRig) answers(seconds int) {
	for range seconds * 2 {
		sleepAndSettle(500 * time.Millisecond)
		r.client.answerWatch.RecordBytes(http.StatusOK, []byte("x"))
	}
}

// counts sets the counter and the number of running calls that the engine reports.
func (r *stallRig) counts(steps int) {
	r.played.mu.Lock()
	defer r.played.mu.Unlock()
	r.played.pages["/metrics"] = fmt.Sprintf("vllm:num_requests_running %d\nvllm:num_requests_waiting 0\nvllm:iteration_tokens_total_count{engine=\"0\"} %d\n",
		len(r.leases), steps)
}

// silent advances the clock while no call makes progress. It returns the second in which the
// upstream's state changes, or 0 if it does not change.
func (r *stallRig) silent(seconds int, each func(second int)) int {
	was := r.State()
	for i := range seconds {
		if i == 10 {
			r.Progress.AddWaiting(int64(len(r.leases)))
			defer r.Progress.AddWaiting(-int64(len(r.leases)))
		}
		if each != nil {
			each(i)
		}
		sleepAndSettle(time.Second)
		if r.State() != was {
			return i + 1
		}
	}
	return 0
}

func (r *stallRig) end() {
	for _, l := range r.leases {
		l.Release(OutcomeOK)
	}
	r.leases = nil
}

// TestStalledOut checks that an engine without progress goes out of service within 15 s. The edge
// then sends generation probes, and the first successful probe brings the engine back.
func TestStalledOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStallRig(t, Options{}, "vllm", 4)
		r.counts(100)
		r.answers(20)
		if at := r.silent(60, nil); at < 10 || at > 15 || r.State() != StateStalled {
			t.Fatalf("state %v after %d s of silence, want stalled after 10 to 15", r.State(), at)
		}
		if r.IsEligibleIn(StateUp, MomentOf(time.Now())) || !r.IsEligibleIn(StateStalled, MomentOf(time.Now())) {
			t.Error("a stalled upstream is picked as one that is up")
		}
		r.end()
		sleepAndSettle(40 * time.Second)
		if n := r.Status(time.Now()).GenerationProbes["failed"]; r.State() != StateStalled || n < 2 {
			t.Errorf("%v after %d failed probes", r.State(), n)
		}
		r.works.Store(true)
		sleepAndSettle(3 * time.Second)
		if r.State() != StateUp {
			t.Errorf("%v although a generation probe succeeds", r.State())
		}
	})
}

// TestLoadIsNoStall checks that an engine does not count as stalled while it loads a model, even if
// that takes a long time. Afterwards, its calls must make progress.
func TestLoadIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStallRig(t, Options{}, "vllm", 0)
		r.Models.mu.Lock()
		r.Models.setResidentCount(r.Models.residents.SetConfiguredCapacity, 1)
		r.Models.mu.Unlock()
		r.counts(100)
		l, ok := r.Models.FindModel("m").TryLease("", PoolText, Prompt{Tokens: 10, Uncached: 10}, 0, time.Now())
		if !ok {
			t.Fatal("no lease")
		}
		r.leases = append(r.leases, l)
		if at := r.silent(300, nil); at != 0 {
			t.Errorf("%v after %d s of a load", r.State(), at)
		}
		l.RecordFirstToken(300 * time.Second)
		if at := r.silent(60, nil); at == 0 || r.State() != StateStalled {
			t.Errorf("%v after %d s behind the load", r.State(), at)
		}
		r.end()
	})
}

// TestStalledBack checks that a stalled engine returns when a response to one of the edge's calls
// makes progress, or when a counter rises.
func TestStalledBack(t *testing.T) {
	for name, move := range map[string]func(r *stallRig){
		"answer":  func(r *stallRig) { r.client.answerWatch.RecordBytes(http.StatusOK, []byte("x")) },
		"counter": func(r *stallRig) { r.counts(101) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newStallRig(t, Options{}, "vllm", 2)
				r.counts(100)
				r.answers(5)
				if r.silent(60, nil) == 0 {
					t.Fatal("not stalled")
				}
				sleepAndSettle(20 * time.Second)
				move(r)
				if at := r.silent(5, nil); at == 0 || r.State() != StateUp {
					t.Errorf("state %v, want up", r.State())
				}
				r.end()
			})
		})
	}
}

// TestCountersKeepIn checks that an engine that sends no response bytes for minutes stays in
// service while its counters change.
func TestCountersKeepIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStallRig(t, Options{}, "vllm", 2)
		r.counts(100)
		r.answers(5)
		if at := r.silent(150, func(i int) { r.counts(100 + i/4) }); at != 0 {
			t.Errorf("state %v after %d s of silence, want no stall", r.State(), at)
		}
		if !r.Progress.IsProgressing(time.Now()) {
			t.Error("it is not seen to work")
		}
		r.end()
	})
}

// TestSeveralEngines checks an address with two engines behind it, which answer page requests
// alternately. While one of the engines works, the upstream stays in service and keeps its calls.
// Once neither engine makes progress, the upstream goes out of service.
func TestSeveralEngines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStallRig(t, Options{}, "vllm", 8)
		page := func(steps int) string {
			return fmt.Sprintf("vllm:num_requests_running 4\nvllm:num_requests_waiting 0\nvllm:iteration_tokens_total_count{engine=\"0\"} %d\n", steps)
		}
		both := func(one, other int) {
			r.played.mu.Lock()
			defer r.played.mu.Unlock()
			r.played.pages["/metrics"], r.played.other = page(one), page(other)
		}
		both(100_000, 70)
		r.answers(20)
		silent := time.Now()
		at := r.silent(150, func(i int) {
			if both(100_000, 70+i/4); i > 10 && r.Progress.IsCallLost(silent, time.Now()) {
				t.Fatalf("calls are lost after %d s", i)
			}
		})
		if at != 0 {
			t.Errorf("%v after %d s in which one works", r.State(), at)
		}
		for range 200 { // long enough for the longest step to decay
			r.client.answerWatch.RecordBytes(http.StatusOK, []byte("x"))
			sleepAndSettle(time.Second)
		}
		if at := r.silent(60, nil); at < 10 || at > 25 || r.State() != StateStalled {
			t.Errorf("%v after %d s in which none works", r.State(), at)
		}
		sleepAndSettle(time.Minute)
		if r.State() != StateStalled {
			t.Errorf("%v although none works", r.State())
		}
		r.end()
	})
}

// TestSlowCounters checks an engine that responds to a request for its counters only between two
// batches. Probes continue while the check waits for the counters.
func TestSlowCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStallRig(t, Options{}, "llamacpp", 1)
		page := func(n int) {
			r.played.mu.Lock()
			defer r.played.mu.Unlock()
			r.played.pages["/metrics"] = "llamacpp:requests_processing 1\nllamacpp:n_decode_total " + strconv.Itoa(n) + "\n"
		}
		page(1)
		r.answers(5)
		r.played.mu.Lock()
		r.played.load = 7 * time.Second
		r.played.mu.Unlock()
		if at := r.silent(100, func(i int) { page(1 + i/8) }); at != 0 {
			t.Errorf("state %v after %d s of silence, want no stall", r.State(), at)
		}
		r.end()
	})
}

// TestStallNotAllowed checks that a route's last target stays in service. If too many targets would
// go out of service at the same time, a generation probe decides.
func TestStallNotAllowed(t *testing.T) {
	for answer, want := range map[StallDecision]BreakerState{StallKeepServing: BreakerClosed, StallProbeFirst: BreakerOpen} {
		synctest.Test(t, func(t *testing.T) {
			r := newStallRig(t, Options{Stall: func(*Upstream, time.Time) StallDecision { return answer }}, "vllm", 2)
			r.counts(100)
			r.answers(5)
			if at := r.silent(30, nil); at != 0 {
				t.Errorf("state %v after %d s of silence, want no stall", r.State(), at)
			}
			if got := r.Breaker.StateAt(time.Now()); (got == BreakerClosed) != (want == BreakerClosed) {
				t.Errorf("breaker %v, want %v", got, want)
			}
			r.end()
		})
	}
}

// TestStalledUnprobed checks that a stalled upstream gets a call after half a minute if no
// generation probe can bring it back.
func TestStalledUnprobed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStallRig(t, Options{}, "vllm", 1)
		r.probeControl.mu.Lock()
		r.probeControl.prober.generate = nil
		r.probeControl.mu.Unlock()
		r.counts(100)
		r.answers(5)
		if r.silent(60, nil) == 0 {
			t.Fatal("not stalled")
		}
		r.end()
		sleepAndSettle(32 * time.Second)
		if r.State() != StateUp {
			t.Error(r.State())
		}
	})
}

// TestTrafficOutranksProbes checks that an engine whose responses make progress stays up even if it
// does not answer probes. Once no more response bytes arrive, the engine becomes busy.
func TestTrafficOutranksProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStallRig(t, Options{}, "vllm", 32)
		r.played.set(http.StatusOK, 3*time.Second)
		r.answers(120)
		if r.State() != StateUp {
			t.Fatalf("%v while answers come", r.State())
		}
		begin := time.Now()
		for r.State() == StateUp && time.Since(begin) < time.Minute {
			sleepAndSettle(100 * time.Millisecond)
		}
		// The upper bound is the sum of an interval plus ten percent, one probe that the last
		// response bytes outrank, and one second for each of two later probes.
		if d := time.Since(begin); d > 6400*time.Millisecond || r.State() != StateBusy {
			t.Errorf("state %v after %v, want busy after at most 6.4 s", r.State(), d)
		}
		r.end()
	})
	synctest.Test(t, func(t *testing.T) { // a refusal counts as a response
		r := newStallRig(t, Options{}, "vllm", 32)
		r.played.set(http.StatusServiceUnavailable, 0)
		r.answers(15)
		if r.State() != StateDown {
			t.Errorf("%v although its page says that it is sick", r.State())
		}
		r.end()
	})
}
