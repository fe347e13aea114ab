// Package listen handles client connections.
//
// # Parsers
//
// Several parsers read the bytes of a request. Each parser may reject a request, but none of them
// changes it.
//
//	framingChecker (framing.go)  line ends of heads, the length of the body, chunks and trailers
//	fasthttp                     the request line and the headers; delivers the payload of bodies
//	httpserver.ToOriginForm      a target in absolute form, only on the public listener
//	httpserver.CheckHead         headers that other parsers interpret differently
//
// The framing checker sees the bytes of each read before fasthttp does. If TLS is used, it sees the
// decrypted bytes. fasthttp waits for CR LF CR LF, so request headers with other line ends would
// fail only at the header timeout. fasthttp also accepts lines that end with LF between and after
// chunks, and extensions and trailers of any length. The checker rejects all of these. It stops at
// the first malformed byte, because bytes that another parser interprets differently allow request
// smuggling. A byte that cannot start a request also ends the connection, so a TLS ClientHello is
// rejected immediately.
//
// The checker parses chunks with the state machine that also parses engine responses
// (http1/chunked), but with different rules (chunkExtraLimits). It does not remove the chunk framing,
// because fasthttp owns the buffer and removes the framing there. Request chunks are therefore
// parsed twice. If chunks pass the checker, fasthttp interprets them in the same way. Parsing them
// only once would require that requests with chunked bodies leave fasthttp before their handler
// runs.
//
// The check takes a quarter of a microsecond per request, and one subtraction per read of a body of
// known length. The checker sees all bytes that the server has buffered, so it also checks
// pipelined requests. An error in a later request does not affect the request that is being served.
//
// fasthttp parses request headers efficiently, limits their size, and handles keep-alive
// connections, TLS and short responses. A stream on a plain connection leaves fasthttp, because in
// fasthttp it would occupy a context and a buffer for the largest request headers (see
// Conn.DetachOnClose).
//
// Connections from the networks in Listener.SetProxies start with a PROXY protocol header
// (proxy_header.go). This header is read first, even before a TLS handshake.
//
// # Design
//
// Disconnect watch. fasthttp does not report a client that disconnects while a handler runs. Every
// accepted connection is therefore registered in a separate epoll set (socket.HangUpWatch).
// Received data, such as pipelined requests, causes no event. A FIN or a reset causes an event in
// every phase, with or without TLS. WatchDisconnect and UnwatchDisconnect need no system call: they
// set the waiter under the connection's mutex. The alternative, adding and removing the descriptor
// for each request, takes 7 µs.
//
// The callback runs while the connection's mutex is locked, and UnwatchDisconnect locks the same
// mutex. Once UnwatchDisconnect has returned, the callback is not running and will not run, so the
// call can be recycled.
//
// As in net/http and nginx, a client that half-closes its connection counts as disconnected. On
// systems without epoll, the connections that have a call are polled with MSG_PEEK every 100 ms.
//
// Acknowledgment timeout. A host that vanishes sends no FIN. If no bytes are in flight, keep-alive
// probes detect this within a minute. If bytes are unacknowledged, the system sends no probes, but
// retransmits the bytes for a quarter of an hour. For each connection that has a call, the watch
// therefore checks every ten seconds how long the host has acknowledged no bytes
// (ack_timeout_linux.go). If the host is silent in six consecutive checks, the client counts as
// disconnected. TCP_USER_TIMEOUT is not an alternative, because it treats a closed window as
// silence and would disconnect clients that read slowly.
//
// Lingering close. If a connection is closed while received bytes are unread, the kernel resets it,
// and the reset may overtake the response. If a response was sent before the body was read
// completely, Close therefore closes only the sending side, and discards the bytes that still
// arrive. There are limits on how long a connection lingers, how many bytes are discarded, and how
// many connections linger.
//
// Maximum number of connections. A connection above the maximum gets a fixed 503. It lingers, so
// that the client can read the response even if it is still sending the request. Such a connection
// does not count as open; otherwise, rejected clients would block other clients. AffordableConns
// keeps the maximum below the descriptor limit. Before the listener rejects a connection, it tries
// to close another connection that is waiting for a request (Options.MakeRoom, evict.go).
// Clients that open connections without sending requests therefore cannot block other clients.
//
// The public listener does not close connections that have waited for less than a second, because a
// busy client may be about to send its next request. This protection does not apply to an address
// that has more than half of the allowed connections. It still applies to those of its connections
// whose client has sent a valid key. The admin listener has a separate maximum (AdminConnLimit) and
// protects no connections, so that an operator or a readiness probe can always connect.
//
// Graceful close. Closing a listener immediately would reset the connections in its accept queue,
// and closing a keep-alive connection immediately would lose a request in flight. CloseGracefully
// therefore first installs a filter on the socket that makes the kernel ignore new connections. It
// then accepts the connections in the queue and closes the listener. Finally, it reads once more
// from each keep-alive connection that has been idle for a second, and closes the connection. From
// the start of the drain, responses contain "Connection: close" (package proxy), so that clients do
// not reuse their connections. A service manager's socket stays open, and the next process accepts
// the connections in its queue. If SO_REUSEPORT is set, the kernel ignores new connections to this
// process in the same way. The client tries again a second later, and reaches the other process.
//
// Detaching. If DetachOnClose was called, the server's Close does not close the connection, but
// runs a function on the same goroutine, or on the one that is running an earlier function
// (detachment). A stream leaves the server in this way after its first chunk. The server has
// released its memory by then, and the goroutine's stack has already grown: growing the stack of a
// new goroutine took a quarter of the time of a short stream. Each garbage collection halves a
// stack if less than a quarter of it is used, so a long stream does not retain a large stack.
// ResumeHTTP prepares the connection for a server again, which treats it as a keep-alive
// connection. Reads end at the end of a request, so the server never has bytes of a pipelined
// request in its buffers.
//
// Parking. fasthttp keeps the goroutine, its stack and the read buffer of an idle connection, 25 KiB
// in total. Once a second, the watch therefore interrupts the reads of the connections that have been
// idle for a second. Such a read returns io.EOF, so that the server releases its memory and calls
// Close, which parks the connection instead: the watch waits for its next byte. A new goroutine then
// serves the connection again. The watch also closes parked connections whose idle time is over. Busy
// connections are not affected, because parking takes two system calls and serving again needs a new
// stack. Connections that use TLS are not parked, because their state belongs to the server. Nor are
// connections without a request so far, for which the server holds little memory.
//
// Write deadlines. A deadline applies to one write, not to an entire response. A stream may take
// hours, and a large response is written in pieces that have separate deadlines. Only a client that
// stops reading is disconnected. Setting a deadline costs more than a small write, so deadlines are
// set rarely. A deadline applies to the whole connection, so it must not have expired when the next
// response starts an hour later. Callers therefore set a timeout (SetWriteTimeout), and Conn.Write
// moves the deadline. The number of unsent bytes in a socket is also limited
// (send_buffer_linux.go).
package listen
