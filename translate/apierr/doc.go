// Package apierr defines the typed error of the public API. It describes what went wrong in the
// contract's words, and is rendered for the wire.
//
// The translators and the authenticator return an *Error themselves, because they know the
// offending parameter. All other failures (no capacity, a failing engine) start as facts and become
// an *Error in one place, package failure, through New or one of the constructors. An Error is
// rendered once, in the endpoint's dialect: Append for chat, Responses and audio, AppendMessages
// for Messages, AppendObject for an event within a stream.
//
// # Design
//
// TypeOf derives an error's type from its status; the types are the same in all dialects. Messages
// answers 529 where the others answer 502, 503 or 504. Package failure decides this, not package
// apierr.
//
// message, type, code and param are always written, the last two as null if there are none, because
// clients expect these members. Every constructor here sets a code, so the code is null only if an
// engine's error had none.
//
// Zero retention determines what an error may say. The edge writes the messages itself: the
// arguments of a format are numbers and parameter names in the edge's spelling, never a value that
// a client sent (not "unknown role "+role). This is easy to check, because no caller passes
// anything that was read from a body. The method Error, which logs use, still omits the message,
// because the message about a rejected request may be the engine's. Cause is only for the log, and
// the method Error does not print it either.
//
// Rendering uses jsonx, so that an engine's message with quotes, control characters or broken UTF-8
// still makes valid JSON. encoding/json would also do that, but uses reflection and allocates
// memory for only five known members.
package apierr
