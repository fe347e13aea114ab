// Package ledger makes the usage of keys and models durable, and exports it.
//
// Usage is counted in memory (proxy/telemetry/observe). Once a second, the ledger writes the
// changed rows. A row contains the total usage of one model by one key on one day, not a
// difference. A row may therefore be written twice, lost or reordered. The next row for the same
// day includes the same usage, and no usage is counted twice.
//
// # The file
//
// Each line of the file consists of a checksum and a JSON object. The first line names the writer,
// and all other lines are rows. If a row has more than one line, the last line counts. Rows are
// appended and synced to disk outside the request path. The ledger rewrites the file with one line
// for each row and day. It does so at the start, when the day changes, and when the file has grown
// a lot.
//
// When an edge starts, it reads the whole file. It removes a truncated last line. It skips a line
// that does not match its checksum. If rows have no valid line left, it logs a warning with the
// names of these rows. It also warns if the ledger has been emptied, or if the ledger has been
// removed but its lock file still exists.
//
// A full or failing disk does not affect calls. Rows stay in memory until they can be written.
//
// If the file at the path is not a ledger, the edge rejects it before creating any file there. A
// lock file next to the ledger ensures that only one edge writes the ledger. An edge may take over
// another edge's ports (--share-port). While the old edge still holds the lock (predecessor.go),
// the new edge reads the file when it starts and whenever the file changes. It adds new usage to
// its counts and to budgets. When the old edge has exited, the new edge reads the last rows,
// including those of end users, and then starts to write.
//
// # Export
//
// A sink receives the changed rows, each with the total usage of its day (export.go). Acknowledged
// rows are stored in a file with the ledger's format. While a sink is unreachable, only the newest
// version of each row is pending.
//
// # End users
//
// End users have separate rows. The rows of a key's models include the usage of its end users.
// Lines of end users start with a mark that makes older edges skip them.
//
// # Retention
//
// A row contains configured names, keyed hashes of end users and numbers.
package ledger
