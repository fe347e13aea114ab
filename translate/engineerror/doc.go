// Package engineerror reads engines' errors. Each engine reports failures in a different format.
// From these reports the edge decides whether the request or the engine is at fault, whether to
// retry with another engine, and whether a model is gone. The reports also say by how much a prompt
// exceeds the context.
//
//	e := engineerror.Parse(status, contentType, body) // status is 0 for an event of a stream
//	e.RedactSecret(key)                               // the edge's own key
//	e.Rename(served, public)                          // the model
//
// The phrases of the engines are data. phrases.go has one table for each meaning.
//
// An engine's message may quote the prompt, so the method Error omits it. Only the client that made
// the request sees the message. The message is cleaned first (message.go). Addresses, paths and
// keys are redacted (redact.go), because they probably come from the engine and not from the
// client.
package engineerror
