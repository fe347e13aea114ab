// Package failure decides what a failure means. It is the only place where a fact (an engine failed
// somehow, a pool is full, a client has left) becomes an API error, an outcome for the upstream's
// health, a label for the metrics, and the answer to "may it be sent again?".
//
// design.md and contract.md hold the table: which status a client sees, with which code, and which
// of an engine's words reach it. Dialects change statuses and shapes further (package endpoint);
// nothing else does.
package failure
