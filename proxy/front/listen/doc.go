// Package listen handles the sockets to clients. It provides listeners with a maximum number of
// connections, and a watch that notices at once when a client leaves. It also provides a check of
// each request's framing, a close that lets a refused client read its answer, and a TLS certificate
// that can be replaced.
//
// # Which parser decides what
//
// The bytes of a request pass these parsers. Each parser may refuse a request; none repairs one.
//
//	framingChecker (framing.go)  line ends of heads, the length of the body, chunks and trailers
//	fasthttp                     the request line and the headers; delivers the payload of bodies
//	httpserver.OriginForm        a target in absolute form, only on the public listener
//	httpserver.CheckHead         headers that fasthttp accepts and other parsers read differently
//
// The checker sees the bytes of each read before fasthttp does. With TLS it sees the decrypted
// bytes. fasthttp waits for CR LF CR LF, so a head with other line ends would wait until the
// header's timeout. Between and after chunks fasthttp accepts some lines that end in LF, and
// extensions and trailers of any length. The checker refuses these. It stops reading at the first
// malformed byte, because bytes that another parser on the path may read differently allow request
// smuggling. A byte that cannot start a request also ends the connection, so a TLS ClientHello is
// answered at once.
//
// The checker parses chunks with the state machine that also decodes engines' replies
// (http1/chunked). Only the rules differ (chunkRules). It passes the bytes on unchanged, because
// fasthttp owns the buffer and removes the chunk framing itself. Thus the chunks of a request are
// parsed twice, but fasthttp reads all chunks that pass the checker in the same way. To avoid the
// second parser, requests with chunked bodies would have to leave fasthttp before their handler
// runs.
//
// The check costs a quarter of a microsecond for each request and, for a body of known length, one
// subtraction for each read. The checker is ahead of the server by the bytes that the server has
// buffered, so it also checks pipelined requests. An error in a later request does not affect the
// request that is being served.
//
// fasthttp parses heads at little cost, limits their size, and serves reused connections, TLS and
// short answers. A stream on a plain connection leaves fasthttp by a hijack (Detaching, below).
// Otherwise it would hold its fasthttp context and a buffer for the largest head as long as it
// runs. After the stream the connection returns to fasthttp (Resume).
//
// With Listener.SetProxies, connections from the listed networks start with the header of the PROXY
// protocol (proxied.go). This header is read first, with TLS even before the handshake.
//
// # Design
//
// Disconnect watch. fasthttp does not report a client that leaves while a handler runs. So every
// accepted connection is registered once, at accept, in an epoll set of our own, edge-triggered and
// only for EPOLLRDHUP. Received data (pipelined requests) does not match that mask and causes no
// wake-up. A FIN or a reset causes one in every phase, with or without TLS. A call then costs no
// system call: Conn.Watch and Unwatch set and clear the waiter under the connection's own mutex.
// The alternative is to add and remove the descriptor for every request. We measured that at 7 µs
// per request.
//
// The callback runs under the connection's mutex, and Unwatch takes the same mutex. After Unwatch
// has returned, no callback runs or will run, so a call can be recycled.
//
// Closing a descriptor removes it from the epoll set. Another connection may get the same
// descriptor while an event of the old connection is still in flight, so each registration also has
// a generation.
//
// A client that half-closes its side counts as gone, as in net/http and nginx. On systems without
// epoll, the watch polls the connections that have a call every 100 ms, with MSG_PEEK.
//
// Acknowledgement timeout. A host that vanishes sends no FIN. If no bytes are in flight to it, the
// system's keep-alive probes detect that within a minute. Unacknowledged bytes suspend the probes,
// and the system retransmits the bytes for a quarter of an hour. So every ten seconds the watch
// checks, for each connection that has a call, how long the host has acknowledged nothing
// (ack_timeout_linux.go). If the host is silent in six consecutive checks, the client counts as
// gone. TCP_USER_TIMEOUT cannot replace this: it counts a closed window as silence, so it would cut
// off clients that only read late.
//
// Lingering close. The kernel resets a connection that is closed with unread bytes, and the reset
// may overtake the answer. So after an answer that is sent before the body was read, Close closes
// only the writing half and discards the bytes that the client still sends. The time, the bytes and
// the number of such connections are limited.
//
// The maximum number of connections. A connection over the maximum gets a fixed 503 and lingers, so
// that the client can read the answer while it still sends its request. A rejected connection does
// not count as open, because rejected clients would otherwise keep other clients out.
// AffordableConns keeps the maximum below the limit on descriptors. Before the listener rejects a
// connection, it closes a connection that waits for a request, to make room (Options.MakeRoom,
// make_room.go). So clients that hold connections without sending requests cannot keep other
// clients out.
//
// The public listener spares connections that have waited for less than a second, because a busy
// client may be sending its next request while the connection is closed. It does not spare an
// address that holds more than half of the allowed connections, unless the client has sent a valid
// key. The admin listener has its own maximum (AdminConns) and spares no connection, so that an
// operator or a readiness probe is never kept out.
//
// Graceful close. Closing a listener at once would reset the connections in its accept queue, and
// closing a keep-alive connection at once would lose a request in flight. So CloseGracefully first
// makes the kernel ignore new connections (a filter on the socket), accepts the connections in the
// queue, and closes the listener. It then closes keep-alive connections that have had no request
// for a second, each after a last read of the socket. Answers carry "Connection: close" from the
// start of the drain (package proxy), so that an answered client does not reuse the connection. A
// service manager's socket stays open, and its queue is left to the next process. SO_REUSEPORT is
// the other way to restart without a gap. With it, the kernel ignores new connections to this
// process. The client's second try, a second later, reaches the other process.
//
// Detaching. A stream leaves fasthttp through a hijack. fasthttp closes the connection after it has
// released its buffers, and DetachOnClose turns that close into the start of the stream. Unread
// saves the buffered bytes of a pipelined request. Resume returns the connection to a server, which
// treats it as a keep-alive connection. Streams run on goroutines that have run streams before
// (detached.go).
//
// Write deadlines. A deadline applies to one write, not to a whole answer. A stream may take hours,
// and an image of many megabytes is written in pieces with one deadline each. So only a client that
// has stopped reading is cut off. Setting a deadline costs more than a small write, so the deadline
// is set rarely. The deadline belongs to the connection, and must not have expired when the next
// answer starts an hour later. So SetWriteTimeout sets how long a write may take, and Conn.Write
// moves the deadline. The number of unsent bytes in a socket is limited (send_buffer_linux.go),
// because the kernel wakes a blocked writer only when a third of its buffer is free. With megabytes
// in the buffer, a client that reads slowly but steadily would miss the deadline.
package listen
