// Package engineerror reads engines' errors. Engines report failures in different ways. The edge
// bases decisions on these reports: whether the request or the engine is at fault, whether to ask
// another engine, whether a model is gone, and by how much a prompt exceeds the context.
//
//	e := engineerror.Parse(status, contentType, body) // status is 0 for an event of a stream
//	e.RedactSecret(key)                               // the edge's own key
//	e.Rename(served, public)                          // the model
//
// The wordings of individual engines are data: phrases.go has one table for each meaning. A new
// wording needs one line there and one in the test.
//
// An engine's message may quote the prompt, so Error() omits it. Only the client that made the
// request sees the message. The message is cleaned first (message.go), and text that belongs to the
// engine rather than the client, such as addresses, paths and keys, is redacted (redact.go).
package engineerror
