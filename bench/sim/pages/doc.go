// Package pages is what engines say in templates: what they show of themselves (health, models,
// load, metrics, settings), their errors, whole answers, and the events of Messages and Responses.
//
// A page is a section of <engine>.txtar, with the engine's own members, names and help texts; State
// is what it may show. "error" there is an error as an answer, "stream-error" the data of an event,
// "too-long" what is wrong with a prompt that does not fit.
//
// A variant has the pages of its family, and those of its own file before them. A section without a
// path is for other templates: card is one model in a list. "/v1/models/" is the page of one model,
// where the engine has that.
package pages
