// Package progress decides whether an engine makes progress or has stalled. The duration of calls
// does not matter. Progress (a move) is a change of the engine's progress counters, if it has any,
// or a read of response bytes for one of the edge's calls. The package does no I/O. Its callers
// read the pages, count the reads and pass the current time.
//
// # Stalls
//
// An engine has stalled if a call is waiting and there has been no move for longer than a bound:
//
//	30 s until the usual step is known, then the larger of 10 s and three times the step,
//	plus the prefill time: three times the slowest recent time per token (10 ms until
//	measured) for each prompt token of calls without a first token
//
// The usual step is the longest recent time between two moves. It decays with every move. An
// engine's counters change with each chunk of a prompt, so the bound covers the prefill of only one
// chunk. An engine without counters shows no move while it prepares a response that is not
// streamed, or a tool call if it buffers calls (`buffers_calls`). During such a call, the engine
// therefore stalls only after 15 minutes (MaxSilence).
//
// # Counters
//
// The counters of all series on a page are summed, because a page may cover more than one engine.
// The upstream stalls only if the sum does not change. A higher sum is a move. A lower sum
// indicates a restart. A restart is not a move, but the engine does not count as stalled during the
// 10 s that follow it. A first sum that is read long after the last move is only a starting value,
// because it may include work from before the stall.
//
// One address may also belong to a balancer with more than one engine behind it. Each read then
// returns the page of one of these engines, and the sums vary even if no engine makes progress. A
// sum that equals an earlier sum is therefore not a move (numbers.go). Once an earlier, higher sum
// has been read again, a lower sum does not count as a restart.
//
// # Lost calls
//
// An engine may lose a call but keep the connection open. The call would then wait for as long as
// the engine works for others. A call counts as lost if, for 10 s, every report contains exactly as
// many requests as this edge has calls that are not waiting. Calls that have just begun or ended
// may be in transit, so they count as calls at the engine. If reports also omit calls that make
// progress, each report covers only one of the engines behind the address. Such reports are ignored
// for 15 minutes.
package progress
