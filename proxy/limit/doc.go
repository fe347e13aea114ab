// Package limit bounds what keys, bodies, retries and waiting calls may take. It decides and counts; it does no I/O, and
// time is a parameter wherever it matters.
//
// Four limits live here:
//
//   - Keys: requests per minute, tokens per minute and concurrency of every API key (key.go, rate.go, tokens.go).
//     What is left of the first two is told on answers (level.go).
//   - Memory: the bytes that request bodies may hold (memory.go).
//   - Retries: how much of the traffic may be second attempts (retries.go).
//   - Queues: the short, fair wait for a full model (queue.go), and who is woken for a free slot (queues.go).
//
// # Design
//
// Requests per minute are a generic cell rate algorithm: one timestamp per key, moved forward by compare-and-swap. It is
// exact under concurrency, costs a few nanoseconds, and the time until the next request is allowed falls out of it. The
// burst is one minute's worth: over any span of t a key gets at most its limit plus t times its rate.
//
// Tokens are known only when a call ends, so a call first holds an estimate and at its end is charged what it used. What
// is held does not decay; what was charged does. The obvious design, which charges the estimate at once and refunds
// the difference, cannot be right with one timestamp: after a long call time has paid for the estimate already, and a
// refund either gives the same tokens twice or, made safe, gives nothing back, so that the limit in effect would be
// one of estimates. Held and charged amounts change together, under a mutex of the key's own.
//
// An estimate above the limit is held as the whole limit: such a call gets in when nothing else of its key runs and is
// charged in full at its end, which makes the next one wait. The alternative, to refuse it for ever, would answer with a
// Retry-After that no wait can satisfy.
//
// State belongs to the id of a key and survives reloads; the numbers belong to the configuration. Keys.Bind puts the
// two together without touching either, so a reload that fails has changed nothing. State is kept in nanoseconds, not
// in requests or tokens: when a limit changes, a key that had used a third of its minute has still used a third.
//
// A slot that becomes free must not cost models that have no use for it, nor wake a thousand calls of which one can have it.
// So the queues know their routes: a slot is offered only where its upstream is, and only to a call whose pool it is of and
// that has not tried it. Waiters of which that is alike form a class, and a route is asked once for each class. The
// alternative, to let each waiter look for itself in turn, made every freed slot of the edge as dear as all queues were
// long. To hand the waiter the slot itself, and not a hint, would save the looks that come too late; but then whoever
// gives a slot back would pick the engine for a stranger, and a client that leaves at that moment would take a slot along.
//
// There is no interface for a shared store: one edge counts for itself, and several edges divide the limits.
package limit
