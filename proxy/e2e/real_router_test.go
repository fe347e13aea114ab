//go:build unix

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"penstock/proxy/e2e/rig"
)

// TestRealRouterSwaps sends random calls for three models to llama.cpp's router, which keeps one
// model in memory. No call may be lost, at most one in four calls may load a model, and no slot may
// stay occupied.
func TestRealRouterSwaps(t *testing.T) {
	const callers, each = 12, 8
	router, ok := tryRealEngine(t, realPort(t), "llama", "markov", "-m", "", "--models-dir", "/models", "--models-max", "1")
	if !ok {
		t.Fatalf("the router did not start:\n%s", router.out)
	}
	models, lines := []string{"markov", "markov-slow", "embed"}, ""
	for _, id := range models {
		lines += fmt.Sprintf("\n  - { id: %s, queue: { depth: 64, wait: 300s }, deployments: [{ upstream: router }] }", id)
	}
	p := startReal(t, 1, fmt.Sprintf("upstreams: [{ name: router, url: %q, residents: 1, concurrency: 4 }]\nmodels:%s", router.url, lines))
	var all sync.WaitGroup
	var lost atomic.Int64
	for i := range callers {
		random := rand.New(rand.NewPCG(uint64(i), 7))
		all.Go(func() {
			for range each {
				streamed := random.IntN(2) == 0
				body := rig.ChatBody(models[random.IntN(len(models))], fmt.Sprintf(`"max_tokens":%d,"ignore_eos":true,"stream":%t`, 2+random.IntN(30), streamed))
				r := p.Post(chatPath, body)
				if r.Status != 200 || strings.Contains(r.Body, `"error"`) || streamed != strings.Contains(r.Body, "[DONE]") {
					lost.Add(1)
					t.Errorf("a call is lost: %d %q", r.Status, r.Body)
				}
			}
		})
	}
	all.Wait()
	p.WaitIdle()
	loads := strings.Count(router.out.String(), "spawning server instance with name=")
	t.Logf("%d calls, %d lost, %d loads", callers*each, lost.Load(), loads)
	if loads < len(models) || loads > callers*each/4 {
		t.Errorf("%d loads for %d calls", loads, callers*each)
	}
	if n := p.Metric("penstock_upstream_inflight"); n != 0 {
		t.Errorf("%v slots are held", n)
	}
}
