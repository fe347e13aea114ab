// Package tiers has the end-to-end tests of tiers and arms: what overflows, what comes back, what
// leaves the house, and which calls are an arm's.
package tiers

import (
	"os"
	"testing"

	"penstock/proxy/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m, 4)) }
