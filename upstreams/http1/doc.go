// Package http1 is an HTTP/1.1 client for inference engines. Its exchanges can be aborted at any
// time. A Transport is the client for one upstream, and an Exchange is one request with its
// response. Calls use the exchange of their lease. Probes, detection and discovery fetch pages
// (Transport.Pages). The package handles sockets, framing and failures, and leaves engines, health
// and configuration to its callers.
//
// # Why a separate client
//
// An exchange with an engine lasts from milliseconds to an hour, and the edge must be able to abort
// it at any time. An engine stops generating only when its connection is closed. Abort therefore
// closes the socket, from any goroutine and in every phase, from connecting to reading the body.
// fasthttp and net/http cannot abort in every phase, or need an additional goroutine to do so. They
// also set one deadline for a whole body, and decide themselves when to retry a request. One of
// them passes bytes after a response to the next request on the connection.
//
// # The lifetime of an exchange
//
// The order of calls is Begin, Send, Await, Read until io.EOF, Close. Only one goroutine at a time
// may call these methods, and other goroutines may call only Abort. The package itself starts a
// goroutine only while it writes a large request over TLS (conn.interruptUnacked). An exchange has
// three parts:
//
//	lifetime   shared with Abort: the state, what to close, the first failure
//	delivery   the request: its connection, and whether to send the request again
//	reply      the received head and body, and the unread bytes
//
// The caller passes a time limit to Await and Read. Once the limit has passed, Await and Read
// return ErrNotYet and leave the exchange unchanged. The caller may then send a keep-alive to its
// client and call again, or abort because one of the caller's timeouts has expired. The exchange
// itself limits only the time for connecting and for writing.
//
// Exchanges are not pooled, because a late Abort would abort the exchange of another request. Their
// buffers are pooled. An exchange that waits for the head, or for the body in Wait, has no buffer.
// When bytes have arrived, it takes a 4 KiB buffer.
//
// Every failure is a *Failure. Its kinds, reasons and clocks are closed sets. Other packages decide
// what to report to the client.
//
// # Connections
//
// A connection has one owner at a time: an exchange, or the idle pool of its transport. The
// connection returns to the pool only if all of these conditions hold:
//
// Before the connection's next use its socket is checked: a connection that was closed, or that
// holds unsolicited bytes, is dropped. The socket is read once the request has left, because an
// engine that sends a second reply does so within microseconds. If bytes have arrived before the
// engine's host acknowledges any byte of the request, they do not answer the request, so the
// request goes to a new connection. In one of thirty thousand calls this finds a leftover that
// arrived between the first check and the write.
//
// Within unlookedFor of the last reply, the first check is left out. Linux notes when bytes arrive
// (socket.RecvStamped), so bytes that arrived before the write are recognised when they are read,
// even if the host has acknowledged the request by then. A connection is trusted in this way only
// after the kernel has noted the arrival of its last reply. On a keep-alive connection, a reply
// that arrives together with further bytes is rejected as well. One case remains: a leftover that
// arrives alone, after the request and before its answer. HTTP/1.1 cannot detect it (8 to 20 calls
// of 20,000, 64 at a time, if every fourth reply is followed by a second one within 500 us). So the
// first unsolicited bytes end the reuse of the upstream's connections for a minute (HostWatch). A
// pause before each reuse would also help but needs more connections, and some engines
// (cpp-httplib) serve only as many connections as they have threads.
//
// Before reuse, the transport checks the socket. It drops a connection that was closed or has
// unsolicited bytes. It checks the socket again after the write, because an engine that sends a
// second response does so within microseconds. Bytes that arrive before the engine's host has
// acknowledged any byte of the request cannot be its response, so the request goes to a new
// connection. This check costs 0.4 us. In one of 30,000 calls it finds surplus bytes that arrived
// between the first check and the write. The exchange also rejects a response on a keep-alive
// connection if more bytes arrive together with it. One case remains: a surplus response may arrive
// alone, after the request and before the correct response. HTTP/1.1 cannot detect this case. In a
// test with 64 concurrent calls, the engine sent a second response within 500 µs of every fourth
// one. This case then affected 8 to 20 of 20,000 calls. Therefore, once unsolicited bytes have
// arrived, the upstream's connections are not reused for a minute (HostWatch). A pause before each
// reuse would also help, but would need more connections. Some engines (cpp-httplib) serve only as
// many connections as they have threads.
//
// Nearly every request is small and goes to a keep-alive connection without TLS. The request is
// written within the wait for its reply: the check of the socket, the write, the first read and the
// wait happen in one stay in the runtime's poller (poll.tryFetch). Await writes no other requests.
// If a request is larger, the part that fits in the socket is written at once and without a
// deadline. The other part is written as the engine reads (requestWriter.push).
// Replies are read by package socket (plainConn), whose system calls, unlike those of package net,
// wake no thread of the runtime. Deadlines are moved as rarely as possible (conn): in the steady
// state an exchange moves none.
//
// # Streams
//
// A token of a stream costs one read and one write, because a stream stays in the runtime's poller
// between its tokens (Exchange.Stay). Each new wait would begin with a read that finds nothing,
// since the poller forgets what it saw before the wait. Two things follow from the stay:
//
//   - The poller reports in one event that bytes and an end have arrived. So an epoll set of our own
//     reports the ends (hangUps), and wakes the exchange once more.
//   - Closing a socket waits until a running step has returned. So Abort shuts the socket down
//     instead, which the engine sees at the same moment, and the owner closes it. A step must not
//     wait for anything: its reads and writes take what is possible at once.
//
// A stay is left for everything that is not a plain token: an end, an error, a full client, a read
// that filled its buffer.
//
// # Hosts that vanish
//
// # Hosts that disappear
//
// A host that disappears sends no reset, for example after a cable was cut. The same happens if a
// NAT has dropped the connection. Kernels retransmit unacknowledged bytes for about 15 minutes.
// Await and the writes therefore check periodically that the host has acknowledged the request
// (ackWatch). TCP_USER_TIMEOUT would do this check in the kernel, but cannot distinguish an engine
// that reads late from a host that has disappeared. Once the request is acknowledged, HostWatch
// takes over. TCP keep-alives alone would take 35 s to detect the loss.
//
// # Enforced RFC rules
//
// Responses are parsed strictly (head, body, package chunked), and ambiguous responses are
// rejected. RFC 9112: RFC 9110:
//
//   - Header names are tokens (5.6.2), and values contain no control characters
//     (5.5).
//   - At most eight interim responses are accepted (15.2).
//
// RFC 6761, 6.3: localhost is the loopback.
package http1
