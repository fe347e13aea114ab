package e2e

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// TestFloodLeavesOthersTheirPart runs 64 closed loops with one key against a model with four slots
// and no queue. A client with another key that obeys Retry-After must receive a slot for at least
// two of every five requests. If there is no such client, the flood may use all slots.
func TestFloodLeavesOthersTheirPart(t *testing.T) {
	t.Parallel()
	const loops, wanted = 64, 6
	other, hash, _ := auth.NewKey()
	p := start(t, rig.Setup{Keys: `- { id: other, hash: "` + hash + `" }`, Upstream: "concurrency: 4"})
	body := p.ChatRequest(`"sim":{"tokens":2,"delay_ms":50}`)
	var flood sync.WaitGroup
	var served, refused atomic.Int64
	over := make(chan struct{})
	for range loops {
		flood.Go(func() {
			repeatUntil(over, func() {
				if p.Post(chatPath, body).Status == 200 {
					served.Add(1)
					return
				}
				refused.Add(1)
				time.Sleep(250 * time.Millisecond) // ignores Retry-After
			})
		})
	}
	defer flood.Wait()
	defer sync.OnceFunc(func() { close(over) })()
	rig.WaitFor(t, rig.WaitTimeout, "the flood has the slots", func() bool { return served.Load() > 40 && refused.Load() > 40 })
	if n := p.Metric("penstock_calls_yielded_total"); n != 0 {
		t.Errorf("%v calls yielded while the flood was alone", n)
	}
	asked, got, delayed := 0, 0, 0
	var lastAsk time.Time // when the client was last refused; zero if never, or if it has been answered since
	for got < wanted && asked < wanted*5/2 {
		asked++
		begun := time.Now()
		r := p.Post(chatPath, body, "Authorization: Bearer "+other)
		if r.Status == 200 {
			got++
			lastAsk = time.Time{}
			time.Sleep(100 * time.Millisecond) // during this time, the flood may use the slot
			continue
		}
		after, err := strconv.Atoi(r.WantStatus(429).Header.Get("Retry-After"))
		if err != nil {
			t.Fatal(err)
		}
		wait := time.Duration(after) * time.Second
		if !lastAsk.IsZero() && time.Since(lastAsk) > wait+wait/4 {
			if delayed++; delayed > 60 {
				t.Fatal("the machine delays every call")
			}
			asked-- // a busy machine has delayed the request, so the claim may have expired
		}
		lastAsk = begun
		time.Sleep(wait)
	}
	t.Logf("the client got %d of %d, the flood %d of %d", got, asked, served.Load(), served.Load()+refused.Load())
	if got < wanted {
		t.Errorf("%d of %d calls were served", got, asked)
	}
	if p.Metric("penstock_calls_yielded_total") == 0 {
		t.Error("no call yielded")
	}
}
