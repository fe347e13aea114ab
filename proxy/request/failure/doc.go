// Package failure decides what a failure means. Only this package turns a fact (an engine failed,
// a pool is full, a client has left) into an API error, an outcome for the upstream's health, a
// label for the metrics, and the answer to the question whether the call may be sent again.
//
// The tables in design.md and contract.md show which status and code a client sees, and which of
// an engine's words reach it. Besides this package, only dialects change statuses and shapes
// (package endpoint).
package failure
