// Package websocket carries calls of /v1/responses over WebSocket, in OpenAI's "WebSocket mode" of
// that API. It is an extension of the contract and off by default.
//
// # A carrier of calls
//
// A message of type response.create becomes a request as a POST would be: the members of the
// message are its body, and what a call reads of a head is that of the upgrade. Package call
// answers it and knows nothing of the connection. Key, limits, body, queue, engines, retries,
// metrics and log are so those of every call. The events of the stream that it writes become
// messages, and an error becomes an event with its status, headers and body.
//
//	carrier.go    Carrier: who may connect, and which connections may not go on
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
//	lanes.go      the responses that a turn may go on from
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
//	response.processed        accepted without an answer; Codex sends it and expects none. More of them than
//	                          calls, and each response.steer, count as requests of the key
//
// Calls of a connection run one after the other, whatever their lanes: the protocol lets lanes run
// side by side, and lets more calls wait than run. 16 may wait, which are no longer together than one request
// may be; of one key as many messages wait, over all its connections, as it has concurrent calls.
// What waits counts as an incomplete body of its key (package body). A connection keeps the last
// response of each of 32 lanes and of the default one. A turn that fails drops the response that it
// goes on from, as the protocol has it. What is not kept is previous_response_not_found, upon which
// clients send the whole conversation. A message that never becomes a call counts as a request of
// the key's, too. A turn ends with one event: where a stream of a POST has an error and then the
// failed response, it is the response alone. A connection lasts 60 minutes, and 10 without a call. Those of one
// key are a quarter of limits.connections at most: one more is refused with 429.
//
// A connection is closed with 1000 at these ends, 1001 when the edge drains or WebSocket is
// switched off, 1008 when its key is gone, or a message drips or has more than 1000 empty frames,
// 1009 for a message that is or announces to be above limits.request_body, the edge's or its key's,
// behind an error with status 413, 1011 after a fault of ours, and 1002, 1003 or 1007 for what is
// not the protocol. Ends that the edge wants wait for the running call.
//
// # Design
//
// What a conversation keeps is what a request would have in input: the items that the client sent
// and those of the responses, as they were sent. So a turn is translated as a POST of the whole
// conversation is; what is saved is the upload. It is held in the memory of the connection alone,
// counted as bodies are up to half of that budget, of one key half of that, and gone with the
// connection. It is neither logged nor stored.
//
// The library frames messages and checks the handshake. It needs net/http's types for that, and an
// answer that fasthttp sends; the connection then leaves fasthttp as streams do. Its contexts close
// a connection, so reads and writes are bounded by the deadlines of the socket instead.
//
// A message is written before the next one is made, so a client that does not read stops its engine
// as one of a stream does. A ping waits for the message that is being written.
//
// An idle connection holds one goroutine, a timer, buffers of 3 KiB, and its conversations. There
// is no compression: it would cost more memory than all of that.
package websocket
