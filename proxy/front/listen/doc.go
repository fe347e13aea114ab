// Package listen handles the connections of clients.
//
// # Parsers
//
// These parsers read the bytes of a request. Each parser may refuse a request, but no parser
// changes it.
//
//	framingChecker (framing.go)  line ends of heads, the length of the body, chunks and trailers
//	fasthttp                     the request line and the headers; delivers the payload of bodies
//	httpserver.OriginForm        a target in absolute form, only on the public listener
//	httpserver.CheckHead         headers that other parsers interpret differently
//
// The framing checker sees the bytes of each read before fasthttp does, and after decryption if TLS
// is used. fasthttp waits for CR LF CR LF, so request headers with other line ends would only fail
// at the header timeout. fasthttp also accepts lines that end with LF between and after chunks, and
// extensions and trailers of any length. The checker refuses these. It stops reading at the first
// malformed byte, because bytes that another parser interprets differently allow request smuggling.
// A byte that cannot start a request also ends the connection, so a TLS ClientHello is refused
// immediately.
//
// The checker parses chunks with the same state machine as engine responses (http1/chunked), but
// with other rules (chunkRules). It does not remove the chunk framing, because fasthttp owns the
// buffer and removes the framing itself. Chunks of requests are therefore parsed twice. If chunks
// pass the checker, fasthttp interprets them in the same way. To avoid the second parser, requests
// with chunked bodies would have to leave fasthttp before their handler runs.
//
// The check costs a quarter of a microsecond for each request. For a body of known length, it also
// costs one subtraction for each read. The checker sees all bytes that the server has buffered, so
// it also checks pipelined requests. An error in a later request does not affect the request that
// is being served.
//
// fasthttp parses request headers efficiently, limits their size, and handles keep-alive
// connections, TLS and short responses. A stream on a plain connection leaves fasthttp, because it
// would occupy a fasthttp context and a buffer for the largest request headers (see Detaching).
//
// Connections from the networks in Listener.SetProxies start with a PROXY protocol header
// (proxied.go). It is read first, even before a TLS handshake.
//
// # Design
//
// Disconnect watch. fasthttp does not report a client that disconnects while a handler runs. Every
// accepted connection is therefore registered in a separate epoll set, edge-triggered and only for
// EPOLLRDHUP. Received data, such as pipelined requests, causes no event. A FIN or a reset causes
// an event in every phase, with or without TLS. Watch and Unwatch need no system call. They set the
// waiter under the mutex of the connection. The alternative is to add and remove the descriptor for
// each request, which takes 7 µs.
//
// The callback runs under the mutex that Unwatch locks. Once Unwatch has returned, the callback is
// not running and will not run, so the call can be recycled.
//
// Closing a descriptor removes it from the epoll set. A new connection may get the same descriptor
// while an event of the old connection is pending, so each registration has a generation.
//
// A client that half-closes its connection counts as disconnected, as in net/http and nginx. On
// systems without epoll, the connections that have a call are polled with MSG_PEEK every 100 ms.
//
// Acknowledgment timeout. A host that vanishes sends no FIN. If no bytes are in flight, keep-alive
// probes detect this within a minute. If bytes are unacknowledged, the system sends no probes, and
// retransmits the bytes for a quarter of an hour. For each connection that has a call, the watch
// therefore checks every ten seconds for how long the host has not acknowledged any bytes
// (ack_timeout_linux.go). If the host is silent in six consecutive checks, the client counts as
// disconnected. TCP_USER_TIMEOUT cannot be used instead, because it counts a closed window as
// silence and would disconnect clients that read slowly.
//
// Lingering close. If a connection is closed while received bytes are unread, the kernel resets it,
// and the reset may overtake the response. If a response was sent before the body was read, Close
// therefore closes only the sending side and discards the bytes that still arrive. Limits apply to
// how long a connection lingers, how many bytes are discarded, and how many connections linger.
//
// Maximum number of connections. A connection that exceeds the maximum gets a fixed 503 and
// lingers, so that the client can read the response while it sends its request. A rejected
// connection does not count as open, because rejected clients would otherwise block other clients.
// AffordableConns keeps the maximum below the descriptor limit. Before the listener rejects a
// connection, it tries to close a connection that waits for a request (Options.MakeRoom,
// make_room.go). Clients that open connections without sending requests therefore cannot block
// other clients.
//
// The public listener does not close connections that have waited for less than a second, because a
// busy client may be about to send its next request. Connections from an address with more than
// half of the allowed connections do not have this protection, unless the client has sent a valid
// key. The admin listener has a separate maximum (AdminConns) and protects no connections, so that
// an operator or a readiness probe can always connect.
//
// Graceful close. Closing a listener immediately would reset the connections in its accept queue,
// and closing a keep-alive connection immediately would lose a request in flight. CloseGracefully
// therefore first makes the kernel ignore new connections by a filter on the socket. It then
// accepts the connections in the queue and closes the listener. Finally it closes each keep-alive
// connection that has had no request for a second, after a last read from it. Responses have
// "Connection: close" from the start of the drain (package proxy), so that a client does not reuse
// the connection. The socket of a service manager stays open, and the next process accepts its
// queue. If SO_REUSEPORT is set, the kernel ignores new connections to this process in the same
// way. The client tries again a second later and reaches the other process.
//
// Detaching. After a hijack, fasthttp releases its buffers and closes the connection. After
// DetachOnClose, this close starts the stream instead. Unread preserves the buffered bytes of a
// pipelined request. Resume returns the connection to a server, which treats it as a keep-alive
// connection. Streams run on reused goroutines (detached.go).
//
// Write deadlines. A deadline applies to one write rather than to a whole response. A stream may
// take hours, and a large response is written in pieces, each of which has a deadline. Only a
// client that has stopped reading is disconnected. Setting a deadline costs more than a small
// write, so deadlines are set rarely. A deadline belongs to the connection, and must not have
// passed when the next response starts an hour later. For this reason, SetWriteTimeout sets the
// timeout of a write, and Conn.Write moves the deadline. The number of unsent bytes in a socket is
// also limited (send_buffer_linux.go).
package listen
