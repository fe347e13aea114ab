// Package scheduler implements the limits of a simulated engine. These are the slots in its batch,
// the room for prompts and responses, the queue of prompts to read, the prefix cache, and the
// loaded models.
//
// Slots are granted in the order of priority and, among equal priorities, in the order of arrival.
// A request waits at the head of the queue until it fits, and no other request overtakes it. When
// running responses outgrow the room, the youngest request is preempted. It notices the preemption
// at its next token, and returns to the head of the queue. A client that leaves frees its slot and
// its room in every phase, even if it leaves just when the slot is granted.
//
// While a Prompt is read, it is reduced to chained hashes, one for each full block. Two prompts
// with a common prefix therefore share the hashes of that prefix. PrefixCache stores only hashes,
// so the scheduler stores no text from clients.
//
// The package uses no sockets and waits only for slots. The caller waits for prompts to be read.
package scheduler
