// Package pages contains templates for the output of the engines. The output consists of pages
// (health, models, load, metrics, settings), errors, complete responses, and the events of Messages
// and Responses.
//
// A page is a section of <engine>.txtar and has the members, names and help texts of the real
// engine. State contains the values for pages. In <engine>.txtar, "error" is the body of an error,
// "stream-error" is the data of an error event, and "too-long" is the error for a prompt that
// exceeds the context.
//
// A variant uses the pages of its family, except those that the variant's file overrides. Sections
// without a path are parts of other templates. For example, the section "card" renders one model in
// a list. The section "/v1/models/" is the page of one model, if the engine has such a page.
package pages
