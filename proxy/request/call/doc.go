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
// token, from the engine's bytes (http1.Exchange.Wait) over the event (sse.Reader.Rest) to the
// client's (relay.out), are taken from their pools when bytes have come and go back when these have
// been written. What remains is a goroutine's stack of 4 KiB, two sockets and some 9 KiB of state.
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
// A panic costs the call or the round of work that met it (package guard, which has the table of
// every goroutine). A call gives back what others wait for, slot, key and memory, step by step,
// each whatever the steps before it come to (Call.release). Calls are pooled; relays and leases are
// not, because a stale second Close or Release must hit no other call.
//
// # What cores share
//
// The table has a row for every word here and in the packages that a call's tokens pass through
// (attempt, observe, limit, http1, progress, queue, turns) that several goroutines may write, how often that is,
// and why it may be. A test compares it with the sources. "Own" is one call's or connection's: two
// goroutines at most, which are seldom on two cores at a time.
//
//	word                                    written  how it is split, or why it may stay
//
//	attempt.Abort:cause,exchange,left,shadow call     own
//	attempt.var:assemblerPool,bufferPool    token    by core: sync.Pool
//	attempt.var:readerPool                  token    the same
//	call.Counters:Refits,Resumed            seldom   when an engine has failed a call
//	call.Counters:ResumedPrompt,Retried     seldom   the same
//	call.Counters:RetriesDenied,drained     seldom   the same
//	call.Counters:stalled,vanished          seldom   the same
//	call.Counters:withoutEffort             seldom   the same
//	call.Counters:withoutTurns              seldom   the same
//	call.Services:saltWarned                seldom   once an engine
//	call.publicState:firstAt,instead,phase  call     own; the status page reads them
//	call.publicState:target                 call     the same
//	call.refusals:known,mu                  seldom   an engine that refuses a form
//	call.var:pool                           call     by core: sync.Pool
//	http1.AnswerWatch:state                 seldom   once a probe's look: reads only look
//	http1.HostWatch:doubted,mu              seldom   once a connection to an engine
//	http1.HostWatch:noReuseUntil,surplus    seldom   the same
//	http1.conn:vanished                     seldom   own
//	http1.dnsCache:mu                       seldom   once a connection to an engine
//	http1.idlePool:mu                       call     by upstream; twice, for ten instructions
//	http1.lifetime:mu,state,writing         call     own
//	http1.var:outgoingPool                  call     by core: sync.Pool
//	http1.var:readBuffers                   token    by core: sync.Pool
//	limit.Guesses:mu                        seldom   a wrong key
//	limit.Keys:mu                           seldom   a reload; the status page
//	limit.Memory:used                       call     one word: the bound is exact
//	limit.Memory:collecting,garbage,limit   seldom   large answers
//	limit.Reservation:state                 call     own
//	limit.Retries:mu                        seldom   a retry
//	limit.secondCounts:itself               call     by second: retries have one budget
//	limit.gcra:tat                          call     by key and limit
//	limit.keyState:reading,running          call     by key
//	limit.keyState:waiting,conversations    seldom   messages over WebSocket
//	limit.localBudget:mu                    call     by key, where it has a budget
//	limit.tokenAccount:mu                   call     by key, where it has such a limit
//	observe.Calls:finished,inflight         call     one word each: two adds a call
//	observe.Calls:access                    seldom   a reload
//	observe.Reasons:mu                      seldom   a call that fails or is refused
//	observe.Registry:mu                     seldom   a reload
//	observe.Sink:dropped,mu,wake            call     the access log alone: one writer
//	observe.Usage:mu,unsaved                seldom   a new pair of key and model
//	observe.usageCell:mu                    call     by key and model
//	observe.endUsers:mu                     call     one word, of calls that name an end user
//	observe.armStats:calls,ended,failed     call     by arm of a model
//	observe.armStats:finish                 call     the same
//	observe.armStats:left,missed,refused    call     the same
//	observe.spread:itself                   call     by arm and class of time
//	observe.history:live                    token    by model and upstream; see Meter
//	observe.history:mu                      call     by model and upstream
//	observe.keySeries:cached,calls          call     by key
//	observe.keySeries:completion,prompt     call     the same
//	observe.keySeries:refusals              seldom   by key
//	observe.modelSeries:cached,completion   call     by model and dialect
//	observe.modelSeries:duration,ends       call     the same
//	observe.modelSeries:estimated,full      call     the same
//	observe.modelSeries:lastAt,prompt       call     the same
//	observe.modelSeries:queue,ttft          call     the same
//	observe.modelSeries:itl                 token    by model and dialect; see Meter
//	observe.ring:next,rows                  call     one word, and a row of 256
//	observe.series:choices,classes,fallbacks seldom   maps that are copied to grow
//	observe.series:failures,words           seldom   the same
//	observe.series:markups,mu,tiers         seldom   the same
//	observe.series:overheads                call     by dialect
//	observe.shadowStats:completion,ended    call     by model and the one copied to
//	observe.shadowStats:prompt              call     the same
//	observe.spanExporter:dropped            seldom   spans that are lost
//	observe.spanExporter:waiting            call     one word, with tracing
//	observe.table:m                         seldom   a map that is copied to grow
//	observe.upstreamSeries:ttft             call     by upstream
//	observe.var:fieldPool                   call     by core: sync.Pool
//	observe.var:sessionSecret               call     made once, then read only
//	progress.Watch:buffers,unread,waiting   call     by upstream
//	progress.Watch:mu                       call     by upstream
//	queue.Queue:count                       seldom   a wait for a slot
//	queue.Queues:byUpstream,mu,waiting      seldom   the same
//	queue.queuedUpstream:queues             seldom   the same
//	queue.counts:mu                         seldom   own, of a wait for a slot
//	turns.Account:served                    seldom   a booking while keys wait for slots
//	turns.Line:busy,mu                      seldom   the same
//
// A Meter (observe) keeps what a stream has measured for sixteen events or a quarter of a second: a
// stream of 50 tokens a second writes those two words four times a second.
package call
