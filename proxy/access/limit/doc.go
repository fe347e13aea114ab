// Package limit enforces limits on keys, bodies, retries and guesses. It only counts and decides.
// It does no I/O, and its functions get the current time as an argument.
//
// The limits are:
//
//   - Keys: requests per minute, tokens per minute and concurrency of each API key (key.go,
//     rate.go, tokens.go). Response headers report the remaining requests and tokens (level.go).
//   - Groups: the same limits, shared by all keys in a group (config.Group). A call counts against
//     both its key's limits and its group's limits.
//   - Budgets: what a key may use per day and per month, in tokens and in money (budget.go).
//   - Memory: the bytes of request bodies and of engine responses (memory.go).
//   - Retries: how many retries are allowed in proportion to calls (retry_budget.go).
//   - Guesses: how often an address may send a wrong admin token (guess_limiter.go).
//
// # Design
//
// Requests per minute use the generic cell rate algorithm (GCRA), which needs one timestamp per
// key, advanced by compare-and-swap. The algorithm is exact under concurrency, takes a few
// nanoseconds, and yields the time until the next request is allowed. The maximum burst is the
// limit for one minute. In any period of length t, a key gets at most one minute's limit plus t
// times its rate.
//
// The number of tokens is not known until a call ends. A call therefore reserves an estimate until
// it ends, and is then charged for the tokens that it used. Charges decrease over time, but
// reservations do not. The obvious alternative is to charge the estimate at the start and refund
// the difference at the end. A single timestamp cannot implement this correctly, because the
// charged estimate already decreases during a long call. The refund would then either grant the
// same tokens twice or have no effect, and in the second case the limit would apply to estimates.
// Reservations and charges change together, under the key's mutex.
//
// A call whose estimate exceeds the limit reserves the entire limit. It is admitted once no other
// call of its key is running. At its end, it is charged in full, so the next call must wait.
//
// A budget does not refill during its period. It counts the same amounts as
// proxy/telemetry/observe. After a restart, it starts from the usage in the ledger; after a reload,
// from the key's usage so far.
//
// State belongs to a key id and survives reloads. The limits themselves belong to the
// configuration. KeyUsages.Bind combines both without changing either, so a failed reload has no
// effect. State is measured in nanoseconds of a minute, not in requests or tokens. If a limit
// changes, a key that has used a third of its minute has still used a third of it.
//
// A group has state and limits like a key, under an id that no key can have. Its budget starts from
// the usage of its current keys.
//
// An edge that does not belong to a fleet counts locally. The edges of a fleet either divide the
// limits (config.Fleet), or share them through a KeyAccount and a BudgetFunc.
package limit
