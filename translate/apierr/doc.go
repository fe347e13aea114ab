// Package apierr is the one typed error of the public API: what went wrong, in the words of the
// contract, and how it looks on the wire.
//
// The translators and the authenticator return an *Error themselves, because they know the
// parameter that is at fault. Everything else (no capacity, an engine that fails) is a fact first
// and becomes an *Error in one place, package failure, by New or one of the constructors. An Error
// is rendered once, by the dialect of the endpoint: Append for chat, Responses and audio,
// AppendMessages for Messages, AppendObject for an event within a stream.
//
// # Design
//
// The types of an error follow from its status, as TypeOf has it, and are the same words in all
// dialects. That Messages answers 529 where the others answer 502, 503 or 504 is a mapping of facts
// and so not done here.
//
// All of message, type, code and param are always written, code and param as null when there are
// none: clients read members that are there. Every constructor here has a code, so null is seen
// only when an engine's error had none.
//
// Zero retention decides what may be said. A message is ours; the arguments of a format are numbers
// and our own names of parameters, never a value that a client sent, as in "unknown role "+role.
// The check is easy to make: no caller passes anything that was read from a body. Error, which logs
// print, leaves the message out all the same, since the message of a rejected request is the
// engine's. Cause is for the log alone and is not printed by Error either.
//
// Rendering uses jsonx, so that a message with quotes, control characters or broken UTF-8 (again:
// an engine's) still makes valid JSON. encoding/json would do, but reflects and allocates for five
// members that are known.
package apierr
