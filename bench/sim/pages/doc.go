// Package pages holds templates of the engines' output: their pages (health, models, load, metrics,
// settings), errors, complete answers, and the events of Messages and Responses.
//
// A page is a section of <engine>.txtar, with the engine's own members, names and help texts. State
// holds the values that a page may show. In such a file, "error" is the body of an error,
// "stream-error" the data of an error event, and "too-long" the error for a prompt that does not
// fit.
//
// A variant has the pages of its family, overridden by those of its own file. A section without a
// path is used by other templates: card is one model in a list. "/v1/models/" is the page of one
// model, if the engine has such a page.
package pages
