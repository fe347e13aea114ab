// Package engineerror reads engines' errors. Each engine reports failures in a different format.
// Based on these reports, the edge decides whether the request or the engine is at fault, whether
// to retry with another engine, and whether a model is gone. Some reports also say by how much a
// prompt exceeds the context.
//
//	e := engineerror.ParseErrorBody(status, contentType, body) // status 0: an event of a stream
//	e.RedactSecret(key)                                        // the edge's own key
//	e.RenameModel(served, public)                              // the model's name
//
// The engines' phrases are data: phrases.go contains one table for each meaning.
//
// An engine's message may quote the prompt, so the Error method omits it. Only the client that made
// the request sees the message. Before that, the edge cleans the message (message.go) and redacts
// addresses, paths and keys (redact.go), because they probably come from the engine rather than the
// client.
package engineerror
