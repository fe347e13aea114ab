// Package catalog publishes the models: what they are, from the configuration and the engines, and
// how much room they have at this moment, from the one ledger that admission itself uses.
//
// # Design
//
// Cheap under polling: a page is rendered at most once a second for each scope (the public list,
// and one list for each set of rules that keys have) and served as bytes with an ETag. Within that
// second the capacity may lag; when rendered it is exact. The tag is weak and leaves updated_at
// out: a poller is told "not modified" for as long as nothing but the clock has moved.
//
// Agents read lists of their own, so a list has four forms (View): members for clients of
// Anthropic's API, the list of Codex, both, or neither. What is added never changes what is there.
// Clients of Anthropic's API choose among names that read like Anthropic's; therefore aliases have
// entries in their form only.
//
// Scopes live in a bounded LRU, since there may be as many as keys. The scope's name is the key's
// id, never the key.
//
// Where the configuration is silent, the engines speak: the context length is the smallest that the
// ready engines of a model report, and images are listed as input when every one of them says that
// it takes them. What nobody knows is left out: a guess in a catalog is worse than a gap.
package catalog
