// Package support makes the bundle for a bug report: the facts that maintainers ask for first, in
// one archive that the operator can inspect before sending it.
//
// # Contents
//
// collect.go lists the files: version, system, the configuration with the output of `check`, and
// pages from a running edge (running.go): state, events, metrics, limits, goroutines, heap. A
// missing file is listed with the reason. The edge's log is not included.
//
// # Design
//
// The bundle contains no secret. Package config rewrites the configuration, in which the type of a
// setting marks it as a secret. A configuration that is not YAML is omitted. By the edge's rules,
// the pages of the admin listener contain no prompt, reply or key. Ids that an identity provider
// has chosen, and names of operators, are removed from these pages (running.go). Finally, every
// text that config has recognized as a secret is removed from all files (scrub.go), because an
// operator may have written a secret in a second place.
//
// The archive has mode 0600, and an existing file is never overwritten.
package support
