// Package catalog publishes the models. It describes them from the configuration and the engines,
// and reports their free slots from the same ledger that admission uses.
//
// # Design
//
// Polling is cheap: a page is rendered at most once a second for each scope (the public list, and
// one list for each set of rules that keys have) and served as bytes with an ETag. The capacity is
// exact when rendered and may be out of date within that second. The tag is weak and ignores
// updated_at, so a poller gets "not modified" as long as only the time has changed.
//
// Agents read lists of their own, so a list has four forms (View): members for clients of
// Anthropic's API, the list of Codex, both, or neither. Additions never change other members.
// Clients of Anthropic's API choose among names that look like Anthropic's, so aliases have entries
// in their form only.
//
// Scopes live in a bounded LRU, since there may be as many as keys. The scope's name is the key's
// id, never the key.
//
// Where the configuration is silent, the engines decide: the context length is the smallest that
// the ready engines of a model report, and images are listed as input if all these engines report
// that they accept them. Unknown values are omitted: a guess in a catalog is worse than a gap.
package catalog
