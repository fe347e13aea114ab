// Package build provides the version of the running program. It imports no package of ours, because
// the edge, its metrics, the commands and the load tester all use this package.
//
// # Design
//
// The file VERSION holds the version number that these sources have, or will have when released.
// The changelog, the Helm chart and every release have the same number; a test and the release
// command check this. A build that is not a release has the version vNUMBER-dev.gCOMMIT.
//
// Go records the module's version and revision in a binary only if it finds the git repository. An
// image is built without the repository, so its build may pass the version: -ldflags "-X
// penstock/proxy/build.version=$(git describe --tags --always --dirty)".
package build
