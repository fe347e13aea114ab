// Package scheduler implements the limits of a simulated engine. It manages the slots in the batch,
// the room for prompts and responses, the queue of prompts to read, the prefix cache, and the
// loaded models.
//
// Slots are granted in the order of priority and, among equal priorities, in the order of arrival.
// A request waits at the head of the queue until it fits, and no other request overtakes it. When
// running responses outgrow the room, the youngest request is preempted. When its next token is
// due, it notices the preemption and returns to the head of the queue. When a client leaves, its
// slot and its room for tokens are freed in every phase. This also holds if the client leaves at
// the moment when the slot is granted.
//
// As a Prompt is read, its text is reduced to chained hashes, one for each full block. Two prompts
// with a common prefix therefore share the hashes of that prefix. PrefixCache stores only hashes,
// so the scheduler stores no text from clients.
//
// The package does not use sockets, and waits only for slots. The caller waits until prompts have
// been read.
package scheduler
