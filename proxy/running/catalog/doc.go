// Package catalog publishes the models: what they are, from the configuration and the engines, and
// how much room they have at the moment, from the same ledger that admission uses.
//
// # Design
//
// Polling is cheap: a page is rendered at most once a second for each scope (the public list, and
// one list for each set of rules that keys have) and served as bytes with an ETag. Within that
// second the capacity may lag; when rendered it is exact. The tag is weak and leaves updated_at
// out, so a poller gets "not modified" as long as nothing but the clock has moved.
//
// Agents read lists of their own, so a list has four forms (View): members for clients of
// Anthropic's API, the list of Codex, both, or neither. Additions never change what is there.
// Clients of Anthropic's API choose among names that read like Anthropic's; therefore aliases have
// entries in their form only.
//
// Scopes live in a bounded LRU, since there may be as many as keys. The scope's name is the key's
// id, never the key.
//
// Where the configuration is silent, the engines decide: the context length is the smallest that
// the ready engines of a model report, and images are listed as input when every one of them says
// that it takes them. Unknown values are left out: a guess in a catalog is worse than a gap.
package catalog
