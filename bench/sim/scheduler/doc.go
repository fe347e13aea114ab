// Package scheduler holds the limits of a simulated engine: the slots of its batch, the room for
// prompts and answers, the line of prompts to read, the prefix cache, the models in memory.
//
// Slots serve first come, first served. A request waits at the head of the queue until it fits, and
// no other overtakes it. When running answers outgrow the room, the youngest is evicted, notices
// the eviction at its next token, and returns to the head of the queue. A client that leaves frees
// its slot and its room in every phase, even if it leaves just as it gets its slot.
//
// A Prompt is reduced to chained hashes while it is read, one for each full block, so that two
// prompts share hashes as far as their beginnings are equal. PrefixCache keeps only such blocks:
// the simulator stores no text of its clients here.
//
// The package knows no sockets and waits only for a slot. The caller spends the time that a
// reservation or a cache miss costs.
package scheduler
