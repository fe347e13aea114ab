// Package dialects is what the dialects that become chat have in common: Messages and Responses are
// read and written by packages of their own, and what both do alike is here once.
//
//	Options    how a request is to be translated
//	Identity   what the edge knows about an answer
//	Images     where the images of the chat request stand in the client's body
//
// A translation is a function of bytes. It knows neither HTTP nor files nor the clock, and copies
// what it translates as it stands in the source, escapes, numbers and the order of members
// included: a schema, the arguments of a tool call and a text reach the engine byte for byte.
//
// The translated body is a chat request like any client's and is decoded as one, so checks, limits,
// routing and the writing for an engine are shared. What only that decoding finds comes back under
// the name that the member has in the client's dialect (Locate).
package dialects
