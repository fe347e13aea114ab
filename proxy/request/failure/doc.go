// Package failure decides what a failure means. It alone turns a fact (an engine failed, a pool is
// full, a client has left) into an API error, an outcome for the upstream's health, a label for the
// metrics, and the cause by which package retry decides the next step.
//
// The tables in design.md and contract.md show which status and code a client sees, and which of
// an engine's words reach it. Besides this package, only dialects change statuses and shapes
// (package endpoint).
package failure
