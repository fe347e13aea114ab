// Package hook asks an operator's own service, before any engine, how to handle a call (hooks in
// the configuration). README.md defines the questions and answers.
//
// This package sends questions and parses answers. Package call decides what an answer means for
// the call (hooks.go there).
//
// # Design
//
// A question is one POST of JSON by a plain net/http client: without a proxy, without redirects and
// without compression. The number of connections to each host is bounded. If a reused connection
// breaks, the question is asked again on another connection, because the server may have closed the
// first one while it was idle.
//
// The request's body is sent from where it lies and is never copied. net/http may still read the
// body after returning an answer or an error, but the memory belongs to the call and is reused. So
// the body's reader is cut off before Ask returns (question.end).
//
// An answer may be as long as a request body, plus its wrapping. Its bytes beyond a small buffer
// count against limits.body_memory.
//
// Errors name a cause from a closed set. No text of a question or an answer is part of an error.
package hook
