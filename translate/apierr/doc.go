// Package apierr defines the typed error of the public API. An error describes the failure in the
// terms of the contract. The package renders errors in every dialect.
//
// The translators and the authenticator return an *Error directly, because they know the offending
// parameter. Package failure uses New and the constructors to turn all other failures, such as a
// failing engine, into an *Error. An Error is rendered once, in the endpoint's dialect. AppendBody
// renders it for chat, Responses and audio, AppendMessages for Messages, and AppendObject for an
// event within a stream.
//
// # Design
//
// StatusErrorType derives an error's type from its status. The types are the same in all dialects.
// Messages answers 529 where the other dialects answer 502, 503 or 504.
//
// Clients expect the members message, type, code and param, so they are always written. code and
// param are null if they are empty.
//
// The edge writes the error messages itself. The format arguments are numbers and parameter names
// in the edge's spelling. Messages never quote a value sent by a client, such as an unknown role.
// The only exception is the name of a model that does not exist. Logs use the Error method, which
// omits the message, because an engine may have written the message about a rejected request.
//
// Rendering uses jsonx, so that the JSON is valid even if an engine's message contains quotes,
// control characters or broken UTF-8. encoding/json would use reflection and allocate memory, even
// though an error has only a few known members.
package apierr
