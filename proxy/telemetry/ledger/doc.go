// Package ledger makes the usage of keys and models durable, and hands it on.
//
// Usage counts in memory (proxy/telemetry/observe). Once a second the ledger takes the rows that have changed
// and writes them down. A row is what one key used of one model on one day, all of it and not a
// difference. So a row may be written twice, lost or overtaken: the next one of its day says the
// same and more, nothing is counted twice, and sums are made by who reads.
//
// # The file
//
// Lines of a checksum and a JSON object: first who wrote it, then rows. Of the rows of one day the
// last one counts. They are appended and synced off the path of requests. When the file has grown
// much, at the start and when the day changes, it is written anew beside itself with one row each
// and put in its place. A start reads all of it. A last line that was cut is cut off; a line that
// does not fit its checksum is left out, and a warning names the rows of which no good line is left.
// A ledger that has been emptied, or removed from beside its lock, is a warning as well.
//
// A disk that is full or cannot be written costs no call anything: rows wait in memory, the state
// is logged once, counted and shown, and the rows are written when that is possible again.
//
// A path at which there is something else than a ledger is refused before anything is made there.
// One edge writes a ledger: a lock beside it refuses a second one. An edge that takes over the
// ports of another (--share-port) reads the file while that one still has the lock (before.go), at
// its start and when it changes, and adds to usage and to budgets what it did not know yet. It
// writes when that one has ended, and reads first what came last. Rows of end users are read then
// alone.
//
// # Export
//
// A sink gets the rows that have changed, all of their day each (export.go). What it has
// acknowledged is a file of the ledger's own form, so an export resumes by comparing two sets of
// rows, and rows that wait for a sink take no more room than there are rows.
//
// # End users
//
// Rows of end users are beside those of their keys, and are a part of what these say. Their lines
// begin with a mark, which has an older edge leave them out.
//
// # Retention
//
// A row holds configured names, keyed hashes of end users and numbers. Nothing that a client has
// sent is in it.
package ledger
