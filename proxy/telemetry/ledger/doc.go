// Package ledger makes the usage of keys and models durable, and exports it.
//
// Usage is counted in memory (proxy/telemetry/observe). Once a second the ledger writes the changed
// rows. A row holds all usage of one model by one key on one day, not a difference. So it does no
// harm if a row is written twice, lost or overtaken. The next row of its day contains the same
// usage and more, and no usage is counted twice. Readers compute the sums.
//
// # The file
//
// Each line of the file has a checksum and a JSON object. The first line names the writer, and all
// other lines are rows. If a row has several lines, the last one counts. Rows are appended and
// synced off the path of requests. At the start, when the day changes, and when the file has grown
// much, the ledger writes a new file with one row for each day, and replaces the old file with it.
// When an edge starts, it reads the whole file. A truncated last line is cut off. A line that does
// not match its checksum is skipped, and a warning names the rows that have no good line left. An
// emptied ledger causes a warning as well, and so does a removed ledger whose lock file remains.
//
// A full or failing disk does not affect calls. Rows wait in memory until they can be written. The
// failure is logged once, counted and shown.
//
// If the file at the path is not a ledger, it is refused before any file is created there. Only one
// edge writes a ledger: a lock file beside the ledger keeps a second edge out. An edge may take
// over another edge's ports (--share-port). While the old edge still has the lock (before.go), the
// new edge reads the file, at its start and when the file changes, and adds new usage to its own
// and to budgets. Once the old edge has ended, the new edge reads the last rows, including those of
// end users, and then starts to write.
//
// # Export
//
// A sink gets the rows that have changed, each with all usage of its day (export.go). Acknowledged
// rows are stored in a file with the ledger's own format. So an export resumes by comparing two
// sets of rows. While a sink is unreachable, only the newest row of each day waits for it.
//
// # End users
//
// End users have rows of their own. The rows of a key's models include the usage of its end users.
// Lines of end users start with a mark that makes older edges skip them.
//
// # Retention
//
// A row holds configured names, keyed hashes of end users and numbers. It contains no text that a
// client has sent.
package ledger
