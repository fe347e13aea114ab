// Package ledger makes the usage of keys and models durable, and exports it.
//
// Usage is counted in memory (proxy/telemetry/observe). Once a second the ledger writes the rows
// that have changed. A row holds all usage of one model by one key on one day, and not a
// difference. A row may therefore be written twice, lost or overtaken: the next row of its day
// contains the same usage and more, nothing is counted twice, and readers compute the sums.
//
// # The file
//
// The file holds lines of a checksum and a JSON object: first the writer, then rows. Among the rows
// of one day the last one counts. Rows are appended and synced off the path of requests. When the
// file has grown much, at the start, and when the day changes, the ledger writes a new file with
// one row for each day, and replaces the old file with it. A start reads the whole file. It cuts
// off a truncated last line. It skips a line that does not match its checksum, and a warning names
// the rows that have no good line left. A ledger that was emptied, or removed while its lock
// remains, causes a warning as well.
//
// A full or failing disk does not affect calls: rows wait in memory, the state is logged once,
// counted and shown, and the rows are written once that is possible again.
//
// A path that holds something other than a ledger is refused before anything is created there. Only
// one edge writes a ledger: a lock beside it refuses a second one. An edge that takes over the
// ports of another (--share-port) reads the file while that edge still has the lock (before.go), at
// its start and when the file changes, and adds what is new to usage and to budgets. Once the other
// edge has ended, it reads what that edge wrote last, including the rows of end users, and then
// begins to write.
//
// # Export
//
// A sink gets the rows that have changed, each with all usage of its day (export.go). Acknowledged
// rows are stored in a file of the ledger's own form. An export therefore resumes by comparing two
// sets of rows, and while a sink is away only the newest row of each day waits for it.
//
// # End users
//
// Rows of end users stand beside those of their keys, whose usage includes theirs. Their lines
// begin with a mark that makes older edges skip them.
//
// # Retention
//
// A row holds configured names, keyed hashes of end users and numbers. It contains nothing that a
// client has sent.
package ledger
