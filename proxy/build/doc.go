// Package build tells which version of the program is running. It is a leaf: the edge, its metrics,
// the commands and the load tester all name the version by it.
//
// # Design
//
// Go records the module's version and revision in a binary only where it finds the repository. An
// image is built without it, so its build hands the version over: -ldflags "-X
// penstock/proxy/build.version=$(git describe --tags --always --dirty)".
package build
