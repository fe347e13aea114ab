// Package proxy is the request path and the process: what happens between a client's connection and
// an engine's.
//
// # Life of a request
//
//	 0  Edge.everyRequest, handle recover, refuse an ambiguous head, make the Call
//	 1  Call.authenticate           the key, before one byte of the body is read (precheck.go: before it is even sent)
//	 2  Call.admitRate              the key's requests per minute
//	 3  Call.readBody, decode       bounded by the endpoint's limit, the memory budget and the client's pace
//	 4  Call.resolve                the model, the key's right to it, the model's own rules
//	 5  (translate)                 after decode every request is a chat request; `model` is spliced at dispatch
//	 6  Call.admit                  the key's concurrency and tokens
//	 7  Call.acquire                routing picks a target and takes a lease
//	 8  attempt.open, pull          send, await the head and the first event; retry elsewhere while nothing is committed
//	 9  Call.commit → relay         the handler returns; the hijackedStream, or under TLS fasthttp, pushes the relay's bytes
//	10  Call.finish                 release, account, one log line
//
// The order has reasons: a slow client must not hold a slot, so the body is read before any is
// taken; a key without the right to a model must not learn about its pools; nothing is written to
// the client before the engine's first event (or stream.commit_after), because until then a failure
// can still be retried or become a clean status.
//
// # Names
//
// One request of a client is a Call. One try of it is an attempt: a lease on an upstream and one
// exchange with it. The commit is the first byte to the client. The relay is what moves bytes after
// it. A failure is how an attempt ended badly, and failure.go is the only place that maps facts to
// statuses, outcomes and the answer to "may it be sent again?".
//
// # Design
//
// One goroutine a stream. The relay pulls from the engine and pushes to the client, so
// back-pressure is the socket's own and there is no queue to bound. A body-stream writer would cost
// a goroutine and a pipe a stream, and could not tell a failure from an end. A stream on a plain
// connection leaves fasthttp for that time (stream_hijacked.go): it then holds neither the buffer
// for the largest head nor a context, 9 KiB of memory less, and its chunks are framed in place, a
// quarter of the time of a token less. Under TLS fasthttp frames it (BodyWriterTo).
//
// A limit on the answer's tokens that leaves the prompt no room in the engine's context is lowered
// before it is sent (fit.go). The edge estimates the prompt. An engine that refuses the sum tells
// its own count, and is asked once more under the same lease; where it has no room for any answer,
// one with a longer context is asked. Neither is a retry, as nothing failed.
//
// A call whose engine's host has vanished goes to another engine as long as its client has been
// shown nothing; keep-alives do not count, so the request is held until the first event. It moves
// once, apart from the budget of retries (Call.mayFailOver).
//
// Nearly all of a stream's life is waiting, so what it holds then is what counts. The buffers of a
// token, from the engine's bytes (http1.Exchange.Wait) over the event (sse.Reader.Rest) to the
// client's (relay.out), are taken from their pools when bytes have come and go back when these have
// been written, without a system call more; what only one dialect or only the request needs is
// pooled by itself. What remains is a goroutine's stack, two sockets and some 4 KiB of state.
//
// A client that leaves is noticed by proxy/listen's watch in every phase and ends the call by
// Call.abort, which closes the engine's connection. Nothing else is shared between goroutines.
// While a body comes it is the reading that ends, and the call is one whose client has gone, too;
// as the client may have ended its own side only, it is told why.
//
// Calls are pooled; relays and leases are not, because a stale second Close or Release must hit
// nobody else.
//
// Not every request is chat underneath: audio, embeddings, images and the legacy completions take
// the same steps with a payload in the place of the chat request (payload.go, attempt_payload.go). An
// upload is the one payload that is still being read when its slot is taken, once its model is
// known and 256 KiB have come or it has ended (upload.go): a file of any size passes through a
// bounded window, and may go to another engine as long as nothing beyond the window was sent. Audio
// is relayed as bytes; where it breaks off so does the connection, since bytes have no words for an
// error.
//
// A request in the Messages or the Responses dialect is a chat request from step 3 on, and can
// besides be sent as the client wrote it to an engine whose operator lists the dialect under
// `native` (native.go). That is decided once the target is known, so the kinds may be mixed within
// a model and a retry may cross over.
//
// A snapshot of the configuration is loaded once a request (package snapshot). Package reload
// replaces it.
//
// What engines send is bounded as what clients send is (reply_memory.go). A call holds 64 KiB of
// its reply without asking; beyond that each buffer is reserved before it is made, by what has come
// and never by what a length announces, and counts until it is written or collected. A call that
// finds no room ends with a 503 of its own, and its engine is not blamed. A large answer that is
// only passed on is not held at all (relay_unary.go, forward.Relay): it is relayed in pieces, so
// that it can only be broken off when it turns out to be none, and a client that does not read
// stops its engine.
//
// A whole answer that takes longer than stream.whole_keepalive begins as white space. Its status
// has gone out then, so what goes wrong is told in the JSON that follows, and no other engine is
// asked.
//
// A request may be what its engine dies of. A body that has cost two engines is not sent to a third
// while they are down (poison.go): otherwise the client that tries again would take down the fleet.
//
// A panic costs the call or the round of work that met it (package guard, which has the table of
// every goroutine). A call gives back what others wait for, slot, key and memory, step by step,
// each whatever the steps before it come to (Call.release).
//
// A drain (drain.go) leaves the port first and the connections after it, each when its client has
// been told or has nothing on its way (package listen). fasthttp's own shutdown comes last, because
// it closes kept connections without a look.
package proxy
