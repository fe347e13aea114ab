// Package fastset leaves long tests out of the fast set, `go test -short ./...`, which is quick
// enough for every change. Tests of any package can use it, because it imports nothing of ours.
package fastset

import (
	"os"
	"testing"
)

// On reports whether long tests are left out: with -short, and never where CI is set, as it is in
// .ci/run and on machines that build.
func On() bool { return testing.Short() && os.Getenv("CI") == "" }

// LeaveOut skips a test that takes long; what is not tested then stands in the output.
func LeaveOut(t testing.TB, what string) {
	t.Helper()
	if On() {
		t.Skip("SKIPPED with -short: " + what)
	}
}
