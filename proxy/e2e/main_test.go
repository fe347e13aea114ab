package e2e

import (
	"os"
	"testing"

	"penstock/proxy/e2e/rig"
)

// TestMain runs the tests in parallel.
func TestMain(m *testing.M) { os.Exit(rig.Main(m, 16)) }
