// Package support creates the bundle for a bug report: the facts that maintainers ask for first, in
// one archive that the operator can inspect before sending it.
//
// # Contents
//
// collect.go lists the files: version, system, the configuration with the output of `check`, and
// pages from a running edge (running.go): state, events, metrics, limits, goroutines, heap. A
// missing file is listed with the reason.
//
// # Design
//
// The bundle contains no secret. Package config rewrites the configuration, and recognizes secrets
// by the type of a setting. The pages of the admin listener never contain prompts, replies or keys.
// Names of operators, and ids that an identity provider has assigned, are removed from these pages
// (running.go). Finally, every text that config has recognized as a secret is removed from all
// files (scrub.go), because an operator may also have written the secret in another place.
//
// The archive has mode 0600, and an existing file is never overwritten.
package support
