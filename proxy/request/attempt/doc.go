// Package attempt makes one attempt of a call. An attempt runs one exchange under an upstream's
// lease and reads the response.
//
// Params are the inputs of an attempt and do not change while the attempt runs. An attempt has no
// reference to its call. The two share only the ReplyMemory and the Abort.
//
// # Silence
//
// After 10 s of silence, a call checks its upstream every second (updateEngineProgress). The call waits as
// long as the engine makes progress, but at most for progress.MaxSilence (15 minutes). If the
// upstream stalls, the call moves to another upstream, provided that the call can be moved and a
// slot is free (CallMover). The call fails if the upstream is down, or if the engine no longer has
// the request. The configured limits first_event and idle apply regardless of the engine's
// progress.
//
// # Design
//
// A stream spends nearly all of its time waiting, so the memory of a waiting stream matters most.
// An attempt gets a buffer from a pool when bytes arrive, and returns the buffer once the bytes
// have been written (Reply.WaitForBytes). Doing so needs no extra system call.
//
// Engine responses have a memory budget (ReplyMemory), which is separate from the budget for
// request bodies. Each call may use 64 KiB for its response without a reservation. Memory for a
// larger buffer is reserved before the buffer is allocated. The reservation covers the bytes that
// have arrived rather than the announced length. The bytes stay reserved until the buffer has been
// written or collected. If no memory is left, the call fails with a 503, which does not count
// against the upstream's health or breaker.
//
// The zero Attempt represents no attempt. An Attempt belongs to the goroutine of its call. Other
// goroutines may call only Abort.Cancel.
package attempt
