// Package fastset skips long tests in `go test -short ./...`. The remaining tests are fast enough
// to run for every change. It imports no other package of this module, so tests in any package can
// use it.
package fastset

import (
	"os"
	"testing"
)

// IsShort reports whether long tests are skipped. They are skipped with -short, unless CI is set,
// as in .ci/run and on build machines.
func IsShort() bool { return testing.Short() && os.Getenv("CI") == "" }

// SkipIfShort skips a long test if IsShort returns true. what describes the untested behaviour in
// the skip message.
func SkipIfShort(t testing.TB, what string) {
	t.Helper()
	if IsShort() {
		t.Skip("SKIPPED with -short: " + what)
	}
}
