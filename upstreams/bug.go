//go:build !testing

package upstreams

// bug is called where the program contradicts itself and can go on all the same. In a release it
// does; under `-tags testing` it panics.
func bug(string) {}

const testingBuild = false
