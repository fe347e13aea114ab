// Package attempt makes one attempt of a call: it runs one exchange under a lease on an upstream
// and reads the response.
//
// Terms are the inputs of an attempt, and do not change while it runs. An attempt has no reference
// to its call. It shares only two objects with the call: the Memory for responses and the Abort.
//
// # Silence
//
// After 10 s of silence a call checks its upstream every second (clock.lookAt). It waits as long as
// the engine makes progress, up to progress.Ceiling (15 minutes). It moves away from a stalled
// upstream if it can be moved and another upstream has a slot (Mover). It fails if the upstream is
// down, or if the engine no longer has the request. The configured limits first_event and idle
// apply regardless of the engine's progress.
//
// # Design
//
// A stream spends nearly all of its time waiting, so the memory of a waiting stream matters most. A
// buffer is taken from its pool when bytes arrive, and returned when they have been written (Rest).
// This does not cost an additional system call.
//
// Engine responses have a memory limit (Memory), which is separate from that of request bodies. A
// call may use 64 KiB for its response without a reservation. Any larger buffer is reserved before
// it is allocated. The reservation covers the bytes that have arrived, never an announced length.
// The bytes stay reserved until the buffer has been written or collected. If no memory is left, the
// call fails with a 503, and the upstream's health and breaker do not count the failure.
//
// The zero Attempt represents no attempt. An Attempt belongs to the goroutine of the call. Other
// goroutines may call only Abort.End.
package attempt
