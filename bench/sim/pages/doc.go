// Package pages is what engines show of themselves: health, models, load, metrics, settings. A page
// is a template in <engine>.txtar, with the engine's own members, names and help texts; State is
// what it may show.
//
// A variant has the pages of its family, and those of its own file before them. A section without a
// path is for other templates: card is one model in a list. "/v1/models/" is the page of one model,
// where the engine has that.
package pages
