// Package websocket serves /v1/responses over WebSocket, like OpenAI's "WebSocket mode" of that
// API. The package is an extension of the contract and is disabled by default.
//
// # Messages are calls
//
// A message of type response.create becomes a request, like a POST. Its members become the request
// body, and the headers of the upgrade become the request headers. Package call handles the request
// without knowing about WebSocket. Therefore, the key, limits, body, queue, engines, retries,
// metrics and log are the same as for any other call. Each event of the stream becomes a message.
// An error becomes an event that contains the status, headers and body of the error.
//
// # The protocol
//
//	response.create           a call: the members of the POST; stream is not used
//	  previous_response_id    the items of that response's conversation precede input
//	  stream_id               the lane, whose events have this id; absent: the default lane
//	  generate: false         the request is checked and its input stored; no output is generated
//	response.steer            answered with response.steer.failed: engines cannot be steered
//	response.cancel           refused: a client cancels what runs by closing the connection
//	response.processed        acknowledges a response; Codex sends it and expects no answer. Each
//	                          message beyond the number of calls, and each response.steer, counts
//	                          as a request of the key
//
// The calls on a connection run one after another, even if they are on different lanes. OpenAI's
// protocol also allows lanes to run in parallel. At most 16 calls may wait on a connection, and
// their total size is limited to the maximum size of one request. Across all its connections, a key
// may have as many waiting messages as it may have concurrent calls. A waiting message counts as an
// incomplete body of the key (package body).
//
// A connection stores the last response of each of 32 named lanes and of the default lane. As the
// protocol requires, a turn that fails drops the response that it continues. A request to continue
// any other response gets previous_response_not_found. Clients then send the whole conversation. A
// message that does not become a call also counts as a request of the key. A turn ends with exactly
// one event.
//
// One key may have at most a quarter of limits.connections. All other connections of the key are
// rejected with 429.
//
// The edge closes a connection with one of these codes:
//
//   - 1000 after 60 minutes, or after 10 minutes without a call.
//   - 1001 if the edge drains, or if a reload disables WebSocket.
//   - 1002, 1003 or 1007 for violations of the WebSocket protocol.
//   - 1008 if the key is no longer valid, or if a message arrives too slowly or contains more than
//     1000 empty frames.
//   - 1009 for a message that exceeds limits.request_body of the edge or the key. The check uses
//     the announced length of a frame. An error with status 413 is sent before the close frame.
//   - 1011 after an internal error of the edge.
//
// Before the edge closes a connection, it waits for the running call.
//
// # Design
//
// A conversation is stored in the form that input would have in a POST. It consists of the
// unchanged items from the client and from the responses. A turn is therefore translated like a
// POST of the whole conversation. WebSocket saves only the upload. The conversation exists only in
// memory, and is lost when the connection closes. It counts against limits.body_memory. All
// conversations together may use half of that memory, and the conversations of one key may use a
// quarter. A conversation is neither logged nor written to disk.
//
// The WebSocket library frames messages. It also checks the handshake, for which it needs the
// net/http types. fasthttp sends the handshake response. The connection then leaves fasthttp like a
// stream. The library closes the connection when a context expires. Reads and writes therefore use
// socket deadlines rather than contexts.
//
// As in any stream, each message is written before the next event is read, so a client that does
// not read blocks its engine. A ping waits until the current message has been written.
//
// An idle connection needs one goroutine, a timer, 3 KiB of buffers, and its conversations.
// Messages are not compressed, because compression would need more memory than all of these.
package websocket
