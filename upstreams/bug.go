//go:build !testing

package upstreams

// bug marks a contradiction in the program after which it can continue. In a release bug does
// nothing; under `-tags testing` it panics.
func bug(string) {}

const testingBuild = false
