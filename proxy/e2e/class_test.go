package e2e

import (
	"strings"
	"sync"
	"testing"

	"penstock/proxy/auth"
	"penstock/proxy/e2e/rig"
)

// TestBatchKeysTakeWhatIsLeft: calls of a key with the class batch leave the model's reserve free, and lose their place in
// its queue to a call of another key.
func TestBatchKeysTakeWhatIsLeft(t *testing.T) {
	t.Parallel()
	other, hash, _ := auth.NewKey()
	p := start(t, rig.Setup{
		Key: "class: batch", Keys: `- { id: other, hash: "` + hash + `" }`,
		Upstream: "concurrency: 4", Model: "reserve: 25%, queue: { depth: 1, wait: 60s }",
	})
	as := "Authorization: Bearer " + other
	release := p.hold(3, p.Chat(endless))
	var calls sync.WaitGroup
	calls.Go(func() { p.Post(chatPath, p.Chat("")).WantError(429, "rate_limit_error", "capacity_full") }) // a slot is free, and not for it
	rig.WaitFor(t, rig.Patience, "it waits", func() bool { return p.Metric("penstock_model_queue_waiting") == 1 })
	p.Post(chatPath, p.Chat(""), as).WantStatus(200) // takes the batch's place in the queue, and the reserve
	calls.Wait()
	release()
}

// TestFreeSlotIsTakenFirst: a call that finds the reserve free beside a waiting call of a batch takes it, and sends nobody away.
func TestFreeSlotIsTakenFirst(t *testing.T) {
	t.Parallel()
	other, hash, _ := auth.NewKey()
	p := start(t, rig.Setup{
		Key: "class: batch", Keys: `- { id: other, hash: "` + hash + `" }`,
		Upstream: "concurrency: 2", Model: "reserve: 50%, queue: { depth: 2, wait: 60s }",
	})
	var calls sync.WaitGroup
	calls.Go(func() { p.Post(chatPath, p.Chat(`"sim":{"tokens":30,"delay_ms":100}`)).WantStatus(200) })
	rig.WaitFor(t, rig.Patience, "a call of the batch runs", func() bool { return p.Engines[0].Stats().Running == 1 })
	calls.Go(func() { p.Post(chatPath, p.Chat("")).WantStatus(200) })
	rig.WaitFor(t, rig.Patience, "another one waits", func() bool { return p.Metric("penstock_model_queue_waiting") == 1 })
	p.Post(chatPath, p.Chat(""), "Authorization: Bearer "+other).WantStatus(200)
	calls.Wait()
	if n := p.Metric("penstock_sent_away_calls_total", `class="batch"`); n != 0 {
		t.Errorf("%v were sent away beside a free slot", n)
	}
}

// TestLaterClassesAreSentAway: a call that finds no slot gets that of a call of a later class which has shown its client
// nothing. That one gets the refusal of a full pool. What has shown something stays.
func TestLaterClassesAreSentAway(t *testing.T) {
	t.Parallel()
	for name, model := range map[string]string{"at once": "", "in a queue": "queue: { depth: 4, wait: 60s }"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			user, hash, _ := auth.NewKey()
			p := start(t, rig.Setup{
				Key: "class: nightly", Keys: `- { id: user, hash: "` + hash + `" }`, Upstream: "concurrency: 1", Model: model,
				Top: "classes: [{ name: people }, { name: reports }, { name: nightly }]",
			})
			as := "Authorization: Bearer " + user
			const long = `"sim":{"tokens":100000,"delay_ms":100}`
			running := func() bool { return p.Engines[0].Stats().Running == 1 }
			for class, send := range map[string]func() *rig.Reply{
				"nightly": func() *rig.Reply { return p.Post(chatPath, p.Chat(long)) },
				"flex":    func() *rig.Reply { return p.Post(chatPath, p.Chat(`"service_tier":"flex",`+long), as) },
			} {
				rig.WaitFor(t, rig.Patience, "the engine is at rest", func() bool { return !running() }) // of the calls before
				var calls sync.WaitGroup
				calls.Go(func() {
					r := send()
					r.WantError(429, "rate_limit_error", "capacity_full")
					if r.Header.Get("Retry-After") == "" {
						t.Errorf("%s: no Retry-After", class)
					}
				})
				rig.WaitFor(t, rig.Patience, "it runs", running)
				p.Post(chatPath, p.Chat(""), as).WantStatus(200)
				calls.Wait()
			}
			if n := p.Metric("penstock_sent_away_calls_total", `class="nightly"`); n != 2 {
				t.Errorf("%v were sent away", n)
			}
			if n := p.Metric("penstock_class_calls_total", `class="nightly"`); n != 2 {
				t.Errorf("%v calls of the class", n)
			}
			rig.WaitFor(t, rig.Patience, "the log names the class of both", func() bool {
				return strings.Count(p.Log.String(), `"class":"nightly"`) == 2
			})
			if model == "" {
				release := p.hold(1, p.Chat(endless)) // it has shown its first token
				p.Post(chatPath, p.Chat(""), as).WantError(429, "rate_limit_error", "capacity_full")
				release()
			}
		})
	}
}
