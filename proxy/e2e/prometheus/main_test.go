// Package prometheus contains the end-to-end test of the dashboard and the alerts. It runs a
// Prometheus that scrapes edges, and evaluates each query of the dashboard and each alert rule of
// .deploy.
package prometheus

import (
	"os"
	"testing"

	"penstock/proxy/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m, 1)) }
