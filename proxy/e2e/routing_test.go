package e2e

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"penstock/bench/sim"
)

// Which engine gets a call, as the engines see it.

// crowd sends requests from n clients, each the next one as soon as the last is answered, until stop is called, which
// returns the answers by status. next makes the body of a client's next request.
func (p *penstock) crowd(n int, next func(client, turn int) string) (stop func() map[int]int) {
	var (
		wg    sync.WaitGroup
		ended atomic.Bool
		mu    sync.Mutex
		count = map[int]int{}
	)
	for client := range n {
		wg.Go(func() {
			for turn := 0; !ended.Load(); turn++ {
				status := p.post(chatPath, next(client, turn)).status
				mu.Lock()
				count[status]++
				mu.Unlock()
			}
		})
	}
	return func() map[int]int {
		ended.Store(true)
		wg.Wait()
		return count
	}
}

// TestLeastLoadedFollowsSpeed: under saturation every engine does as much work as its speed allows, with nobody telling the
// edge who is fast.
func TestLeastLoadedFollowsSpeed(t *testing.T) {
	t.Parallel()
	var engines []sim.Options
	for i := range 4 {
		engines = append(engines, sim.Options{Slots: 4, TokenRate: 12.5 * float64(i+1)})
	}
	p := start(t, setup{engines: engines, upstream: "concurrency: 4", model: "queue: { depth: 64, wait: 30s }"})
	stop := p.crowd(24, func(int, int) string { return p.chat(`"sim":{"tokens":12}`) })
	waitFor(t, patience, "every slot is taken", func() bool { return p.metric("penstock_upstream_inflight") == 16 })
	work := func() (out [4]float64) {
		for i, e := range p.engines {
			out[i] = float64(e.Stats().Tokens)
		}
		return out
	}
	// A machine that is busy elsewhere slows the engines themselves, so one good window of three is enough.
	worst := math.Inf(1)
	for window := 0; window < 3 && worst > 0.1; window++ {
		before := work()
		time.Sleep(2 * time.Second)
		worst = min(worst, deviation(t, before, work()))
	}
	for status, n := range stop() {
		if status != 200 {
			t.Errorf("%d answers of status %d", n, status)
		}
	}
	if limit := map[bool]float64{false: 0.1, true: 0.25}[raceOn]; worst > limit {
		t.Errorf("an engine's share is %.0f%% off its ideal, want at most %.0f%%", 100*worst, 100*limit)
	}
}

// deviation returns how far the worst engine's share of the work is from what its speed calls for, as a share of that.
func deviation(t *testing.T, before, after [4]float64) (worst float64) {
	t.Helper()
	all := 0.0
	for i := range after {
		after[i] -= before[i]
		all += after[i]
	}
	for i, n := range after {
		ideal := float64(i+1) / 10
		t.Logf("engine %d: %.1f%% of the work, ideal %.0f%%", i, 100*n/all, 100*ideal)
		worst = max(worst, math.Abs(n/all/ideal-1))
	}
	return worst
}

// TestFastFailureIsNoBlackHole: an engine that fails at once is always the least busy one.
func TestFastFailureIsNoBlackHole(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"least_loaded", "two_choices", "round_robin"} {
		for _, fault := range []string{"status=500", "status=503", "status=429", "reset-before"} {
			t.Run(policy+"/"+fault, func(t *testing.T) {
				t.Parallel()
				good := sim.Options{Latency: 10 * time.Millisecond}
				p := start(t, setup{engines: []sim.Options{good, good, good, good}, upstream: quietProbes, model: "policy: " + policy})
				p.engines[0].SetFault(sim.Fault{Spec: fault})
				stop := p.crowd(8, func(int, int) string { return p.chat(`"sim":{"tokens":3}`) })
				requests := func() (all int64) {
					for _, e := range p.engines {
						all += e.Stats().Requests
					}
					return all
				}
				// By number and not by time alone: what counts is the share, whatever the machine can do.
				for end := time.Now().Add(20 * time.Second); requests() < 200 && time.Now().Before(end); {
					time.Sleep(50 * time.Millisecond)
				}
				count := stop()
				bad, all := p.engines[0].Stats().Requests, requests()
				t.Logf("%d of %d requests, answers %v", bad, all, count)
				if all < 100 || bad*20 > all {
					t.Errorf("the failing engine got %d of %d requests", bad, all)
				}
			})
		}
	}
}

// TestPrefixAffinityKeepsCachesWarm: conversations whose prompts grow turn by turn, on engines whose caches hold their share of
// them with some room, and by far not all of them. Even a perfect choice finds only 92% there: new turns are in no cache.
func TestPrefixAffinityKeepsCachesWarm(t *testing.T) {
	t.Parallel()
	hits := map[string]float64{}
	for _, policy := range []string{"least_loaded", "prefix_affinity"} {
		hits[policy] = cacheHits(t, policy)
	}
	if hits["prefix_affinity"] < 0.9 || hits["least_loaded"] > 0.45 {
		t.Errorf("share of cached prompt tokens: %v", hits)
	}
}

// cacheHits plays the conversations over four engines and returns the share of prompt tokens that were in a cache.
func cacheHits(t *testing.T, policy string) float64 {
	const (
		clients = 8
		each    = 16 // conversations a client holds at the same time
		turns   = 30 // of a conversation
		system  = 4000
		grows   = 40 // bytes a turn
	)
	engine := sim.Options{CacheTokens: 96 << 10}
	p := start(t, setup{engines: []sim.Options{engine, engine, engine, engine}, model: "policy: " + policy})
	messages := func(id, turn int) string {
		var b strings.Builder
		fmt.Fprintf(&b, `{"role":"system","content":"%s"}`, filler(id, system))
		for k := range turn + 1 {
			fmt.Fprintf(&b, `,{"role":"user","content":"%s"}`, filler(id*1000+k, grows))
		}
		return b.String()
	}
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for turn := range turns {
				for k := range each {
					body := `{"model":"sim","messages":[` + messages(client*each+k, turn) + `],"sim":{"tokens":2}}`
					if r := p.post(chatPath, body); r.status != 200 {
						t.Errorf("status %d", r.status)
					}
				}
			}
		})
	}
	wg.Wait()
	cached, all := int64(0), int64(0)
	for i, e := range p.engines {
		s := e.Stats()
		cached, all = cached+s.CachedTokens, all+s.PromptTokens
		t.Logf("%s: engine %d: %d requests, %.0f%% cached", policy, i, s.Requests, 100*float64(s.CachedTokens)/float64(s.PromptTokens))
	}
	share := float64(cached) / float64(all)
	t.Logf("%s: %.1f%% of %d prompt tokens cached", policy, 100*share, all)
	return share
}

// filler is text of n bytes that differs from its first bytes on for each id.
func filler(id, n int) string {
	text := fmt.Sprintf("%d %s talks about number %d. ", id, canary, id*7919)
	return strings.Repeat(text, n/len(text)+1)[:n]
}
