// Package websocket carries calls of /v1/responses over WebSocket, like OpenAI's "WebSocket mode"
// of that API. It is an extension of the contract and off by default.
//
// # A carrier of calls
//
// A message of type response.create becomes a request like that of a POST. The members of the
// message become the request's body, and the headers of the upgrade that a call reads become its
// head. Package call answers the request and knows nothing about the connection, so key, limits,
// body, queue, engines, retries, metrics and log work as for every call. The events of the call's
// stream become messages, and an error becomes an event with its status, headers and body.
//
//	carrier.go    Carrier: which clients may connect, and which connections may continue
//	handshake.go  the upgrade by the library, and its answer by fasthttp
//	session.go    a connection: reading and checking it
//	calls.go      the calls of a connection, which wait for each other
//	events.go     the events of a call as messages
//	turn.go       what a message requests, and the request that it becomes
//	message.go    reading a message, within the memory for bodies
//	heads.go      the lengths that a client announces, which the library does not expose
//	closing.go    the reason of a client's close, which the library does not check
//	terms.go      what all connections share
//	peer.go       writing: messages, pings, the close
//	lanes.go      the responses that a turn may continue
//	errors.go     errors of the protocol
//
// # The protocol
//
//	response.create           a call: the members of the POST; stream is not used
//	  previous_response_id    the items of that response's conversation precede input
//	  stream_id               the lane, whose events have this id; absent: the default lane
//	  generate: false         the request is checked, its input kept, and there is no output
//	response.steer            answered with response.steer.failed: engines cannot be steered
//	response.cancel           refused: a client cancels what runs by closing the connection
//	response.processed        accepted without an answer; Codex sends it and expects none. Each
//	                          report beyond the number of calls, and each response.steer, counts
//	                          as a request of the key
//
// The calls of a connection run one after the other, even on different lanes. The protocol also
// allows lanes to run in parallel, and allows more calls to wait than to run. At most 16 calls may
// wait on a connection, and their total size is limited to that of one request. On all its
// connections together, a key may have as many waiting messages as concurrent calls. A waiting
// message counts as an incomplete body of its key (package body).
//
// A connection keeps the last response of each of 32 named lanes and of the default lane. A turn
// that fails drops the response that it continues, as the protocol requires. A request to continue
// a response that is not kept gets previous_response_not_found; clients then send the whole
// conversation. A message that never becomes a call also counts as a request of the key. A turn
// ends with one event. In the stream of a POST, a failed response is preceded by an error; here
// only the response is sent.
//
// A connection lasts at most 60 minutes, or 10 minutes without a call. One key may have at most a
// quarter of limits.connections; one more connection is refused with 429.
//
// A connection is closed with these codes:
//
//   - 1000 after 60 minutes, or after 10 minutes without a call.
//   - 1001 if the edge drains or WebSocket is switched off.
//   - 1002, 1003 or 1007 for violations of the protocol.
//   - 1008 if its key is gone, or if a message drips or has more than 1000 empty frames.
//   - 1009 for a message that is, or announces to be, larger than limits.request_body (of the edge
//     or of the key), after an error with status 413.
//   - 1011 after an internal error of the edge.
//
// An edge that ends a connection first waits for the running call.
//
// # Design
//
// A conversation is kept as the value that input would have in a request: the unchanged items of
// the client and of the responses. A turn is thus translated like a POST of the whole conversation,
// and only the upload is saved. The conversation exists only in the memory of the connection, and
// is lost with it. It counts against the memory for bodies. All conversations together may take
// half of that memory, and those of one key a quarter of it. A conversation is neither logged nor
// stored.
//
// The library frames messages and checks the handshake. It needs the types of net/http, and
// fasthttp has to send the library's answer. The connection then leaves fasthttp like a stream. The
// library would close the connection if one of its contexts expired, so the socket's deadlines
// limit reads and writes instead.
//
// Each message is written before the next one is generated, so a client that does not read stalls
// its engine, as with a stream. A ping waits for the message that is being written.
//
// An idle connection holds one goroutine, a timer, buffers of 3 KiB and its conversations.
// Messages are not compressed, because compression would cost more memory than all of that.
package websocket
