// Package progress decides whether an engine works or stands still. It judges by what moves, not by
// how long a call takes: the engine's own counters of work, if it has any, and the answers to our
// calls. It is pure logic: callers read the pages, count the reads and pass the time.
//
// # Stalled
//
// An engine has stalled if a call waits for it and nothing has moved for longer than its bound:
//
//	30 s until enough is known of it, then 10 s or three times its usual step
//	+ the time of a prefill: for each prompt token that has brought no first token yet, three times
//	  the slowest recent time per token (10 ms until one was measured)
//
// The usual step is the longest recent time between two moves, which fades with every further move.
// An engine with counters moves with each chunk of a prompt, so the bound covers no more than a
// chunk. An engine without counters shows nothing of an answer that comes whole, or of a tool call
// that it holds back (`buffers_calls`), so it cannot stall while it has one of these to make.
//
// # Counters
//
// The counters of an engine make one number: the sum over its counters and their series, since a
// page may cover several engines. The upstream has stalled only if all of them stand still. A
// higher number is a move. A lower one is a restart: it is no move, and for 10 s no stall. A number
// that is first read long after something moved only starts the counting, because what it shows may
// be older than the stall.
//
// An address may also hide several engines with a page each, behind a balancer that shows one page
// or another. Their numbers jump up and down although nothing moves. So a number that was read
// before is no move (numbers.go), and if higher ones come back, a lower one is no restart.
//
// # Lost calls
//
// An engine may forget a call and keep its connection. Such a call would wait for as long as the
// engine works for others. It is lost if all of the engine's reports of 10 s show exactly as many
// requests as we have calls that do not wait. Calls that have recently begun or ended may be on the
// way, so they count as the engine's. Reports that miss moving calls come from one engine of
// several behind the address: nothing is concluded from them for 15 minutes.
package progress
