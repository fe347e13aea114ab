package benchtest

import (
	"testing"

	"penstock/bench/sim"
)

// StartEngine starts a simulated engine, and stops it when the test ends.
func StartEngine(t *testing.T, o sim.Options) *sim.Engine {
	t.Helper()
	e := sim.New(o)
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}
