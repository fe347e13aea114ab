// Package tiers contains the end-to-end tests of tiers and arms: overflow, external engines,
// fallbacks, arms and shadows.
package tiers

import (
	"os"
	"testing"

	"penstock/proxy/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m, 4)) }
