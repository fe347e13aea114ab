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
	if u.Lacks = nil; !strings.Contains(u.trouble(), "connection reset") {
		t.Error(u.trouble())
	}
}

// An engine at work may leave its probes unanswered; one from which nothing has come for longer than that is named.
func TestTrouble_Unheard(t *testing.T) {
	u := Upstream{Status: upstreams.Status{Label: "a", State: "busy", Mode: "ready"}}
	if got := u.trouble(); got != "" {
		t.Error(got)
	}
	u.Unheard = 41
	if got, want := u.trouble(), "a does not answer its probes, and nothing has come from it for 41 s: it is busy or has stopped"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
