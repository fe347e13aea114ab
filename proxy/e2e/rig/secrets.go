package rig

import (
	"strings"
	"testing"

	"penstock/bench/sim"
)

// Canary is in every prompt of the rig. It must never appear in a log, a metric or an error.
const Canary = "CANARY-7f3a-prompt"

// Prompt is the user's text, which contains the canary.
const Prompt = "Say something about " + Canary + "."

// WantNoLeak checks that text contains neither a canary nor one of the secrets. where describes the
// text.
func WantNoLeak(t testing.TB, where, text string, secrets ...string) {
	t.Helper()
	for _, secret := range append(secrets, Canary, sim.LeakedHost, sim.LeakedPath, sim.LeakedSecret, sim.ForgedText) {
		if strings.Contains(text, secret) {
			t.Errorf("%s holds %q: %.300s", where, secret, text)
		}
	}
}
