// Package hook asks an operator's service about a call before the call is sent to an engine (see
// hooks in the configuration). README.md defines the questions and answers.
//
// Package call carries out the decisions.
//
// # Design
//
// A question is one POST with a JSON body. net/http sends it without a proxy, redirects or
// compression. The number of connections to each host is limited. If a reused connection fails, the
// question is sent again over another connection, because the server may have closed the reused
// connection while it was idle.
//
// The request body is sent without being copied. net/http may still read the body after it has
// returned a response or an error. At that time, the call may be reusing the body's memory. Ask
// therefore detaches the reader from the body before it returns (questionBody.detach).
//
// An answer may be as long as a request body plus its JSON wrapper. If it exceeds a small buffer,
// its bytes count against limits.body_memory.
//
// Errors have a cause from a fixed set. They never contain text from a question or an answer.
package hook
