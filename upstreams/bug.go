//go:build !testing

package upstreams

// reportBug is called when an invariant is violated. In a build with `-tags testing`, reportBug
// panics. In other builds, it does nothing, and the program continues.
func reportBug(string) {}

const testingBuild = false
