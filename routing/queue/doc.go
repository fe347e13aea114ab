// Package queue is the line of calls that wait for a slot. It decides which of them a free slot
// wakes. Keys are opaque names to it. It does no I/O, and reads a clock only for aging.
//
// Queue is one model's line (queue.go). Queues are all lines of an edge, which share upstreams
// (queues.go).
//
// # Design
//
// A free slot must cost nothing at models that cannot use it, and must not wake a thousand calls if
// only one can have it. So the queues know their routes: a slot is offered only to queues with its
// upstream, and only to a call of its pool that has not tried it. Waiters with equal needs form a
// class, and a route is asked once for each class. The alternative, in which each waiter looks for
// a slot in turn, made the cost of every freed slot grow with the length of all queues. Another
// alternative is to hand the waiter the slot itself instead of a hint, which would avoid late
// looks. But then the releaser of a slot would pick the engine for another call, and a client that
// leaves at that moment would take the slot along.
//
// A free slot wakes the key that was served least (package turns), including what its woken calls
// are about to be served: several slots may be freed before the first of them is taken. Within a
// key each session has one call in each round, so that an agent with many parallel calls does not
// keep the key's other agents waiting.
//
// Calls of a later class are woken only when no call of an earlier class wants the slot, and they
// are evicted first. They age after half of their model's wait, which lies within their deadline
// whatever the file says, so a queue never starves them. A floor gives a class its part of the
// slots sooner. The slots that later classes leave free for future calls are decided where slots
// are picked and taken (routing.Query.Reserve). A running call keeps its slot.
package queue
