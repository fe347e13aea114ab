// Package queue holds calls that wait for a slot, and decides which of them to wake for a free
// slot. Keys are opaque names. The package does no I/O, and reads the clock only for aging.
//
// A Queue holds the waiting calls of one model (queue.go). Queues contains all queues of an edge.
// Their models may share upstreams (queues.go).
//
// # Design
//
// A free slot must cost nothing at models that cannot use it, and must not wake a thousand calls if
// only one of them can get it. The queues therefore know their routes. A slot is offered only to
// the queues of models that have its upstream, and only to calls that use the slot's pool and have
// not tried the upstream. Waiters that have the same needs form a class, and the route is queried
// once per class. If each waiter tried in turn to acquire the slot, the cost of a freed slot would
// grow with the length of all queues. A waiter gets a hint rather than the slot itself, and may
// find that another call has taken the slot first. Otherwise the call that releases a slot would
// have to pick the engine for another call. The slot would also be lost if the waiter's client
// disconnected at that moment.
//
// A free slot wakes the key that was served least (package turns). The expected service of a key's
// woken calls also counts, because another slot may be freed before a woken call has acquired its
// slot. Within a key, each session has one call per round. An agent with many parallel calls
// therefore does not block the key's other agents.
//
// Calls of a later class are woken only if no call of an earlier class can use the slot, and they
// are evicted first. After half of their model's maximum wait, they move to the first class. This
// is always before their deadline, so they never starve. A floor gives a class a share of the slots
// even before its calls have aged. Package routing enforces how many slots later classes must leave
// free for future calls (routing.Query.Reserve). Running calls are never preempted.
package queue
