// Package listen is the client's side of the sockets: listeners with a bound on connections, a
// watch that notices at once when a client leaves, a check of each request's framing, a close that
// lets a refused client read its answer, and a TLS certificate that can be replaced.
//
// # Which parser decides what
//
// The bytes of a request pass these readers. Each may refuse; none repairs.
//
//	framingChecker (framing.go)  line ends of heads, the length of the body, chunks and trailers
//	fasthttp                     the request line and the headers; delivers the payload of bodies
//	httpserver.OriginForm        a target in absolute form, on the public listener alone
//	httpserver.CheckHead         headers that fasthttp accepts and other parsers read differently
//
// The checker sees each read of a connection before fasthttp does, under TLS the decrypted bytes.
// fasthttp waits for CR LF CR LF, so a head with other line ends would hang until the header's
// timeout. Between and behind chunks it accepts some lines that end in LF, and extensions and
// trailers without a bound. The checker refuses these, and ends the reading at the first malformed
// byte: what another parser on the way may read differently allows request smuggling. A byte that
// cannot begin a request ends the connection, too, so that a TLS hello is answered at once.
//
// The checker follows chunks by the state machine that also decodes engines' replies
// (http1/chunked); only the rules differ (chunkRules). It passes the bytes on as they are, because
// fasthttp owns the buffer and takes the chunk framing off itself. So chunks of a request are
// parsed twice, but judged once: what passes the checker means the same to fasthttp. To deliver the
// payload without the second parser, requests with chunked bodies would have to leave fasthttp
// before their handler runs.
//
// The check costs a quarter of a microsecond a request, and for a body of known length one
// subtraction a read. It is ahead of the server by the bytes that the server has buffered, so it
// covers pipelined requests; an error in a later request does not concern the one that is served.
//
// fasthttp reads heads at little cost, bounds them, and serves kept connections, TLS and short
// answers. A stream on a plain connection leaves it by a hijack (Detaching, below), because in
// fasthttp it would hold the buffer for the largest head and its context for as long as it runs.
// After the stream the connection returns to fasthttp (Resume).
//
// With Listener.SetProxies, connections of the listed networks begin with the PROXY protocol's
// header (proxied.go), which is read before all of these, under TLS before the handshake.
//
// # Design
//
// Disconnect watch. fasthttp does not report a client that leaves while a handler runs. So every
// accepted connection is registered once, at accept, in our own epoll set for EPOLLRDHUP alone,
// edge-triggered. Data that arrives (pipelined requests) does not match that mask and causes no
// wake-up. A FIN or a reset does, in every phase, with or without TLS. A call then costs no system
// call: Conn.Watch and Unwatch publish and withdraw it under the connection's own mutex. The
// alternative, which adds and removes the descriptor for every request, was measured at 7 µs a
// request.
//
// The callback runs under the connection's mutex, and Unwatch takes the same mutex. After Unwatch
// has returned, no callback runs or will run, so a call can be recycled.
//
// Closing a descriptor removes it from the epoll set. Its number may come back with another
// connection while an event of the old one is still in flight, so every registration has a
// generation beside the number.
//
// A client that half-closes its side counts as gone, as in net/http and nginx. Systems without
// epoll poll the connections that have a call with MSG_PEEK every 100 ms.
//
// Acknowledgement timeout. A host that vanishes sends no FIN. While no bytes are on their way to
// it, the system's keep-alive probes notice within a minute. Unacknowledged bytes suspend the
// probes, and the system retransmits them for a quarter of an hour. So every ten seconds the watch
// asks the socket of each connection that has a call how long its host has acknowledged nothing
// (ack_timeout_linux.go). A client whose host is silent in six checks in a row has left.
// TCP_USER_TIMEOUT cannot replace this: it counts a closed window as silence, and so cuts clients
// that only read late.
//
// Lingering close. The kernel resets a connection that is closed with unread bytes, and the reset
// may overtake the answer. For answers given before the body was read, Close therefore closes only
// the writing half and discards what still comes. Time, bytes and the number of such connections
// are bounded.
//
// The bound on connections. A connection over the bound gets a fixed 503 and lingers, so that a
// client can read the answer while it still sends its request. It does not count as open: otherwise
// rejected clients would keep others out. AffordableConns keeps the bound below the limit on
// descriptors. Before one is rejected, a connection that waits for a request makes room
// (Options.MakeRoom, make_room.go): clients that hold connections without asking anything cannot
// keep others out. The public listener spares those that have waited for less than a second,
// because the next request of a busy client could meet the close. An address that holds more than
// half of the bound is not spared, unless it has shown a key. The admin listener has its own bound
// (AdminConns) and spares none, so that neither the operator nor a readiness probe is kept out.
//
// Graceful close. Closing a listener right away resets the connections in its accept queue, and
// closing a kept connection right away loses the request that is on its way. So CloseGracefully
// first makes the kernel ignore new connections (a filter on the socket), accepts those in the
// queue, closes, and ends kept connections that have had no request for a second, with a last read
// of the socket. Answers carry "Connection: close" from the start of the drain (package proxy), so
// an answered client does not come back on the same connection. A service manager's socket stays
// open: its queue is left to the next process. SO_REUSEPORT is the other way to restart without a
// gap. The kernel then ignores a new connection for us, and the client's second try, a second
// later, finds the other process.
//
// Detaching. A stream leaves fasthttp through a hijack. fasthttp closes the connection when it has
// released its buffers, and DetachOnClose turns that close into the start of the stream. Unread
// saves the buffered bytes of a pipelined request. Resume lets a server take the connection back
// like one that is kept alive. Streams run on goroutines that have run streams before
// (detached.go).
//
// Write deadlines. A deadline bounds one write, not an answer. A stream may take hours, and an
// image of many megabytes is written in pieces with one deadline each, so that only a client that
// has stopped is cut. Setting a deadline costs more than a small write, so it happens seldom. It
// belongs to the connection: the next answer, an hour later, must not find it expired. So
// Conn.Write moves it once SetWriteTimeout has set how long a write may take. The unsent bytes in a
// socket are bounded (send_buffer_linux.go), because the kernel wakes a blocked writer by thirds of
// its buffer: with megabytes in it, a client that reads slowly but steadily would miss the
// deadline.
package listen
