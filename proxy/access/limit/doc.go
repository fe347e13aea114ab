// Package limit enforces limits on keys, bodies, retries and guesses. It only decides and counts.
// It does no I/O, and gets the time as an argument.
//
// The package has six limits:
//
//   - Keys: requests per minute, tokens per minute and concurrency of every API key (key.go,
//     rate.go, tokens.go). Answers show what is left of the first two (level.go).
//   - Groups: the same limits for all keys of a group together (config.Group). A call counts for
//     its key and for the key's group.
//   - Budgets: what a key may use in a day and a month, in tokens and in money (budget.go).
//   - Memory: the bytes of request bodies (memory.go).
//   - Retries: the proportion of second attempts in the traffic (retries.go).
//   - Guesses: how often an address may send a wrong admin token (guesses.go).
//
// # Design
//
// Requests per minute use the generic cell rate algorithm: one timestamp per key, moved forward by
// compare-and-swap. The algorithm is exact under concurrency, costs a few nanoseconds, and returns
// the time until the next request is allowed. The maximum burst is the limit for one minute: in any
// period of length t, a key gets at most its limit plus t times its rate.
//
// The number of tokens is known only when a call ends. So a call first holds an estimate. When it
// ends, it is charged for the tokens that it used. Held amounts do not decay, but charged amounts
// do. The obvious design would charge the estimate at once and refund the difference at the end.
// That cannot be correct with one timestamp, because time pays off the estimate during a long call.
// A refund then either gives the same tokens twice or, if made safe, gives nothing back, so the
// limit would apply to estimates. Held and charged amounts change together, under a mutex of the
// key.
//
// A call with an estimate above the limit holds the complete limit. It is admitted when no other
// call of its key runs. When it ends, it is charged in full, so the next call waits. Refusing it
// instead would make no sense, because no Retry-After could be long enough.
//
// A budget does not refill during its period. It counts the same amounts as usage
// (proxy/telemetry/observe), so it starts from the usage so far. After a restart it starts from the
// usage in the ledger. If a reload gives a key a budget, it starts from the key's usage until then.
//
// State belongs to the id of a key and outlives reloads. The values of the limits belong to the
// configuration. Keys.Bind combines the two without changing either, so a failed reload has changed
// nothing. State is kept in nanoseconds, not in requests or tokens. Thus, when a limit changes, a
// key that had used a third of its minute has still used a third.
//
// A group has state and limits like a key, under an id that no key has. Its budget starts from the
// usage of its current keys.
//
// A single edge counts for itself. The edges of a fleet divide the limits (config.Fleet), or share
// them through an Account and a SharedBudget.
package limit
