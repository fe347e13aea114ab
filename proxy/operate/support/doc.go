// Package support makes the bundle of a bug report: what maintainers ask for first, in one archive
// that its operator can look through before it leaves the house.
//
// # What is in it
//
// collect.go lists the parts: version, system, the configuration and what `check` says of it, and
// what a running edge shows (running.go): state, events, metrics, limits, goroutines, heap. A part
// that cannot be had is named with the reason. What an edge writes to its log is not known here.
//
// # Design
//
// No secret leaves. The configuration is written anew by package config, which knows by the type of
// each setting what is a secret; a file that is no YAML is left out. The pages of the admin
// listener hold no prompt, reply or key by the rules of the edge. Ids that an identity provider has
// chosen, and names of operators, are cut out of them (running.go). Last, every text that config
// took for a secret is looked for in every part and removed there (scrub.go): an operator may have
// put it in a second place.
//
// The archive has mode 0600, and an existing file is left as it is.
package support
