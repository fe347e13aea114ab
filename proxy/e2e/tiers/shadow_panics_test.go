//go:build testing

package tiers

import (
	"testing"

	"penstock/proxy/e2e/rig"
	"penstock/proxy/telemetry/guard"
)

// TestShadowPanics checks that a panic in a copy ends only the copy, and that all resources of the
// copy are released.
func TestShadowPanics(t *testing.T) {
	t.Parallel()
	s := shadowSetup("100%", "")
	s.Guard, s.Untidy = guard.New(), true
	p := rig.Start(t, s)
	s.Guard.Inject("shadow.run", 1)
	p.SendPrompt(rig.Chat, rig.Prompt, "").WantStatus(200)
	waitCopies(t, p, "failed", 1)
	p.WaitIdle()
	p.SendPrompt(rig.ChatStream, rig.Prompt, "").WantStatus(200)
	waitCopies(t, p, "ok", 1)
	p.WaitIdle()
	if n := s.Guard.PanicCount(guard.PlaceShadow); n != 1 {
		t.Errorf("%d panics, want 1", n)
	}
}
