package faults

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestFault87_LongPrefills sends a thousand long prompts to engines that are silent while they read
// a prompt. As many calls as fit must be answered completely, and the others must be refused
// immediately. No engine may count as stalled, and memory must be limited. If PENSTOCK_FULL is not
// set, the test sends only sixty prompts, and the edge has less memory.
func TestFault87_LongPrefills(t *testing.T) {
	prompts, limit, silence := 60, "80MiB", "15s"
	if os.Getenv("PENSTOCK_FULL") != "" {
		prompts, limit, silence = 1000, "400MiB", "15s"
	}
	engine := sim.Options{MaxModelLen: 1 << 20}
	e := start(t, rig.Setup{
		Engines: []sim.Options{engine, engine}, Upstream: "concurrency: 64", Under: []string{"env", "GOMEMLIMIT=" + limit},
	})
	body := e.ChatRequest(`"stream":true,"sim":{"fault":"long-prefill=` + silence + `;chunks=5","tokens":5}`)
	body = strings.Replace(body, rig.Prompt, strings.Repeat("word ", 200_000), 1)
	var mu sync.Mutex
	outcomes := map[string]int{}
	var all sync.WaitGroup
	for range prompts {
		all.Go(func() {
			r := e.Post(rig.Chat.Path, body)
			outcome := http.StatusText(r.Status)
			switch {
			case r.Status == http.StatusOK && strings.HasSuffix(r.Body, "data: [DONE]\n\n") && !strings.Contains(r.Body, `"error"`):
				outcome = "answered"
			case r.Status == http.StatusServiceUnavailable && strings.Contains(r.Body, `"no_body_memory"`),
				r.Status == http.StatusTooManyRequests && strings.Contains(r.Body, `"capacity_full"`):
				if outcome = "refused"; r.Header.Get("Retry-After") == "" {
					t.Error("a refusal does not say when to come back")
				}
			}
			mu.Lock()
			outcomes[outcome]++
			mu.Unlock()
		})
	}
	all.Wait()
	t.Logf("%d prompts of %d bytes: %v, %d MiB at most", prompts, len(body), outcomes, e.MemoryBytes("VmHWM")>>20)
	if outcomes["answered"] < 10 || outcomes["refused"] < prompts/10 || outcomes["answered"]+outcomes["refused"] != prompts {
		t.Errorf("of %d prompts: %v", prompts, outcomes)
	}
	for _, metric := range []string{"penstock_upstream_stalled", "penstock_upstream_breaker_open", "penstock_calls_moved_total"} {
		if n := e.Metric(metric); n != 0 {
			t.Errorf("%s = %v, want 0", metric, n)
		}
	}
	e.WaitIdle()
	if n := e.Metric("penstock_body_memory_bytes"); n != 0 {
		t.Errorf("%v bytes are held for nobody", n)
	}
	peak := int64(140 << 20)
	if limit == "400MiB" {
		peak = 440 << 20
	}
	e.WantPeakMemory(peak)
}
