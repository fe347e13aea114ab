// Package catalog publishes the models. It describes them on the basis of the configuration and of
// what engines report. It counts free slots by the same leases that admission uses.
//
// # Design
//
// Polling is cheap: a page is rendered at most once a second for each scope, and has an ETag. The
// scopes are the public list, and one list for each key. The capacity is exact when the page is
// rendered, and up to a second old when it is served. The ETag is weak and ignores updated_at, so a
// client that polls gets "not modified" if only this time has changed.
//
// Some agents read lists in other formats, so each list has four variants (View). It may contain
// the members for clients of Anthropic's API, the list for Codex, both, or neither. These additions
// never change the regular members. Clients of Anthropic's API choose among names that look like
// Anthropic's, so only the variant for these clients has entries for aliases.
//
// Rendered lists are stored in an LRU cache of limited size, because each key may have a separate
// scope.
//
// If the configuration does not set a value, the value comes from the engines' reports. The context
// length is the smallest that any ready engine of the model reports. Images are an input modality
// if all ready engines accept them. Unknown values are omitted, because a wrong value is worse than
// a missing one.
package catalog
