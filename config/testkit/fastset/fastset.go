// Package fastset skips long tests in the fast set, `go test -short ./...`, so that the fast set
// can run for every change. It imports no package of ours, so tests of any package can use it.
package fastset

import (
	"os"
	"testing"
)

// On reports whether long tests are skipped: with -short, but never if CI is set, as in .ci/run and
// on build machines.
func On() bool { return testing.Short() && os.Getenv("CI") == "" }

// LeaveOut skips a long test, and prints which property stays untested.
func LeaveOut(t testing.TB, what string) {
	t.Helper()
	if On() {
		t.Skip("SKIPPED with -short: " + what)
	}
}
