// Package build tells which version of the program is running. It is a leaf: the edge, its metrics,
// the commands and the load tester all name the version by it.
//
// # Design
//
// The file VERSION holds the number of the version that these sources are, or will become. The
// changelog, the Helm chart and every release have the same number, which a test and the release
// command check. A build that is not a release is vNUMBER-dev.gCOMMIT.
//
// Go records the module's version and revision in a binary only where it finds the repository. An
// image is built without the repository, so its build may pass the version: -ldflags "-X
// penstock/proxy/build.version=$(git describe --tags --always --dirty)".
package build
