// Package build tells which version of the program is running. It is a leaf: the edge, its metrics,
// the commands and the load tester all name the version by it.
//
// # Design
//
// The file VERSION has the number of the version that the sources are, or become. The changelog,
// the Helm chart and every release have the same number, which a test and the release command
// check. A build that is no release is vNUMBER-dev.gCOMMIT.
//
// Go records the module's version and revision in a binary only where it finds the repository. An
// image is built without it, so its build may hand the version over: -ldflags "-X
// penstock/proxy/build.version=$(git describe --tags --always --dirty)".
package build
