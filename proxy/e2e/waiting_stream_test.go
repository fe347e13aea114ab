package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
)

// These tests check streams that wait for a slot. After commit_after, their clients receive
// keep-alives, which do not affect the wait.

const (
	oneSlot   = "concurrency: 1"
	soonAlive = "commit_after: 50ms, keepalive: 50ms"
)

// TestWaitingStreamIsKeptAlive checks that, in each dialect, the answer follows the keep-alives,
// and that the dialect's SDK can read both the keep-alives and the answer.
func TestWaitingStreamIsKeptAlive(t *testing.T) {
	t.Parallel()
	for dialect, ask := range streamDialects {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Upstream: oneSlot, Model: "queue: { depth: 4, wait: 60s }", Stream: soonAlive})
			want, err := ask(t, p, rig.Prompt, `"tokens":5`)
			if err != nil {
				t.Fatal(err)
			}
			release := p.hold(1, p.ChatRequest(endlessStream))
			var freed sync.WaitGroup
			freed.Go(func() {
				rig.WaitFor(t, rig.WaitTimeout, "the call waits", func() bool { return p.Metric("penstock_model_queue_waiting") == 1 })
				time.Sleep(600 * time.Millisecond)
				release()
			})
			got, err := ask(t, p, rig.Prompt, `"tokens":5`)
			freed.Wait()
			if err != nil || got != want || got.text == "" {
				t.Errorf("it gets %+v, %v, and should get %+v", got, err, want)
			}
			waited := 0
			for _, l := range p.AccessLinesWhenIdle() {
				if l.Outcome == "ok" && l.QueueMS > 300 && l.Upstream == "up-0" && l.Attempts == 1 {
					waited++
				}
			}
			if waited != 1 {
				t.Errorf("the log has %+v", p.AccessLines())
			}
		})
	}
}

// TestWaitingStreamEnds checks that, if the wait fails after keep-alives have been sent, the stream
// ends with an error in its dialect.
func TestWaitingStreamEnds(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: oneSlot, Model: "queue: { depth: 4, wait: 2s }", Stream: soonAlive})
	defer p.hold(1, p.ChatRequest(endlessStream))()
	for _, w := range rig.StreamRequestTypes {
		r := p.LocalEdge.Edge.SendRequest(w, "").WantStatus(200)
		events := r.Events()
		if len(events) == 0 {
			t.Fatalf("%v: no events, want some: %q", w, r.Body)
		}
		said, alive := r.Body, strings.Contains(r.Body, "event: ping") || strings.HasPrefix(r.Body, ":") || strings.Count(r.Body, "event: response.in_progress") > 2
		code := map[string]string{"chat": "capacity_full", "messages": "capacity_full", "responses": "rate_limit_exceeded"}[w.Dialect]
		if !alive || !strings.Contains(said, code) || strings.Contains(said, "finish_reason\":\"") {
			t.Errorf("%v ends with %q", w, said)
		}
	}
}

// TestWaitingStreamLeaves checks that a client that disconnects after keep-alives leaves the queue
// and does not use a slot.
func TestWaitingStreamLeaves(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: oneSlot, Model: "queue: { depth: 1, wait: 60s }", Stream: soonAlive})
	release := p.hold(1, p.ChatRequest(endlessStream))
	ctx, leave := context.WithCancel(context.Background())
	// The head has been sent, so the call waits with keep-alives.
	res := p.OpenResponse(ctx, "POST", chatPath, p.ChatRequest(`"stream":true`))
	if res.StatusCode != 200 || p.Metric("penstock_model_queue_waiting") != 1 {
		t.Errorf("status %d, %v wait", res.StatusCode, p.Metric("penstock_model_queue_waiting"))
	}
	p.Post(chatPath, p.ChatRequest("")).WantError(429, "rate_limit_error", "capacity_full")
	leave()
	res.Body.Close()
	rig.WaitFor(t, rig.WaitTimeout, "it has left the queue", func() bool { return p.Metric("penstock_model_queue_waiting") == 0 })
	release()
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
}
