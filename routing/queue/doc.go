// Package queue is the line of calls that wait for a slot: which of them a free slot wakes. Keys
// are opaque names to it. It does no I/O, and reads a clock only for what ages.
//
// Queue is one model's line (queue.go), Queues are all of an edge's, which share upstreams
// (queues.go).
//
// # Design
//
// A free slot must not cost models that cannot use it, nor wake a thousand calls of which one can
// have it. So the queues know their routes: a slot is offered only to queues with its upstream, and
// only to a call of its pool that has not tried it. Waiters with equal needs form a class, and a
// route is asked once for each class. The alternative, in which each waiter looks for a slot in
// turn, made the cost of every freed slot grow with the length of all queues. Giving the waiter the
// slot itself, and not a hint, would avoid looks that come too late. But then the releaser of a
// slot would pick the engine for another call, and a client that leaves at that moment would take
// the slot along.
//
// A free slot wakes the key that was served least (package turns), what its woken calls are about to
// be served included: several slots may be freed before the first of them is taken. Within a key
// each session has one call in each round, so that an agent with many calls side by side does not
// keep the key's other agents waiting.
//
// Calls of a later class are woken when no call of an earlier one wants the slot, and evicted
// first. They age by half of their model's wait, which is in their deadline's reach whatever the
// file says, and so are never starved in a queue. A floor gives a class its part of the slots
// sooner. What later classes leave free for calls to come is decided where slots are picked and
// taken (routing.Query.Reserve). A call that runs keeps its slot.
package queue
