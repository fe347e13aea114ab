package e2e

import (
	"strings"
	"sync"
	"testing"

	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// TestBatchKeysTakeWhatIsLeft checks that calls of a key in class batch leave the model's reserve
// free, and that calls of other keys can displace them from the queue.
func TestBatchKeysTakeWhatIsLeft(t *testing.T) {
	t.Parallel()
	other, hash, _ := auth.NewKey()
	p := start(t, rig.Setup{
		Key: "class: batch", Keys: `- { id: other, hash: "` + hash + `" }`,
		Upstream: "concurrency: 4", Model: "reserve: 25%, queue: { depth: 1, wait: 60s }",
	})
	as := "Authorization: Bearer " + other
	release := p.hold(3, p.ChatRequest(endlessStream))
	var calls sync.WaitGroup
	// The free slot is the reserve.
	calls.Go(func() { p.Post(chatPath, p.ChatRequest("")).WantError(429, "rate_limit_error", "capacity_full") })
	rig.WaitFor(t, rig.WaitTimeout, "it waits", func() bool { return p.Metric("penstock_model_queue_waiting") == 1 })
	// Displaces the batch call from the queue, and uses the reserve.
	p.Post(chatPath, p.ChatRequest(""), as).WantStatus(200)
	calls.Wait()
	release()
}

// TestFreeSlotIsTakenFirst checks that a call uses the free reserve even though a batch call is
// waiting.
func TestFreeSlotIsTakenFirst(t *testing.T) {
	t.Parallel()
	other, hash, _ := auth.NewKey()
	p := start(t, rig.Setup{
		Key: "class: batch", Keys: `- { id: other, hash: "` + hash + `" }`,
		Upstream: "concurrency: 2", Model: "reserve: 50%, queue: { depth: 2, wait: 60s }",
	})
	var calls sync.WaitGroup
	calls.Go(func() { p.Post(chatPath, p.ChatRequest(`"sim":{"tokens":30,"delay_ms":100}`)).WantStatus(200) })
	rig.WaitFor(t, rig.WaitTimeout, "a call of the batch runs", func() bool { return p.Engines[0].Stats().Running == 1 })
	calls.Go(func() { p.Post(chatPath, p.ChatRequest("")).WantStatus(200) })
	rig.WaitFor(t, rig.WaitTimeout, "another one waits", func() bool { return p.Metric("penstock_model_queue_waiting") == 1 })
	p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer "+other).WantStatus(200)
	calls.Wait()
}

// TestRunningCallsStay checks that a call that finds no slot is refused or waits, regardless of the
// class of the running calls. The log must name a call's class unless the class is the first in the
// configuration.
func TestRunningCallsStay(t *testing.T) {
	t.Parallel()
	user, hash, _ := auth.NewKey()
	p := start(t, rig.Setup{
		Key: "class: nightly", Keys: `- { id: user, hash: "` + hash + `" }`, Upstream: "concurrency: 1",
		Top: "classes: [{ name: people }, { name: nightly }]",
	})
	as := "Authorization: Bearer " + user
	var calls sync.WaitGroup
	calls.Go(func() { p.Post(chatPath, p.ChatRequest(`"sim":{"tokens":20,"delay_ms":200}`)).WantStatus(200) })
	rig.WaitFor(t, rig.WaitTimeout, "it runs", func() bool { return p.Engines[0].Stats().Running == 1 })
	p.Post(chatPath, p.ChatRequest(""), as).WantError(429, "rate_limit_error", "capacity_full")
	calls.Wait()
	p.Post(chatPath, p.ChatRequest(`"service_tier":"flex"`), as).WantStatus(200)
	rig.WaitFor(t, rig.WaitTimeout, "the log names the class of both", func() bool {
		return strings.Count(p.Log.String(), `"class":"nightly"`) == 2
	})
	if n := p.Metric("penstock_class_calls_total", `class="nightly"`); n != 2 {
		t.Errorf("%v calls of the class", n)
	}
}
