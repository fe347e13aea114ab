// Package support makes the bundle of a bug report: the facts that maintainers ask for first, in
// one archive that the operator can inspect before sending it.
//
// # What is in it
//
// collect.go lists the parts: version, system, the configuration with the output of `check`, and
// the pages of a running edge (running.go): state, events, metrics, limits, goroutines, heap. A
// missing part is listed with the reason. The edge's log is not included.
//
// # Design
//
// The bundle contains no secret. Package config rewrites the configuration: the type of each
// setting marks the secrets. A file that is not YAML is omitted. By the rules of the edge, the
// pages of the admin listener hold no prompt, reply or key. Ids that an identity provider has
// chosen, and names of operators, are cut out of them (running.go). Finally, every text that config
// recognised as a secret is searched for in every part and removed (scrub.go): an operator may have
// put it in a second place.
//
// The archive has mode 0600, and an existing file is never overwritten.
package support
