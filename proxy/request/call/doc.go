// Package call handles one client request, from authentication to the last byte of the response.
//
// # Lifetime of a request
//
//	1  gate.go          authenticate       check the key before any of the body is read
//	2                   chargeRequest      charge the key's requests per minute
//	3                   readAndDecode      read the body (package body) and decode it
//	4                   resolveModel       find the model, check the key's access, apply the rules
//	5                   reserveKeyLimits   acquire the key's concurrency slot and reserve its tokens
//	   hooks.go         askHooks           let the operator's hooks decide, if there are any
//	6  acquire_slot.go  pickSlot           pick a target and acquire a lease, or wait in the queue
//	7  send_loop.go     sendToNextEngine   start an attempt; package attempt sends it (send.go)
//	                    retryAfterFailure  after a failure, take the step that package retry chooses
//	   serve.go         awaitAnswer        send the first event, or a whole answer (unary.go)
//	8  relay.go         commitRelay        end the handler; the relay's bytes are then written by a
//	                                       detachedStream, an http10Stream or, under TLS, fasthttp
//	9  call.go          finish             release everything, charge the key, write one log line
//
// The body is read before the call acquires a slot, because a slow client must not occupy a slot.
// Before routing, the call checks whether the key may use the model. Otherwise, a key could learn
// something about the pools of a model that it may not use. Nothing is written to the client before
// the engine's first event arrives or stream.commit_after passes, so that an earlier failure can
// still be reported with an HTTP status.
//
// # Parts
//
// A Call consists of parts, such as callClient, callConfig, callLimits, engineSearch, callSlots and
// callAttempts. Parts do not refer to the call. The steps of a call are its methods. Their
// decisions are made by functions and values that depend only on their arguments, such as
// resolveRequest, alternativeTargets, contextComparison, chooseRequestChange and retry.DecideStep. The
// functions in record.go write the outcome into the call's record.
//
// A relay, which writes an answer after the commit, and a Dialogue refer to their call, because
// they outlive its handler. An attempt knows its call only as an attempt.CallMover. All calls share
// one Services, through which they access the other parts of the edge.
//
// # Design
//
// Each stream runs on one goroutine. The relay reads from the engine and writes to the client on
// that goroutine. The sockets therefore provide back-pressure, and no queue needs a size limit.
// fasthttp's body stream writer would need an additional goroutine and a pipe for each stream. It
// also could not distinguish a failure from the end of the stream.
//
// A stream spends nearly all of its time waiting, so the memory of a waiting stream matters most. A
// token needs three buffers: one for the engine's bytes (http1.Exchange.WaitReadable), one for the
// event parsed from them (sse.Source) and one for the client's bytes (relay.out). Each buffer is
// taken from a pool when bytes arrive, and returned once the bytes have been written. A waiting
// stream needs only a goroutine stack of 4 KiB, two sockets and about 8 KiB of state. A stream that
// has left fasthttp waits in the poller, which also translates and writes plain tokens
// (detachedStream.Step, http1.Exchange.StayInPoller).
//
// The edge uses the Go runtime's netpoller instead of an event loop. In both designs, a token costs
// two system calls and the kernel's work for them. We measured two minimal relays: one used a
// goroutine for each stream, the other a single epoll loop for all streams. In ten interleaved
// rounds with 200 streams, a token took about the same processor time in both relays (20 and 21
// µs). It took slightly less in nginx (17 µs) and in the edge (18 µs). An event loop could save the
// goroutine stacks, but would add a second mechanism for waiting.
//
// If a request's token limit leaves too little context for the prompt, the edge lowers the limit
// before it sends the request (context_fit.go). If an engine still rejects the request, the edge
// sends it once more with a lower limit, or to an engine with a longer context. Neither step counts
// as a retry, because no engine failed.
//
// An engine or its model's chat template may also reject a reasoning effort or consecutive turns of
// the same role. The edge then sends the request once more without the effort, or with the turns
// joined (request_change.go).
//
// A stream is bound to its engine once the client has received the first part of the answer
// (endpoint.Stream.HasStarted). Until then, the edge stores the request, and another engine may
// answer it. This is possible even if the client has received the headers, keep-alives and the
// event that announces an answer. In the Messages and Responses dialects, the edge itself creates
// the announced ids and the model name. In the chat dialect, it uses the announced id in the events
// of the new engine. If all engines fail, the edge reports the failure in the stream.
//
// A stream that has started can continue at another engine if retry.resume is set for its model
// (resume.go, package resume). The edge stores the request and the part of the answer that the
// client has received. If the engine of a stream is lost, the stream resumes at another engine. A
// stream also leaves an engine that is stalled (attempt.CallMover) or whose drain time has passed
// (Call.leaveDrainedEngine). It first acquires a slot at another engine.
//
// An answer that is not streamed and has at most 64 KiB is copied to fasthttp. It fits into the
// socket buffer, so the call ends before the answer is written. A relay writes a larger answer
// (Call.answerLargeBody). The engine is then free, but the call occupies its key's slot and its memory
// until the client has received the answer. Otherwise, a client that does not read could accumulate
// an unlimited number of answers, and a truncated answer would be logged as complete.
//
// A large answer that needs no translation is relayed while it arrives (relay_unary.go,
// endpoint.ReplyPassthrough), so the edge does not store all of it. If the answer turns out to be
// invalid, the edge can only close the connection. A client that does not read blocks the engine.
//
// If an answer that is not streamed takes longer than stream.whole_keepalive, the edge starts the
// response with white space. The status is sent at the same time, so a later error can be sent only
// as the JSON body.
//
// After the body has arrived, package listen watches the connection. If the client disconnects, the
// watch cancels the call (attempt.Abort), which closes the connection to the engine. The watch and
// the call's goroutine share only the attempt.Abort. If the client disconnects while the body is
// arriving, reading the body fails, and the call has the same outcome. The edge still sends an
// error, because the client may have closed only its sending side.
//
// A panic ends only the call or other unit of work in which it occurs (package guard). A call
// releases its slot, its key's slot and its memory in separate steps (Call.releaseSharedResources).
// A panic in one step does not skip the next step. Calls are pooled. Relays and leases are not
// pooled, because a second Close or Release must not affect another call.
//
// Features that copy or measure calls are participants (package participant): copies to hooks, and
// copies to another model (models[].shadow). A call notifies them when it is admitted, when it is
// sent to an engine, when the client receives part of the answer, and when the call ends
// (participants.go). Neither the loop nor the relay refers to a particular feature.
//
// Streams on different cores never write the same memory word for each token, because each such
// write would cost a cache miss. A test checks this for all functions that run for each token.
// Pools are per core. Counters that a call writes once or twice are split by key, model or upstream
// where possible.
//
// An observe.StreamMeter batches a stream's measurements over sixteen events or a quarter of a
// second. A stream at 50 tokens a second therefore writes the two shared memory words four times a
// second.
package call
