package realtime

import (
	"os"
	"testing"

	"penstock/proxy/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m, 4)) }
