// Package fastset leaves long tests out of the fast set, `go test -short ./...`, which is quick
// enough for every change. Tests of any package can use it, because it imports no package of ours.
package fastset

import (
	"os"
	"testing"
)

// On reports whether long tests are left out: with -short, but never if CI is set, as in .ci/run
// and on build machines.
func On() bool { return testing.Short() && os.Getenv("CI") == "" }

// LeaveOut skips a long test, and prints what is not tested.
func LeaveOut(t testing.TB, what string) {
	t.Helper()
	if On() {
		t.Skip("SKIPPED with -short: " + what)
	}
}
