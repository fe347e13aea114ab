//go:build !testing

package upstreams

// reportBug reports a violated invariant that the program survives. In a build with `-tags testing`, bug
// panics. In other builds, it does nothing.
func reportBug(string) {}

const testingBuild = false
