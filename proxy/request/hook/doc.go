// Package hook asks an operator's own service, before any engine, how to handle a call (hooks in
// the configuration). README.md defines the questions and answers.
//
// This package sends questions and parses answers. Package call decides what an answer means for
// the call (hooks.go there).
//
// # Design
//
// A question is one POST of JSON by a plain net/http client: without a proxy, without redirects and
// without compression. The number of connections to each host is limited. If a reused connection
// breaks, the question is asked again on another connection, because the server may have closed the
// first one while it was idle.
//
// The request's body is sent without being copied. net/http may still read the body after it has
// returned an answer or an error, but the call then reuses the body's memory. The body's reader is
// therefore cut off before Ask returns (question.end).
//
// An answer may be as long as a request body, plus its wrapping. Its bytes beyond a small buffer
// count against limits.body_memory.
//
// Errors name a cause from a closed set. They contain no text of a question or an answer.
package hook
