// Package dialect is what engines answer in the place of chat completions: Messages and Responses,
// as one engine and another tells them. Those of llama.cpp and Ollama were recorded, those of the
// others are as the dialect's own documentation has them.
//
// A request is made into a chat request, as all engines do that have these endpoints. An answer is
// a list of items (blocks of Messages, output items of Responses); Writer knows which item a token
// is of, and the templates messages.txtar and responses.txtar in pages how the dialect tells that
// it begins, goes on and ends.
//
// The package makes no tokens and waits for nothing: it is given pieces and tells events.
package dialect
