//go:build !testing

package upstreams

// panicIfTesting is called when an invariant is violated. In a build with `-tags testing`,
// panicIfTesting panics. In other builds, it does nothing, and the program continues.
func panicIfTesting(string) {}

const testingBuild = false
