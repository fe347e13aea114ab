// Package progress decides whether an engine works or stands still, by what moves and not by how
// long a call takes: the engine's own counters of work, where it has any, and the answers of our
// calls. It is pure logic: others read the pages, count the reads and hand in the time.
//
// # Stalled
//
// An engine has stalled when a call waits for it, and nothing has moved for longer than its bound:
//
//	30 s, as long as too little is known of it; then 10 s or three times its usual step
//	+ the time of a prefill: the prompt tokens that have brought no first token yet, each as long as
//	  three times the slowest one lately (10 ms, as long as none was seen)
//
// The usual step is the longest lately between two moves, which fades with every further one. An
// engine that counts moves with each chunk of a prompt, so no more than a chunk is waited for. An
// engine that does not count shows nothing of an answer that comes whole, or of a tool call that it
// holds back (`buffers_calls`), so it cannot stall while it has one of these to make.
//
// # Counters
//
// What an engine counts is one number: the sum over its counters and over their series, since a
// page may be that of several engines. It is stalled only if all of them stand still. A higher
// number is a move. A lower one is a restart: neither a move nor, for 10 s, a stall. A number that
// is read for the first time long after something moved is where counting starts, because what it
// shows may be older than the stall.
//
// Behind an address may also be several engines with a page each, and a balancer that shows one or
// another of them. Their numbers jump up and down though nothing moves. So a number that was read
// before is no move (numbers.go), and where higher ones come back, a lower one is no restart.
//
// # Lost calls
//
// An engine may forget a call and keep its connection. Such a call would wait for as long as the
// engine works for others. It is lost if the engine says, in all of its reports of 10 s, that it
// has as many requests as those of our calls that do not wait. Calls that have begun or ended
// lately may be on the way, so they count as the engine's. Reports that miss calls which move are
// those of one engine of several behind the address: for 15 minutes nothing follows from them.
package progress
