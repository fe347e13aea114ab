// Package progress decides whether an engine works or stands still. It judges by movement, not by
// how long a call takes: by the engine's own work counters, if the engine has any, and by the
// answers to the edge's calls. The package is pure logic: callers read the pages, count the reads
// and pass the time.
//
// # Stalled
//
// An engine has stalled if a call waits for the engine and nothing has moved for longer than the
// engine's bound:
//
//	30 s until its usual step is known, then 10 s or three times that step
//	+ the time of a prefill: for each prompt token of calls without a first token, three times
//	  the slowest recent time per token (10 ms until one was measured)
//
// The usual step is the longest recent time between two moves; its value decays with every further
// move. An engine with counters moves with each chunk of a prompt, so its bound covers only one
// chunk. An engine without counters shows no movement while it prepares an answer that is not
// streamed, or a tool call that it holds back (`buffers_calls`). While it has such a call, it
// therefore counts as stalled only after 15 minutes (Ceiling).
//
// # Counters
//
// An engine's counters are added up over all of their series, since a page may cover several
// engines. The upstream has stalled only if all counters stand still. A higher sum is a move. A
// lower sum is a restart, which is not a move but excludes a stall for 10 s. If the first sum is
// read long after something moved, it only starts the counting, because the work in it may be older
// than the stall.
//
// Behind one address there may also be several engines, each with its own page, and a balancer that
// shows one page or another. The sums then jump up and down although nothing moves. A sum that was
// read before is therefore not a move (numbers.go). If higher sums come back, a lower sum is not a
// restart.
//
// # Lost calls
//
// An engine may lose a call but keep the call's connection open. Such a call would wait as long as
// the engine works for others. The call counts as lost if all of the engine's reports in 10 s show
// exactly as many requests as this edge has calls that do not wait. Calls that have just begun or
// ended may be in transit, so they count as being at the engine. If reports also miss moving calls,
// they come from one of several engines behind the address. For 15 minutes nothing is concluded
// from such reports.
package progress
