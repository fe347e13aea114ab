//go:build !testing

package upstreams

// bug reports an internal inconsistency that the program can survive. In a release bug does
// nothing; under `-tags testing` it panics.
func bug(string) {}

const testingBuild = false
