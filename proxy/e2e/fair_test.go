package e2e

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

func repeatUntil(over <-chan struct{}, f func()) {
	for {
		select {
		case <-over:
			return
		default:
			f()
		}
	}
}

// TestKeysShareSlotsByTokens checks that keys whose calls are always waiting share a model's two
// slots by tokens. A key with weight 2 must receive twice as many tokens as a key with weight 1.
// Both keys have the same number of loops, and the first key's calls are a tenth as large.
func TestKeysShareSlotsByTokens(t *testing.T) {
	t.Parallel()
	const loops, smallTokens, largeTokens, most = 16, 6, 60, 200
	other, hash, _ := auth.NewKey()
	p := start(t, rig.Setup{
		Key: "weight: 2", Keys: `- { id: other, hash: "` + hash + `" }`,
		Upstream: "concurrency: 2", Model: "queue: { depth: 64, wait: 300s }",
	})
	var all sync.WaitGroup
	var large, small, largeThen atomic.Int64
	over := make(chan struct{})
	stop := sync.OnceFunc(func() {
		// From now on, the counts no longer show the shares: no new calls start, and the waiting
		// small calls end before the waiting large calls.
		largeThen.Store(large.Load())
		close(over)
	})
	loop := func(served *atomic.Int64, tokens int, headers ...string) {
		// Slow enough that both keys always have waiting calls.
		body := p.ChatRequest(fmt.Sprintf(`"sim":{"tokens":%d,"delay_ms":10}`, tokens))
		for range loops {
			all.Go(func() {
				repeatUntil(over, func() {
					p.Post(chatPath, body, headers...).WantStatus(200)
					if served.Add(1) == most && served == &small {
						stop()
					}
				})
			})
		}
	}
	loop(&small, smallTokens)
	loop(&large, largeTokens, "Authorization: Bearer "+other)
	all.Wait()
	perCall := func(key string, calls int64) (weight float64) {
		for kind, each := range map[string]float64{"prompt": 1, "cached": -1, "completion": 4} {
			weight += each * p.Metric("penstock_key_tokens_total", `key="`+key+`"`, `kind="`+kind+`"`)
		}
		return weight / float64(calls)
	}
	ratio := most * perCall("tester", small.Load()) / (float64(largeThen.Load()) * perCall("other", large.Load()))
	t.Logf("%d small calls beside %d large ones: %.2f times the tokens", most, largeThen.Load(), ratio)
	if ratio < 1.5 || ratio > 2.6 {
		t.Errorf("the key of weight 2 was served %.2f times the tokens of the other", ratio)
	}
}

// TestAgentIsServedDespiteFlood checks that, while a call of a key with one loop is waiting, only a
// few calls of a key with sixteen loops are served.
func TestAgentIsServedDespiteFlood(t *testing.T) {
	t.Parallel()
	const loops, slots, asked = 16, 4, 25
	other, hash, _ := auth.NewKey()
	p := start(t, rig.Setup{
		Keys:     `- { id: other, hash: "` + hash + `" }`,
		Upstream: "concurrency: 4", Model: "queue: { depth: 64, wait: 300s }",
	})
	var flood sync.WaitGroup
	over := make(chan struct{})
	var served atomic.Int64
	for range loops {
		flood.Go(func() {
			repeatUntil(over, func() {
				p.Post(chatPath, p.ChatRequest(`"stream":true,"sim":{"tokens":40,"delay_ms":5}`)).WantStatus(200)
				served.Add(1)
			})
		})
	}
	defer flood.Wait()
	defer close(over)
	rig.WaitFor(t, rig.WaitTimeout, "the flood waits for slots", func() bool { return p.Metric("penstock_model_queue_waiting") >= loops/2 })
	overtook := int64(0)
	for range asked {
		before := served.Load()
		p.Post(chatPath, p.ChatRequest(`"sim":{"tokens":2}`), "Authorization: Bearer "+other).WantStatus(200)
		overtook += served.Load() - before
	}
	// If calls were served in order of arrival, the flood's twelve waiting calls and some running
	// calls would come first.
	t.Logf("%.1f calls of the flood were served during one of the agent's", float64(overtook)/asked)
	if overtook > asked*2*slots {
		t.Errorf("%d calls of the flood were served during %d of the agent's", overtook, asked)
	}
}
