// Package queue holds the calls that wait for a slot, and decides which of them a free slot wakes.
// Keys are opaque names to the package. It does no I/O, and reads a clock only for aging.
//
// A Queue holds one model's waiting calls (queue.go). Queues holds all queues of an edge, whose
// models may share upstreams (queues.go).
//
// # Design
//
// A free slot must cost nothing at models that cannot use it, and must not wake a thousand calls if
// only one call can have it. So the queues know their routes. A slot is offered only to the queues
// of models that have its upstream, and only to a call of the slot's pool that has not tried the
// upstream. Waiters with equal needs form a class, and a route is asked once for each class. The
// alternative, in which each waiter looks for a slot in turn, made the cost of every freed slot
// grow with the length of all queues. Another alternative is to hand the waiter the slot itself
// instead of a hint, so that no waiter tries too late. But then the call that releases a slot would
// pick the engine for another call, and the slot would be lost if the waiter's client leaves at
// that moment.
//
// A free slot wakes the key that was served least (package turns). The expected service of the
// key's woken calls counts, too, because several slots may be freed before the first of them is
// taken. Within a key each session has one call in each round, so that an agent with many parallel
// calls does not keep the key's other agents waiting.
//
// Calls of a later class are woken only if no call of an earlier class wants the slot, and they are
// evicted first. They age after half of their model's wait. This is always before their deadline,
// whatever the configuration says, so a queue never starves them. A floor gives a class its share
// of the slots sooner. How many slots later classes leave free for future calls is decided where
// slots are picked and taken (routing.Query.Reserve). A running call keeps its slot.
package queue
