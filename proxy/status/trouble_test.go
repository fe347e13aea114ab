package status

import (
	"strings"
	"testing"

	"penstock/upstreams"
)

// TestTroubleIsThePresentOne: an engine whose refusals others answer is blamed for these, not for a
// failure that its breaker remembers.
func TestTroubleIsThePresentOne(t *testing.T) {
	u := &Upstream{Status: upstreams.Status{
		Label: "a", State: "up", Mode: "ready", Breaker: "half_open",
		LastFailure: &upstreams.LastFailure{During: "call", Reason: "reset"},
		Lacks:       []upstreams.Lack{{Served: "m", Feature: "chat", Status: 400}},
	}}
	if got := u.trouble(); !strings.Contains(got, "a refuses chat (status 400)") || strings.Contains(got, "reset") {
		t.Error(got)
	}
	if u.Lacks = nil; !strings.Contains(u.trouble(), "reset") {
		t.Error(u.trouble())
	}
}
