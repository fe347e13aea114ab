package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"penstock/proxy/e2e/rig"
)

// fleetMetrics is the prefix of the metrics that exist only if edges share limits.
const fleetMetrics = "penstock_fleet_"

// sharedFleet starts two edges with one engine and one store.
func sharedFleet(t *testing.T, address, lost, limits string) (a, b *penstock) {
	t.Helper()
	s := rig.Setup{Top: "fleet: { edges: 2, lost: " + lost + ", store: { url: \"redis://" + address + "\", timeout: 1s }, keys: { secrets: [\"0123456789abcdef0123456789abcdef\"] } }", Key: "limits: " + limits}
	a = start(t, s)
	s.Fakes = []string{a.Engines[0].URL()}
	b = start(t, s)
	for _, edge := range []*penstock{a, b} {
		rig.WaitFor(t, 10*time.Second, "both edges show themselves", func() bool { return edge.Metric("penstock_fleet_members") == 2 })
		rig.WaitFor(t, 10*time.Second, "the edge has read the store's keys", func() bool { return edge.Fetch("GET", edge.Admin+"/-/ready").Status == 200 })
	}
	return a, b
}

// TestSharedLimits checks that two edges with one store allow as much, in total, as a single edge.
func TestSharedLimits(t *testing.T) {
	t.Parallel()
	a, b := sharedFleet(t, miniredis.RunT(t).Addr(), "divide", "{ requests_per_minute: 9, tokens_per_minute: 100000, concurrency: 2 }")
	begun := time.Now()
	release := a.hold(1, a.ChatRequest(endlessStream))
	more := b.hold(1, b.ChatRequest(endlessStream))
	if r := b.Post(chatPath, b.ChatRequest("")).WantStatus(429); !strings.Contains(r.Body, "2 concurrent requests") {
		t.Errorf("answer = %s, want 2 concurrent requests", r.Body)
	}
	release()
	more()
	a.WaitIdle()
	b.WaitIdle()
	served := 3
	for i, refused := 0, 0; refused < 2; i++ { // until both edges have refused a call
		edge := []*penstock{a, b}[i%2]
		r := edge.Post(chatPath, edge.ChatRequest(""))
		if r.Status == 200 {
			served, refused = served+1, 0
			continue
		}
		refused++
		if r.WantStatus(429); r.Header.Get("X-Ratelimit-Limit-Requests") != "9" || r.Header.Get("Retry-After") == "" {
			t.Errorf("%v", r.Header)
		}
	}
	if again := int(time.Since(begun) / (time.Minute / 9)); served < 9 || served > 9+again {
		t.Errorf("%d of 9 requests a minute, of which %d came back", served, again)
	}
	wantShown(t, a.MetricsText(), func(name string) bool { // this edge has no certificates
		return strings.HasPrefix(name, fleetMetrics) && name != "penstock_fleet_certificates_refused_total"
	})
	// If a busy machine delays the store's response beyond the timeout, the store briefly counts as
	// lost.
	rig.WaitFor(t, rig.WaitTimeout, "the status tells that the store answers", func() bool {
		s := a.Status()
		return s.Fleet.StoreAnswers && len(s.Fleet.Members) == 2
	})
}

// TestStoreLost checks that, while the store is down, no call fails or waits for the store, and
// that the edges behave as fleet.lost demands.
func TestStoreLost(t *testing.T) {
	t.Parallel()
	for lost, status := range map[string]int{"divide": 200, "open": 200, "closed": 503} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			store := miniredis.RunT(t)
			a, b := sharedFleet(t, store.Addr(), lost, "{ requests_per_minute: 600 }")
			a.Post(chatPath, a.ChatRequest("")).WantStatus(200)
			store.Close()
			rig.WaitFor(t, 10*time.Second, "the store is found lost", func() bool { return a.Metric("penstock_fleet_store_up") == 0 })
			for _, edge := range []*penstock{a, b} { // b sees the key for the first time
				if r := edge.Post(chatPath, edge.ChatRequest("")).WantStatus(status); status == 503 && !strings.Contains(r.Body, "limits_unavailable") {
					t.Errorf("answer = %s, want limits_unavailable", r.Body)
				}
			}
			if err := store.Restart(); err != nil {
				t.Fatal(err)
			}
			rig.WaitFor(t, 10*time.Second, "the store is found again", func() bool { return a.Metric("penstock_fleet_store_up") == 1 })
			a.Post(chatPath, a.ChatRequest("")).WantStatus(200)
		})
	}
}
