// Package apierr defines the one typed error of the public API: what went wrong, in the words of
// the contract, and its form on the wire.
//
// The translators and the authenticator return an *Error themselves, because they know the
// offending parameter. Everything else (no capacity, a failing engine) starts as a fact and becomes
// an *Error in one place, package failure, through New or one of the constructors. An Error is
// rendered once, by the dialect of the endpoint: Append for chat, Responses and audio,
// AppendMessages for Messages, AppendObject for an event within a stream.
//
// # Design
//
// TypeOf derives the type of an error from its status; the words are the same in all dialects.
// Messages answers 529 where the others answer 502, 503 or 504; that is a mapping of facts and is
// not done here.
//
// message, type, code and param are always written, the last two as null if there are none: clients
// read members that are there. Every constructor here sets a code, so null is seen only when an
// engine's error had none.
//
// Zero retention decides what an error may say. Messages are ours: the arguments of a format are
// numbers and our own names of parameters, never a value that a client sent, as in "unknown role
// "+role. This is easy to check, because no caller passes anything that was read from a body.
// Error, which logs print, still omits the message, because the message of a rejected request is
// the engine's. Cause is only for the log, and Error does not print it either.
//
// Rendering uses jsonx, so that a message with quotes, control characters or broken UTF-8 (again:
// an engine's) still makes valid JSON. encoding/json would do, but reflects and allocates for five
// known members.
package apierr
