package e2e

import (
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
)

// TestFleetShares checks that two edges with the same engine divide its slots, and the limits of a
// key, between them. A client that reaches only one edge must receive no more than that edge's
// share. The catalog, the status page and the headers must show this share.
func TestFleetShares(t *testing.T) {
	t.Parallel()
	const key = "limits: { requests_per_minute: 11 }"
	a := start(t, rig.Setup{Top: "fleet: { edges: 2 }", Upstream: "concurrency: 5", Key: key})
	b := start(t, rig.Setup{Top: "fleet: { edges: 2 }", Upstream: "concurrency: 5", Key: key, Fakes: []string{a.Engines[0].URL()}})
	if total := a.catalog("sim").Capacity.Total; total != 2 {
		t.Errorf("the catalog tells %d slots", total)
	}
	for _, edge := range []*penstock{a, b} {
		begun := time.Now()
		release := edge.hold(2, edge.ChatRequest(endlessStream))
		edge.Post(chatPath, edge.ChatRequest("")).WantStatus(429)
		release()
		edge.WaitIdle()
		served := 3
		r := edge.Post(chatPath, edge.ChatRequest(""))
		for ; r.Status == 200; r = edge.Post(chatPath, edge.ChatRequest("")) {
			served++
		}
		if r.WantStatus(429); r.Header.Get("X-Ratelimit-Limit-Requests") != "5" {
			t.Errorf("the headers tell a limit of %s requests", r.Header.Get("X-Ratelimit-Limit-Requests"))
		}
		if again := int(time.Since(begun) / (time.Minute / 5)); served < 5 || served > 5+again {
			t.Errorf("%d of 5 requests a minute, of which %d came back", served, again)
		}
	}
	if source := a.Upstream("up-0").Limits.Source; source != "config / 2 edges" {
		t.Errorf("the status tells slots from %q", source)
	}
}
