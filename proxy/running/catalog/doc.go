// Package catalog publishes the models. It describes models from the configuration and the engines'
// reports, and counts free slots by the same leases as admission.
//
// # Design
//
// Polling is cheap: a page is rendered at most once a second for each scope, and served as bytes
// with an ETag. The scopes are the public list, and one list for each set of rules that keys have.
// The capacity is exact when the page is rendered and may be out of date within that second. The
// tag is weak and ignores updated_at, so a polling client gets "not modified" as long as only the
// time has changed.
//
// Some agents read lists of their own, so a list has four variants (View): with the members for
// clients of Anthropic's API, with Codex's list, with both, or with neither. Additions never change
// other members. Clients of Anthropic's API choose among names that look like Anthropic's, so only
// the variant for these clients has entries for aliases.
//
// Rendered lists are kept in an LRU cache of limited size, because each key may have its own scope.
// A scope is named after the key's id, never after the key.
//
// Where the configuration sets nothing, the engines decide: the context length is the smallest that
// the ready engines of a model report, and images are listed as input if all these engines report
// that they accept them. Unknown values are omitted: a guess in a catalog is worse than a gap.
package catalog
