// Package ledger makes the usage of keys and models durable, and passes it on.
//
// Usage counts in memory (proxy/telemetry/observe). Once a second the ledger writes down the rows
// that have changed. A row is what one key used of one model on one day: the whole amount, not a
// difference. So a row may be written twice, lost or overtaken: the next row of its day says the
// same and more, nothing is counted twice, and readers compute the sums.
//
// # The file
//
// The file holds lines of a checksum and a JSON object: first the writer, then rows. Among the rows
// of one day the last one counts. Rows are appended and synced off the path of requests. When the
// file has grown much, at the start and when the day changes, it is rewritten beside itself with
// one row each and put in its place. A start reads all of it. A truncated last line is cut off. A
// line that does not match its checksum is left out, and a warning names the rows that have no good
// line left. A ledger that has been emptied, or removed from beside its lock, causes a warning as
// well.
//
// A disk that is full or cannot be written costs calls nothing: rows wait in memory, the state is
// logged once, counted and shown, and the rows are written when that is possible again.
//
// A path that holds something other than a ledger is refused before anything is created there. Only
// one edge writes a ledger: a lock beside it refuses a second one. An edge that takes over the
// ports of another (--share-port) reads the file while that edge still has the lock (before.go), at
// its start and when the file changes, and adds what is new to usage and to budgets. It writes once
// the other edge has ended, and first reads what that edge wrote last. Only then does it read rows
// of end users.
//
// # Export
//
// A sink gets the rows that have changed, each the whole amount of its day (export.go).
// Acknowledged rows are stored in a file of the ledger's own form. So an export resumes by
// comparing two sets of rows, and rows that wait for a sink take no more room than there are rows.
//
// # End users
//
// Rows of end users stand beside those of their keys, and are a part of them. Their lines begin
// with a mark, which makes older edges leave them out.
//
// # Retention
//
// A row holds configured names, keyed hashes of end users and numbers. It contains nothing that a
// client has sent.
package ledger
