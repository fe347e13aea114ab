// Package limit enforces limits on keys, bodies, retries and guesses. It only decides and counts.
// It does no I/O, and time is always a parameter.
//
// Six limits live here:
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
// compare-and-swap. It is exact under concurrency, costs a few nanoseconds, and yields the time
// until the next request is allowed. The burst is one minute's worth: over any span of length t, a
// key gets at most its limit plus t times its rate.
//
// Tokens are known only when a call ends. So a call first holds an estimate, and at its end it is
// charged what it used. Held amounts do not decay; charged amounts do. The obvious design charges
// the estimate at once and refunds the difference. It cannot be right with one timestamp: during a
// long call, the estimate has already been paid off by time. A refund then either gives the same
// tokens twice or, if made safe, gives nothing back. The limit would in effect apply to estimates.
// Held and charged amounts change together, under a mutex of the key.
//
// An estimate above the limit is held as the whole limit. Such a call is admitted when no other
// call of its key runs, and charged in full at its end, so the next call waits. A refusal would
// need a Retry-After that no wait can satisfy.
//
// A budget does not refill. It counts what usage counts (proxy/telemetry/observe), so it starts
// from that count: from the ledger after a restart, and when a reload gives a key a budget.
//
// State belongs to the id of a key and survives reloads; the numbers belong to the configuration.
// Keys.Bind combines the two without changing either, so a reload that fails has changed nothing.
// State is kept in nanoseconds, not in requests or tokens: when a limit changes, a key that had
// used a third of its minute has still used a third.
//
// A group has the state and the limits of a key, under an id that no key has. Its budget starts
// from what its current keys have used.
//
// There is no interface for a shared store: one edge counts for itself, and the edges of a fleet
// divide the limits (config.Fleet).
package limit
