// Package failure says what it means that something went wrong. It is the only place where a fact
// (an engine failed so, a pool is full, a client has left) becomes an API error, an outcome for
// the upstream's health, a label for the metrics, and the answer to "may it be sent again?".
//
// The table is design.md's and contract.md's: which status a client sees, with which code, and what
// of an engine's words reaches it. Dialects change statuses and shapes further (package endpoint);
// nothing else does.
package failure
