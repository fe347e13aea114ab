// Package limit enforces limits on keys, bodies, retries and guesses. The package only decides and
// counts. It does no I/O, and time is always a parameter.
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
// compare-and-swap. The algorithm is exact under concurrency, costs a few nanoseconds, and yields
// the time until the next request is allowed. The burst is one minute's worth: over any span of
// length t, a key gets at most its limit plus t times its rate.
//
// The number of tokens is known only when a call ends. So a call first holds an estimate, and at
// its end is charged what it used. Held amounts do not decay; charged amounts do. The obvious
// design would charge the estimate at once and refund the difference. That cannot be correct with
// one timestamp: during a long call, time has already paid off the estimate. A refund then either
// gives the same tokens twice or, if made safe, gives nothing back. The limit would in effect apply
// to estimates. Held and charged amounts change together, under a mutex of the key.
//
// An estimate above the limit is held as the complete limit. Such a call is admitted when no other
// call of its key runs, and charged in full at its end, so the next call waits. A refusal would
// need a Retry-After that no wait can satisfy.
//
// A budget does not refill. A budget counts the same as usage (proxy/telemetry/observe), so it
// starts from the usage so far: after a restart from the ledger's, and after a reload that gives a
// key a budget.
//
// State belongs to the id of a key and survives reloads; the numbers belong to the configuration.
// Keys.Bind combines the two without changing either, so a reload that fails has changed nothing.
// State is kept in nanoseconds, not in requests or tokens. When a limit changes, a key that had
// used a third of its minute has thus still used a third.
//
// A group has the state and the limits of a key, under an id that no key has. Its budget starts
// from what its current keys have used.
//
// One edge counts for itself, and the edges of a fleet divide the limits (config.Fleet) or share
// them through an Account and a SharedBudget.
package limit
