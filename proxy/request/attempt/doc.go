// Package attempt makes one attempt of a call. It holds a lease on an upstream, runs one exchange
// under the lease, and reads the reply.
//
// An attempt gets what it needs from its call as Terms, which do not change while it runs. It has
// no reference to the call. The two share only the memory for the call's replies (Memory), and the
// means to end the call from outside (Abort).
//
// # Course
//
// Begin takes over the lease, and Send writes the request. AwaitHead reads the head of the reply.
// If the request was for a stream but the head announces none, AwaitHead also reads enough of the
// body to tell what the reply is. Then Pull translates what has arrived with the endpoint's codec
// (package endpoint) and appends the client's bytes, or ReadWhole reads a whole reply. FailureOf
// turns an error that these methods return into a failure. End releases the lease with the
// attempt's outcome, once. Close ends only the exchange, so that another one can begin under the
// same lease.
//
// # Silence
//
// After 10 s of silence a call checks its upstream every second (clock.lookAt). It keeps waiting as
// long as the engine shows progress, up to a ceiling of 15 minutes. It leaves a stalled upstream if
// the call may leave and another upstream has a slot (Mover). If the upstream is down and silent,
// the call leaves it at once, or ends. The call also ends if the engine has forgotten the request.
// The limits first_event and idle of the configuration apply regardless of the engine's progress.
//
// # Design
//
// A stream spends nearly all of its lifetime waiting, so its idle memory is what counts. Buffers
// are taken from their pools when bytes arrive, and returned once the bytes have been written
// (Rest), without an extra system call.
//
// The memory for engines' bytes is limited, like that for clients' bytes (Memory). A call may hold
// 64 KiB of its reply without a reservation. Beyond that, each buffer is reserved before it is
// allocated. The reservation follows the bytes that have arrived, never an announced length, and
// counts until the buffer is written or collected. If no memory is left, the edge ends the call
// with a 503 and does not blame the engine.
//
// The zero Attempt stands for no attempt. An Attempt belongs to the call's goroutine. Other
// goroutines may call only Abort.End.
package attempt
