package e2e

import (
	"testing"

	"penstock/proxy/e2e/rig"
)

// TestFleetShares checks that two edges with one engine share its slots and their key's limits, and
// that a client that reaches only one of them gets no more than that edge's share. The catalog, the
// status page and the headers show the share.
func TestFleetShares(t *testing.T) {
	t.Parallel()
	const key = "limits: { requests_per_minute: 11 }"
	a := start(t, rig.Setup{Top: "fleet: { edges: 2 }", Upstream: "concurrency: 5", Key: key})
	b := start(t, rig.Setup{Top: "fleet: { edges: 2 }", Upstream: "concurrency: 5", Key: key, Fakes: []string{a.Engines[0].URL()}})
	if total := a.catalog("sim").Capacity.Total; total != 2 {
		t.Errorf("the catalog tells %d slots", total)
	}
	for _, edge := range []*penstock{a, b} {
		release := edge.hold(2, edge.Chat(endless))
		edge.Post(chatPath, edge.Chat("")).WantStatus(429)
		release()
		edge.Rest()
		for range 2 { // 3 of 5 are taken
			edge.Post(chatPath, edge.Chat("")).WantStatus(200)
		}
		if r := edge.Post(chatPath, edge.Chat("")).WantStatus(429); r.Header.Get("X-Ratelimit-Limit-Requests") != "5" {
			t.Errorf("the headers tell a limit of %s requests", r.Header.Get("X-Ratelimit-Limit-Requests"))
		}
	}
	if source := a.Upstream("up-0").Limits.Source; source != "config / 2 edges" {
		t.Errorf("the status tells slots from %q", source)
	}
}
