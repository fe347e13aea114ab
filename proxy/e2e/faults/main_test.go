package faults

import (
	"os"
	"testing"

	"penstock/proxy/e2e/rig"
)

// TestMain runs the rows side by side.
func TestMain(m *testing.M) { os.Exit(rig.Main(m, 24)) }
