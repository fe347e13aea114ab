// Package queue contains the calls that are waiting for a slot, and decides which of them to wake
// for a free slot. Keys are opaque names. The package does no I/O, and reads the clock only for
// aging.
//
// A Queue contains the waiting calls of one model (queue.go). Queues contains all queues of an
// edge, whose models may share upstreams (queues.go).
//
// # Design
//
// A free slot must cause no work for models that cannot use it. Nor must it wake a thousand calls
// if only one of them can get it. Each queue therefore stores its model's route. A slot is offered
// only to the queues of models that use its upstream. In such a queue, only calls that use the
// slot's pool and have not tried the upstream get the offer. Waiters that have the same needs form
// a class, and the route is queried once per class. If each waiter tried in turn to acquire the
// slot, the cost of a freed slot would grow with the length of all queues.
//
// A woken waiter must still acquire the slot, and another call may acquire the slot first. If the
// slot were assigned to the waiter, the call that releases it would have to pick the engine for the
// waiter's call. The slot would also be lost if the waiter's client disconnected at that moment.
//
// A free slot wakes a call of the key that was served least (package turns). The expected service
// of a key's woken calls also counts as served, because another slot may be freed before a woken
// call has acquired its slot. Within a key, each session has one call per round. An agent with many
// parallel calls therefore does not block other agents that use the same key.
//
// Calls of a later class are woken only if no call of an earlier class can use the slot, and they
// are evicted first. After half of their model's maximum wait, they move to the first class. Their
// deadline is always later, so they never starve. A floor is a share of the slots that a class gets
// even before its calls have aged. Package routing enforces how many slots calls of later classes
// must leave free (routing.Query.Reserve). Running calls are never preempted.
package queue
