// Package call is one client request, from its key to its last byte.
//
// # Life of a request
//
//	1  gate.go       Authenticate   the key, before one byte of the body is read
//	2                takeRequest    the key's requests per minute
//	3                decode         the body (package body), in the endpoint's codec
//	4                resolve        the model, the key's right to it, the model's own rules
//	5                admit          the key's concurrency and tokens
//	6  pick.go       acquire        a target and a lease, or a wait in the model's queue
//	7  dispatch.go   ask, await     an attempt: send, await the head and the first event
//	                 recover        what follows a failure, from here or from the relay: package
//	                                retry decides it
//	8  relay.go      commit         the handler returns; the hijackedStream, or under TLS
//	                                fasthttp, pushes the relay's bytes
//	9  call.go       finish         release, account, one log line
//
// The order has reasons: a slow client must not hold a slot, so the body is read before any is
// taken; a key without the right to a model must not learn about its pools; nothing is written to
// the client before the engine's first event (or stream.commit_after), because until then a failure
// can become a clean status.
//
// # Parts
//
// A Call is an aggregate of parts, each with its own file and its own rules, none of which knows
// the call: the client's side (client), the configuration it runs under (configuration), its key's
// limits (allowance), its body (body.Body), the codec of its endpoint (endpoint.Request), its
// tokens, its reply's memory and its end from outside (attempt.Memory, attempt.Abort), where it
// was sent (tries), its attempt (attempt.Attempt), the identity of its body (fingerprint), what
// the status page reads of it (publicState), its times and its place in a trace.
//
// Three workers drive them: a dispatcher sends the call until there is something to commit, with a
// picker, a fitter and a changer; unary makes a whole answer; a relay moves an answer after the commit. What
// all calls share comes as Services: no call sees the edge.
//
// # Design
//
// One goroutine a stream. The relay pulls from the engine and pushes to the client, so
// back-pressure is the socket's own and there is no queue to bound. A body-stream writer would cost
// a goroutine and a pipe a stream, and could not tell a failure from an end. A stream on a plain
// connection leaves fasthttp for that time (stream_hijacked.go): it then holds neither the buffer
// for the largest head nor a context, 9 KiB of memory less, and its chunks are framed in place, a
// quarter of the time of a token less. Under TLS fasthttp frames it (BodyWriterTo). To a client of
// HTTP/1.0 a stream has no frames: its connection ends with it (stream_http10.go).
//
// Nearly all of a stream's life is waiting, so what it holds then is what counts. The buffers of a
// token, with the engine's bytes (http1.Exchange.Wait), in which the event is read (sse.Source), and
// with the client's (relay.out), are taken from their pools when bytes have come and go back when
// these have been written. What remains is a goroutine's stack of 4 KiB, two sockets and some 9 KiB of state.
//
// There is no readiness loop of our own beside the runtime's: what a token costs is two system
// calls and the kernel's work in them. Two relays that only move bytes, one with a goroutine for
// each stream and one with a single loop over epoll for all of them, cost the same for a token of
// 200 streams, and no less than nginx and the edge (21 and 20 microseconds beside 17 and 18, in
// ten interleaved rounds). A loop could save the stack, at the price of a second way to wait.
//
// A limit on the answer's tokens that leaves the prompt no room in the engine's context is lowered
// before it is sent (fit.go). An engine that refuses the sum reports its own count, and is asked
// once more under the same lease; where it has no room for any answer, one with a longer context is
// asked. Neither is a retry, as nothing failed.
//
// Likewise an engine, or the template of its model, may refuse the word of a reasoning effort, or
// turns of one role in a row. It is asked once more without the word, or with the turns joined, and
// when it takes that, its further requests for the model are sent so from the start, for an hour
// (change.go, refusals). A call is changed once: its limit, its effort or its turns.
//
// The commit of an answer is its first piece (translate.Stream.Started). Until then its request is
// held, and another engine may give it, although the head, signs of life and the announcement of an
// answer are out: what was announced is the edge's own (the ids and the model of Messages and
// Responses), or is kept for the other engine's events (the id of chat). A final failure is then
// told in the stream.
//
// A stream that has been begun goes on at another engine where its model has retry.resume
// (resume.go, package resume): the request is held beside what the client was shown, and the
// attempt that takes over is one more, apart from the budget of retries. It leaves an engine that
// has stalled (attempt.Mover) and one whose drain time is over (resumer.leaves) as it leaves one
// that was lost, but only when a slot has been taken elsewhere: otherwise it stays.
//
// A stream that waits long for a slot is committed before any engine was asked: its relay goes on
// with the wait, which keeps its place in the queue (slotWait), between two signs of life.
//
// A call whose engine's host has vanished moves once, apart from the budget of retries. A later tier
// or a fallback model that answers in place of an engine that failed is no retry either.
//
// A large answer that is only passed on is not held (relay_unary.go, endpoint.PassOn): it is
// relayed in pieces, so that it can only be broken off when it turns out to be none, and a client
// that does not read stops its engine. A whole answer that takes longer than
// stream.whole_keepalive begins as white space. Its status has gone out then, so an error becomes
// the JSON that follows. Audio is relayed as bytes; where it breaks off so does the connection,
// since bytes have no words for an error.
//
// A client that leaves is noticed by proxy/front/listen's watch in every phase and ends the call
// (attempt.Abort), which closes the engine's connection. Nothing else is shared between
// goroutines. While a body comes it is the reading that ends, and the call is one whose client has
// gone, too; as the client may have ended its own side only, it gets the reason.
//
// A copy of a call for another model (models[].shadow) begins once the first engine has been sent
// the call, and is no part of it (package shadow): the call does nothing for it but end it when the
// client leaves.
//
// A panic costs the call or the round of work that met it (package guard). A call gives back what
// others wait for, slot, key and memory, step by step, each whatever the steps before it come to
// (Call.release). Calls are pooled; relays and leases are not, because a stale second Close or
// Release must hit no other call.
//
// # What cores share
//
// No word that streams on several cores write is written for each token: it would cost each of them a
// cache miss. A test holds that of the functions that run for each token. Pools are by core. What a
// call writes once or twice is split by key, by model or by upstream where it can be.
//
// A Meter (observe) keeps what a stream has measured for sixteen events or a quarter of a second: a
// stream of 50 tokens a second writes those two words four times a second.
package call
