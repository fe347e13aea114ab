// Package acme contains the end-to-end tests of certificates obtained by ACME.
package acme

import (
	"os"
	"testing"

	"penstock/proxy/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m, 4)) }
