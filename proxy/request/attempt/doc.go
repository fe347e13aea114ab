// Package attempt makes one try of a call: it holds a lease on an upstream, runs one exchange under
// it, and reads the reply.
//
// An attempt gets what it needs of its call as Terms, which do not change while it runs. It has no
// way back to the call. The two share only parts with rules of their own: the memory that the
// call's reply may take (Memory), and what ends the call from outside (Abort).
//
// # Course
//
// Begin takes over the lease, and Send writes the request. AwaitHead reads the head of the reply.
// If a stream was asked for and the head announces none, it also reads enough of the body to tell
// what it is. Then Pull appends the client's bytes for what has come, as the endpoint's codec
// writes them (package endpoint), or ReadWhole reads a reply to its end. FailureOf says what
// an error of these methods means. End releases the lease with the attempt's outcome, once. Close
// ends only the exchange, for another one under the same lease.
//
// # Silence
//
// A call whose engine has been silent for 10 s looks at its upstream each second (clock.lookAt). It
// keeps waiting as long as the engine is seen to work, up to a ceiling of 15 minutes. It leaves an
// upstream that has stalled, if it may and another has a slot (Mover). If the upstream is down and
// silent, the call leaves it at once, or ends. It ends if the engine has forgotten the request. The
// configuration's first_event and idle are limits whatever the engine does.
//
// # Design
//
// A stream spends nearly all of its life waiting, so its idle memory is what counts. Buffers are
// taken from their pools when bytes arrive and returned when these have been written (Rest),
// without an extra system call.
//
// What engines send is bounded like what clients send (Memory). A call holds 64 KiB of its reply
// without asking. Beyond that, each buffer is reserved before it is made. The reservation follows
// what has come, never an announced length, and counts until the buffer is written or collected. A
// call that finds no room ends with a 503 of its own, and its engine is not blamed.
//
// The zero Attempt stands for no attempt. An Attempt belongs to the call's goroutine; other
// goroutines may call Abort.End only.
package attempt
