// Package prometheus has the end-to-end test of what operators ask a Prometheus for: it runs one,
// lets it scrape edges with calls of all kinds, and asks it for each query of the board and for
// each alert rule of .deploy.
package prometheus

import (
	"os"
	"testing"

	"penstock/proxy/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m, 1)) }
