// Package apierr defines the typed error of the public API. An error describes the failure in the
// terms of the contract. The package renders errors in every dialect.
//
// The translators and the authenticator return an *Error directly, because they know the offending
// parameter. Package failure uses New and the constructors to turn all other failures, such as a
// failing engine, into an *Error. An Error is rendered once, in the endpoint's dialect: Append for
// chat, Responses and audio, AppendMessages for Messages, AppendObject for an event within a
// stream.
//
// # Design
//
// TypeOf derives an error's type from its status. The types are the same in all dialects. Messages
// answers 529 where the other dialects answer 502, 503 or 504.
//
// Clients expect the members message, type, code and param, so they are always written. code and
// param are null if they are empty.
//
// The edge does not retain client data, which restricts what an error may say. The edge writes the
// messages itself. The format arguments are numbers and parameter names in the edge's spelling,
// never a value that a client sent (not "unknown role "+role). Logs use the method Error. It omits
// the message, because the message about a rejected request may come from the engine.
//
// Rendering uses jsonx, so that the JSON is valid even if an engine's message contains quotes,
// control characters or broken UTF-8. encoding/json would use reflection and allocate memory,
// although an error has only a few known members.
package apierr
