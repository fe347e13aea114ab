//go:build !testing

package upstreams

// bug reports a violated invariant that the program survives. A release build ignores it; a build
// with `-tags testing` panics.
func bug(string) {}

const testingBuild = false
