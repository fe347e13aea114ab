package status

import (
	"strings"
	"testing"

	"penstock/upstreams"
)

// TestTroubleIsThePresentOne checks that an engine whose refusals other engines answer is blamed
// for these, and not for a failure that its breaker still holds.
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

// TestTrouble_Unheard checks that a working engine may leave its probes unanswered, and that an
// engine is named once it has sent nothing for longer than that.
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
