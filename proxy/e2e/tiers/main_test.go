// Package tiers has the end-to-end tests of tiers: what overflows, what comes back, and what leaves
// the house.
package tiers

import (
	"os"
	"testing"

	"penstock/proxy/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m, 4)) }
