// Package attempt is one try of a call: a lease on an upstream, one exchange under it, and the
// reading of its reply.
//
// An attempt gets what it needs of its call as Terms, which do not change while it runs, and has no
// way back to it. What it shares with the call are parts with rules of their own: the memory that
// the call's reply may take (Memory), and what ends the call from outside (Abort).
//
// # Course
//
// Begin takes over the lease, Send writes the request, AwaitHead reads the head of the reply, and so
// much of its body that it is known what it is, where it is called no stream although one was asked
// for. Then
// Pull appends the client's bytes for what has come, as the endpoint's codec writes them (package
// endpoint), or ReadWhole reads a reply to its end. FailureOf says what an error of these means.
// End releases the lease with the attempt's outcome, once; Close ends the exchange alone, for
// another one under the same lease.
//
// # Silence
//
// A call whose engine has been silent for 10 s looks at its upstream each second (clock.lookAt). It
// waits on as long as the engine is seen to work, up to a ceiling of 15 minutes; it leaves an
// upstream that has stalled, if it may and another has a slot (Mover); it leaves one that is down and
// silent, or ends, at once; it ends if the engine has forgotten it. What the file says of first_event and idle is a limit whatever the engine does.
//
// # Design
//
// Nearly all of a stream's life is waiting, so what it holds then is what counts. Buffers are taken
// from their pools when bytes have come and go back when these have been written (Rest), without a
// system call more.
//
// What engines send is bounded as what clients send is (Memory). A call holds 64 KiB of its reply
// without asking; beyond that each buffer is reserved before it is made, by what has come and never
// by what a length announces, and counts until it is written or collected. A call that finds no
// room ends with a 503 of its own, and its engine is not blamed.
//
// The zero Attempt is none. It belongs to the call's goroutine; Abort.End alone may be called from
// others.
package attempt
