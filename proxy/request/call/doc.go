// Package call handles one client request, from its key to its last byte.
//
// # Life of a request
//
//	1  gate.go       Authenticate   the key, before one byte of the body is read
//	2                takeRequest    the key's requests per minute
//	3                decode         the body (package body), in the endpoint's codec
//	4                resolve        the model, the key's right to it, the model's own rules
//	5                admit          the key's concurrency and tokens
//	6  pick.go       acquire        a target and a lease, or a wait in the model's queue
//	7  loop.go       ask            an attempt: package attempt sends it (send.go)
//	                 next           what follows a failure, before the commit or after it: package
//	                                retry decides it
//	   serve.go      handOver       the head and the first event, or a whole answer (unary.go)
//	8  relay.go      commit         the handler returns; the hijackedStream, or under TLS
//	                                fasthttp, pushes the relay's bytes
//	9  call.go       finish         release, account, one log line
//
// The order has reasons. A slow client must not hold a slot, so the body is read before a slot is
// taken. A key without the right to a model must learn nothing about its pools. Nothing is written
// to the client before the engine's first event (or stream.commit_after), because until then a
// failure can become a clean status.
//
// # Parts
//
// A Call is an aggregate of parts. Each part has its own file and its own rules, and does not know
// the call. The parts are the client's side (client), the configuration it runs under
// (configuration), its key's limits (allowance), its body (body.Body), the codec of its endpoint
// (endpoint.Request), its tokens, the memory of its reply (attempt.Memory), its end from outside
// (attempt.Abort), where it was sent (tries), its attempt (attempt.Attempt), the identity of its
// body (fingerprint), what the status page reads of it (publicState), its times and its place in a
// trace.
//
// One loop asks engines, before the commit and after it, and uses a picker, a fitter and a changer.
// unary makes a whole answer. A relay moves an answer after the commit. All calls share Services;
// no call sees the edge.
//
// # Design
//
// Each stream runs on one goroutine. The relay pulls from the engine and pushes to the client, so
// back-pressure is the socket's own and there is no queue to bound. A body-stream writer would cost
// a goroutine and a pipe for each stream, and could not tell a failure from an end. A stream on a
// plain connection leaves fasthttp while it runs (stream_hijacked.go). It then holds neither the
// buffer for the largest head nor a context, which saves 9 KiB of memory. It also frames its chunks
// in place, which saves a quarter of the time of a token. Under TLS fasthttp frames the stream
// (BodyWriterTo). A client of HTTP/1.0 gets a stream without frames: its connection ends with the
// stream (stream_http10.go).
//
// A stream spends nearly all of its life waiting, so its idle memory is what counts. A token needs
// three buffers: for the engine's bytes (http1.Exchange.Wait), for the event that is read from them
// (sse.Source) and for the client's bytes (relay.out). They are taken from their pools when bytes
// arrive, and returned when these have been written. A goroutine's stack of 4 KiB, two sockets and
// some 9 KiB of state remain.
//
// The edge has no readiness loop of its own beside the runtime's, because a token costs two system
// calls and the kernel's work in them. Two relays that only move bytes, one with a goroutine for
// each stream and one with a single epoll loop for all of them, cost the same for a token of 200
// streams, and no less than nginx and the edge (21 and 20 microseconds, against 17 and 18, in ten
// interleaved rounds). A loop could save the stack, at the price of a second way to wait.
//
// If a limit on the answer's tokens leaves no room for the prompt in the engine's context, the edge
// lowers the limit before it sends the request (fit.go). An engine that refuses the sum reports its
// own count, and is asked once more under the same lease. If its context has no room for any
// answer, an engine with a longer context is asked. Neither is a retry, because nothing failed.
//
// Likewise an engine, or the template of its model, may refuse the word of a reasoning effort, or
// consecutive turns of one role. The edge asks it once more without the word, or with the turns
// joined. If it accepts that, further requests for the model are sent to it in that form from the
// start, for an hour (change.go, refusals). A call is changed once: its limit, its effort or its
// turns.
//
// An answer is committed with its first piece (translate.Stream.Started). Until then the edge holds
// the request, and another engine may answer it, although the head, keep-alives and the
// announcement of an answer have been sent. The announced values are either the edge's own (the ids
// and the model of Messages and Responses) or are kept for the other engine's events (the id of
// chat). A final failure is then reported in the stream.
//
// A stream that has started continues at another engine if its model has retry.resume (resume.go,
// package resume). The edge holds the request and what the client was shown. The attempt that takes
// over is one more, outside the budget of retries. A stream leaves a stalled engine (attempt.Mover)
// and one whose drain time is over (resumer.leaves) in the same way as a lost one, but only after a
// slot has been taken elsewhere; otherwise it stays.
//
// A stream that waits long for a slot is committed before any engine was asked. Its relay continues
// the wait, which keeps its place in the queue (slotWait), between two keep-alives.
//
// A call whose engine's host has vanished moves once, outside the budget of retries. A later tier
// or a fallback model that answers in place of a failed engine is no retry either.
//
// A large answer that is only passed on is not held (relay_unary.go, endpoint.PassOn). It is
// relayed in pieces, so the edge can only cut it off if it turns out not to be an answer, and a
// client that does not read stops its engine. A whole answer that takes longer than
// stream.whole_keepalive begins as white space. Its status has been sent by then, so an error
// becomes the JSON that follows. Audio is relayed as bytes. If it breaks off, so does the
// connection, since bytes cannot express an error.
//
// proxy/front/listen's watch notices in every phase that a client has left. It ends the call
// (attempt.Abort), which closes the engine's connection. Goroutines share nothing else. While a
// body arrives, the read fails instead and the call ends as one whose client has left. The client
// may have closed only its own side, so the edge still sends it the reason.
//
// A copy of a call for another model (models[].shadow) begins once the call has been sent to its
// first engine. It is not part of the call (package shadow); the call only ends the copy when the
// client leaves.
//
// A panic costs the call or the round of work that hit it (package guard). A call gives back what
// others wait for (slot, key and memory) step by step, and takes each step even if an earlier one
// fails (Call.release). Calls are pooled. Relays and leases are not, because a stale second Close
// or Release must hit no other call.
//
// # What cores share
//
// Streams on several cores never write a shared word of memory for each token: that would cost each
// stream a cache miss. A test checks this for the functions that run for each token. Pools are per
// core. Memory that a call writes once or twice is split by key, by model or by upstream where
// possible.
//
// A Meter (observe) keeps a stream's measurements for sixteen events or a quarter of a second. A
// stream of 50 tokens a second writes the two shared words four times a second.
package call
