package faults

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"penstock/config/testkit/fastset"
	"penstock/proxy/e2e/rig"
)

// TestMain runs the rows in parallel. If -short is set, it runs no tests and prints a message that
// says so.
func TestMain(m *testing.M) {
	flag.Parse()
	if fastset.IsShort() {
		fmt.Println("SKIPPED with -short: the fault matrix")
		_ = flag.Set("test.run", "^$")
	}
	os.Exit(rig.Main(m, 24))
}
