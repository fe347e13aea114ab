//go:build !testing

package upstreams

// bug reports a violated invariant that the program survives. In a build with `-tags testing`, bug
// panics. In other builds, it does nothing.
func bug(string) {}

const testingBuild = false
