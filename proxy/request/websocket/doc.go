// Package websocket carries calls of /v1/responses over WebSocket, in OpenAI's "WebSocket mode" of
// that API. It is an extension of the contract and off by default.
//
// # A carrier of calls
//
// A message of type response.create becomes a request like a POST: the members of the message are
// its body, and the head of the upgrade is its head, as far as a call reads it. Package call
// answers it and knows nothing of the connection, so key, limits, body, queue, engines, retries,
// metrics and log are those of every call. The events of the stream that it writes become messages,
// and an error becomes an event with its status, headers and body.
//
//	carrier.go    Carrier: who may connect, and which connections may continue
//	handshake.go  the upgrade, by the library, and its answer, by fasthttp
//	session.go    a connection: reading and looking after it
//	calls.go      its calls, which wait for each other
//	events.go     the events of a call as messages
//	turn.go       what a message asks for, and the request that it amounts to
//	message.go    reading a message, within the memory of bodies
//	heads.go      what a client announces, which the library does not show
//	closing.go    the reason of a client's close, which the library does not check
//	terms.go      what all connections share
//	peer.go       writing: messages, pings, the close
//	lanes.go      the responses that a turn may continue
//	errors.go     errors of the protocol
//
// # The protocol
//
//	response.create           a call: the members of the POST; stream is not used
//	  previous_response_id    the items of that response's conversation come before input
//	  stream_id               the lane: its events have the id; absent: the default lane
//	  generate: false         the request is checked, its input kept, and there is no output
//	response.steer            answered by response.steer.failed: engines cannot be steered
//	response.cancel           refused: a client closes the connection to cancel what runs
//	response.processed        accepted without an answer; Codex sends it and expects none. Each one
//	                          beyond the number of calls, and each response.steer, counts as a
//	                          request of the key
//
// Calls of a connection run one after the other, whatever their lanes. The protocol lets lanes run
// side by side, and lets more calls wait than run. 16 calls may wait, and together they must not be
// longer than one request may be. Of one key, over all its connections, as many messages may wait
// as it has concurrent calls. A waiting message counts as an incomplete body of its key (package
// body). A connection keeps the last response of each of 32 lanes and of the default one. A turn
// that fails drops the response that it continues, as the protocol requires. A request for a
// response that is not kept gets previous_response_not_found. Clients then send the whole
// conversation. A message that never becomes a call counts as a request of the key, too. A turn
// ends with one event: if the stream of a POST would have an error and then the failed response,
// only the response is sent. A connection lasts 60 minutes, and 10 without a call. The connections
// of one key are at most a quarter of limits.connections: one more is refused with 429.
//
// A connection is closed with these codes:
//
//   - 1000 after 60 minutes, or 10 without a call.
//   - 1001 when the edge drains or WebSocket is switched off.
//   - 1002, 1003 or 1007 for what violates the protocol.
//   - 1008 when its key is gone, or when a message drips or has more than 1000 empty frames.
//   - 1009 for a message that is or announces to be above limits.request_body, the edge's or its
//     key's, after an error with status 413.
//   - 1011 after a fault of the edge.
//
// When the edge wants to end a connection, it waits for the running call.
//
// # Design
//
// A conversation is kept as what a request would have in input: the items that the client sent and
// those of the responses, as they were sent. So a turn is translated like a POST of the whole
// conversation; only the upload is saved. The conversation is held in the memory of the connection
// alone, and is gone with the connection. It counts as bodies do, up to half of that budget, and of
// one key up to half of that. It is neither logged nor stored.
//
// The library frames messages and checks the handshake. For that it needs net/http's types, and an
// answer that fasthttp sends. The connection then leaves fasthttp as streams do. The library's
// contexts close a connection, so reads and writes are bounded by the deadlines of the socket
// instead.
//
// Each message is written before the next one is made, so a client that does not read stops its
// engine as with a stream. A ping waits for the message that is being written.
//
// An idle connection holds one goroutine, a timer, buffers of 3 KiB, and its conversations.
// Messages are not compressed: compression would cost more memory than all of that.
package websocket
