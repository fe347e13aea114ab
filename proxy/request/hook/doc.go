// Package hook asks an operator's own service what is to become of a call, before an engine is
// asked (hooks in the configuration). README.md has the form of questions and answers.
//
// The package asks and understands answers. What an answer means for the call is the business of
// package call (hooks.go there).
//
// # Design
//
// A question is one POST of JSON by a plain client of net/http: without a proxy, without redirects
// and without compression. Its connections are bounded for each host. If a connection that was used
// before breaks, the question is asked again on another one, because it may have been closed while
// it was idle.
//
// The request's body is sent from where it lies and is never copied. net/http may still read it
// after it has returned an answer or an error, but the memory belongs to the call and is reused. So
// the reader of the body is cut off before Ask returns (question.end).
//
// An answer may be as long as a request body, plus its wrapping. What it takes above a small buffer
// counts against limits.body_memory.
//
// Errors name a cause from a closed set. No text of a question or an answer is part of an error.
package hook
