// Package engineerror reads the errors of engines. No two engines report a failure alike, and the
// edge decides by it: whether the request is to blame or the engine, whether another engine is
// asked, whether a model is gone, and by how much a prompt exceeds the context.
//
//	e := engineerror.Parse(status, contentType, body) // status is 0 for an event of a stream
//	e.RedactSecret(key)                               // the edge's own
//	e.Rename(served, public)                          // the model
//
// What is known of single engines is data: phrases.go has one table for each meaning. A new wording
// is one line there and one in the test.
//
// An engine's message may quote the prompt, so Error() leaves it out: only the client that made the
// request sees the message. It is cleaned first (message.go), and what belongs to the engine rather
// than to the client, such as addresses, paths and keys, is redacted (redact.go).
package engineerror
