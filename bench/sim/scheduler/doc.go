// Package scheduler is what limits a simulated engine: the slots of its batch, the room for prompts
// and answers, the line of prompts to read, the prefix cache, the models in memory.
//
// Slots serve first come, first served. A request waits at the head of the queue until it fits, and
// nobody overtakes it; when running answers outgrow the room the youngest is evicted, notices it at
// its next token and goes back to the head of the queue. A client that leaves frees its place in
// every phase, also when its grant and its farewell cross.
//
// A Prompt is boiled down to hashes while it is read, a chain of one for each whole block, so that
// two prompts share what their beginnings share. PrefixCache keeps such blocks and nothing else:
// the simulator stores no text of its clients here.
//
// Nothing here knows sockets, and nothing waits except for a slot: what a reservation or a miss
// costs in time is the caller's to spend.
package scheduler
