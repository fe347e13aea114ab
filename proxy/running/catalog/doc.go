// Package catalog publishes the models. The descriptions are based on the configuration and on what
// engines report. Free slots are computed from the same leases that admission uses.
//
// # Design
//
// Polling is cheap: a page is rendered at most once a second per scope, and has an ETag. There is
// one scope for the public list, and one per key. The capacity is exact when a page is rendered,
// and up to a second old when the page is served. The ETag is weak and ignores updated_at, so a
// client that polls gets "not modified" if nothing else has changed.
//
// Some agents expect lists in other formats, so each list has four variants (View). A list may
// contain the additional members for clients of Anthropic's API, the list for Codex, both, or
// neither. The additional members never change the regular members. Only the variant for clients of
// Anthropic's API has entries for aliases, because these clients choose among names that look like
// names of Anthropic's models.
//
// Rendered lists are stored in an LRU cache, because each key may have a separate scope.
//
// If the configuration does not set a value, engine reports determine it. The context length is the
// smallest length reported by a ready engine of the model. Images are an input modality if all
// ready engines accept images. Unknown values are omitted, because a wrong value is worse than
// none.
package catalog
