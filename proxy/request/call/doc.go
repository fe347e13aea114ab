// Package call handles one client request, from its key to its last byte.
//
// # Lifetime of a request
//
//	1  gate.go       Authenticate   check the key, before any of the body is read
//	2                takeRequest    charge the key's requests per minute
//	3                decode         read the body (package body), in the endpoint's codec
//	4                resolve        find the model, check the key's right to it, apply its rules
//	5                admit          reserve the key's concurrency and tokens
//	   hooks.go      ask            let the operator's hooks decide, if there are any
//	6  pick.go       acquire        pick a target and take a lease, or wait in the model's queue
//	7  loop.go       ask            make an attempt: package attempt sends it (send.go)
//	                 next           after a failure, take the step that package retry decides on
//	   serve.go      handOver       send the head and the first event, or a whole answer (unary.go)
//	8  relay.go      commit         the handler returns; the hijackedStream, or under TLS
//	                                fasthttp, pushes the relay's bytes
//	9  call.go       finish         release, account, write one log line
//
// The order has reasons. A slow client must not hold a slot, so the body is read before a slot is
// taken. A key without the right to a model must learn nothing about its pools. Nothing is written
// to the client before the engine's first event (or stream.commit_after), because until then a
// failure can become a clean status.
//
// # Parts
//
// A Call consists of parts. Each part has its own file and its own rules, and holds no reference to
// the call. The parts are the client's side (client), the configuration that applies
// (configuration), the key's limits (allowance), the body (body.Body), the endpoint's codec
// (endpoint.Request), the tokens, the memory for replies (attempt.Memory), the cancellation
// (attempt.Abort), the record of where the call was sent (tries), the attempt (attempt.Attempt),
// the body's hash (fingerprint), what the status page reads (publicState), the times and the trace
// context.
//
// A single loop sends the call to engines, before and after the commit, with the help of a picker,
// a fitter and a changer. A unary makes a whole answer. A relay moves an answer after the commit.
// All calls share Services, which is all that a call can access of the edge.
//
// # Design
//
// Each stream runs on one goroutine. The relay pulls from the engine and pushes to the client, so
// the sockets provide the back-pressure, and there is no queue whose size must be limited. A
// body-stream writer would cost a goroutine and a pipe for each stream, and could not tell a
// failure from an end. A stream on a plain connection leaves fasthttp while it runs
// (stream_hijacked.go). It then holds neither a read buffer sized for the largest head nor a
// request context, which saves 9 KiB of memory. It also frames its chunks in place, which saves a
// quarter of the time for each token. Under TLS, fasthttp frames the stream (BodyWriterTo). A
// client of HTTP/1.0 gets a stream without chunks, which ends with its connection
// (stream_http10.go).
//
// A stream spends nearly all of its lifetime waiting, so its idle memory is what counts. A token
// needs three buffers: for the engine's bytes (http1.Exchange.Wait), for the event parsed from them
// (sse.Source) and for the client's bytes (relay.out). The buffers are taken from their pools when
// bytes arrive, and returned once the bytes have been written. Between its tokens a stream that has
// left fasthttp stays in the poller, where the usual token is translated and written
// (hijackedStream.pass, http1.Exchange.Stay). What remains is a goroutine's stack
// of 4 KiB, two sockets and some 9 KiB of state.
//
// The edge uses the Go runtime's netpoller rather than a separate event loop. With either, a token
// costs two system calls and the kernel's work in them. We measured two relays that only move
// bytes: one with a goroutine for each stream, one with a single epoll loop for all. With 200
// streams, a token cost the same in both, and no less than in nginx and the edge (21 and 20
// microseconds, against 17 and 18, in ten interleaved rounds). An event loop could save the stack,
// but would be a second way to wait.
//
// If a request's token limit leaves too little of the engine's context for the prompt, the edge
// lowers the limit before it sends the request (fit.go). If an engine still refuses the prompt and
// the limit together, its error reports the engine's own count of the prompt. The edge then sends
// the request once more under the same lease. If the engine's context has no room for any answer,
// the edge sends the request to an engine with a longer context. Neither is a retry, because
// nothing failed.
//
// Likewise an engine, or its model's chat template, may refuse the value of a reasoning effort, or
// consecutive turns with the same role. The edge then sends the request once more without the
// effort, or with the turns joined. If the engine accepts this, the edge changes all requests for
// the model at that engine in the same way for an hour (change.go, refusals). A request is changed
// only once: the limit, the effort or the turns.
//
// An answer is committed once its first piece has been received (translate.Stream.Started). Until
// then the edge holds the request, and another engine may answer it, even if the client has
// received the head, keep-alives and the announcement of an answer. The announced values either are
// the edge's own (the ids and the model of Messages and Responses) or are reused for the other
// engine's events (the id of chat). A final failure is then reported in the stream.
//
// A stream that has started can continue at another engine if its model has retry.resume
// (resume.go, package resume). The edge holds the request and what the client has received. The
// attempt that takes over is not charged to the retry budget. A stream resumes after its engine is
// lost. It also leaves a stalled engine (attempt.Mover) and an engine whose drain time is over
// (resumer.leaves), but only once it has taken a slot elsewhere.
//
// A stream that waits long for a slot is committed before the call is sent to any engine. Between
// two keep-alives its relay continues the wait, so the call keeps its place in the queue
// (slotWait).
//
// A call moves once, outside the retry budget, if its engine's host has vanished. An answer by a
// later tier or a fallback model, in place of a failed engine, is not a retry either.
//
// A whole answer of at most 64 KiB is copied to fasthttp and fits the socket's buffer, so its call
// ends before it is written. A larger answer is written by a relay (answer.deliver). Its engine is
// free, but the call keeps its key's concurrency slot and its memory until the client has the
// answer. Otherwise a client that does not read could collect any number of answers, and a
// truncated answer would look whole.
//
// A large answer that is only passed on is not held in memory: the edge relays it in pieces
// (relay_unary.go, endpoint.PassOn). If the bytes turn out not to be an answer, the edge can only
// cut them off, and a client that does not read stalls its engine. A whole answer that takes longer
// than stream.whole_keepalive starts with white space. Its status has been sent by then, so an
// error is sent as the JSON that follows. Audio is relayed as bytes. If audio breaks off, the edge
// cuts the connection, since bytes cannot express an error.
//
// In every phase after the body, the watch in proxy/front/listen notices when a client leaves. It
// then ends the call (attempt.Abort), which closes the engine's connection. The goroutines share
// nothing but the attempt.Abort. While the body arrives, the read of the body fails instead, and
// the call ends with the outcome of a client that left. The edge still sends the reason, because
// the client may have closed only its sending side.
//
// Features that copy or measure calls are participants (package participant): copies for hooks and
// copies for another model (models[].shadow). A call reports to them when it is admitted, sent to
// an engine, shown to the client and ended (participants.go). Neither the loop nor the relay names
// them.
//
// A panic ends only the call or the round of work in which it occurs (package guard). A call
// releases its slot, its key's concurrency slot and its memory step by step, and takes each step
// even if an earlier one fails (Call.release). Calls are pooled. Relays and leases are not, because
// a stale second Close or Release must not affect another call.
//
// # What cores share
//
// Streams on several cores never write a shared word of memory for each token, because each such
// write would cost a cache miss. A test checks this for the functions that run for each token.
// Pools are per core. Memory that a call writes once or twice is split by key, by model or by
// upstream where possible.
//
// A Meter (observe) keeps a stream's measurements for sixteen events or a quarter of a second. A
// stream of 50 tokens a second writes the two shared words four times a second.
package call
