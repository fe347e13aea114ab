// Package support makes the bundle of a bug report: what maintainers ask for first, in one archive
// that its operator can look through before sending it.
//
// # What is in it
//
// collect.go lists the parts: version, system, the configuration and what `check` says of it, and
// what a running edge shows (running.go): state, events, metrics, limits, goroutines, heap. A
// missing part is listed with the reason. The edge's log is not included.
//
// # Design
//
// No secret leaves. Package config writes the configuration anew: it knows from the type of each
// setting which ones are secrets. A file that is not YAML is left out. The pages of the admin
// listener hold no prompt, reply or key by the rules of the edge. Ids that an identity provider has
// chosen, and names of operators, are cut out of them (running.go). Finally, every text that config
// recognised as a secret is searched for in every part and removed (scrub.go): an operator may have
// put it in a second place.
//
// The archive has mode 0600, and an existing file is never overwritten.
package support
