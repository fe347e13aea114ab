// Package tiers has the end-to-end tests of tiers and arms: overflow and its end, calls that leave
// the house, and the calls of an arm.
package tiers

import (
	"os"
	"testing"

	"penstock/proxy/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m, 4)) }
