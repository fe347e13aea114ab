// Package scheduler holds the limits of a simulated engine: the slots of its batch, the room for
// prompts and answers, the queue of prompts to read, the prefix cache, and the models in memory.
//
// Slots serve first come, first served. A request waits at the head of the queue until it fits, and
// no other request overtakes it. When running answers outgrow the room, the youngest request is
// evicted. It notices the eviction at its next token, and returns to the head of the queue. A
// client that leaves frees its slot and its room in every phase, even if it leaves just as it gets
// its slot.
//
// A Prompt is reduced to chained hashes while it is read, one for each full block, so that two
// prompts share the hashes of their common prefix. PrefixCache keeps only such blocks: the
// simulator stores no text of its clients here.
//
// The package uses no sockets and waits only for a slot. The caller spends the time that a
// reservation or a cache miss costs.
package scheduler
