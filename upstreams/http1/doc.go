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
// fasthttp and net/http cannot abort in every phase, or need an additional goroutine for it. They
// also set one deadline for a whole body, and decide themselves when to retry a request. One of the
// two passes bytes that follow a response to the next request on the connection.
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
// It acquires a 4 KiB buffer once bytes have arrived.
//
// Every failure is a *Failure. Its kinds, reasons and clocks are closed sets. Other packages decide
// what to report to the client.
//
// # Connections
//
// A connection has one owner at a time: an exchange, or the idle pool of its transport. The
// connection returns to the pool only if all of these conditions hold:
//
//   - the whole request was written
//   - the response was read to the end of its framing
//   - no surplus bytes have arrived
//   - both sides keep the connection alive
//
// Before reuse, the transport checks the socket. It drops a connection that was closed or has
// unsolicited bytes. The response is first read immediately after the write, because an engine that
// sends a second response does so within microseconds. Bytes that arrive before the engine's host
// has acknowledged any byte of the request cannot be its response, so the request goes to a new
// connection. This check finds surplus bytes in one of 30,000 calls: bytes that arrived between the
// first check and the write.
//
// If the previous response ended less than uncheckedWindow ago, there is no check before the write.
// Linux records when bytes arrive (socket.RecvTimestamped). Bytes that arrived before the write are
// therefore recognized when they are read, even if the host has already acknowledged the request.
// The check is skipped only on a connection for which the kernel recorded when the previous
// response arrived.
//
// The exchange also rejects a response on a keep-alive connection if more bytes arrive together
// with it. One case remains: a surplus response may arrive alone, after the request and before the
// correct response. HTTP/1.1 cannot detect this case. In a test with 64 concurrent calls, the
// engine sent a second response within 500 µs of every fourth response. Then 8 to 20 of 20,000
// calls got a wrong response. Therefore, once unsolicited bytes have arrived, the upstream's
// connections are not reused for a minute (HostWatch). A pause before each reuse would also help,
// but would need more connections. Some engines (cpp-httplib) serve only as many connections as
// they have threads.
//
// A keep-alive connection may still be reset or closed before the first byte of the response. If
// that happens within resendWithin after the request was sent, the exchange sends the request once
// more, on a new connection. Only Exchange.Sends reveals the retry. Once resendWithin has passed,
// the engine may have processed the request, so the exchange fails. Such resets are rare, because
// the edge closes idle connections earlier than engines do.
//
// Nearly all requests are small and use a keep-alive connection without TLS. Await writes these
// requests itself: it checks the socket, writes, reads and waits in one visit to the runtime's
// poller (poll.tryFetch). For larger requests, Send writes the part that fits in the socket
// immediately, without a deadline. It writes the remaining bytes as the engine reads them
// (requestWriter.push). Responses are read by package socket (plainConn). Unlike the system calls
// of package net, those of package socket do not wake runtime threads. Deadlines are changed as
// rarely as possible (conn). In the steady state, an exchange changes none.
//
// # Streams
//
// A token of a stream costs one read and one write, because a stream stays in the runtime's poller
// between its tokens (Exchange.Stay). A new wait for each token would begin with a read that finds
// nothing, because the poller forgets events from before the wait. Staying in the poller has two
// consequences:
//
//   - The poller may report bytes and the end of the stream in one event. A separate epoll set
//     (socket.HangUpWatch) therefore detects that engines hang up, and wakes the exchange once more. It
//     reports each connection once, because a connection may stay open in the idle pool.
//   - Closing the socket blocks until a running step has returned. Abort therefore shuts the socket
//     down, which the engine sees immediately, and the owner of the exchange closes the socket. A
//     step must not block: it may read and write only without waiting.
//
// A step may use the rest of the buffer with the received bytes (Exchange.Room). The buffer
// therefore returns to its pool only after the step, even if the step reads more.
//
// Everything except a plain token ends the stay: the end of the stream, an error, a client whose
// socket is full, or a read that fills its buffer.
//
// # Hosts that disappear
//
// A host that disappears sends no reset, for example after a cable was cut. Nor does a NAT that has
// dropped the connection. Kernels retransmit unacknowledged bytes for about 15 minutes. Await and
// the writes therefore check periodically that the host has acknowledged the request (ackWatch).
// TCP_USER_TIMEOUT would do this check in the kernel, but cannot distinguish an engine that reads
// late from a host that has disappeared. Once the request is acknowledged, HostWatch takes over.
// TCP keep-alives alone would take 35 s to detect the loss.
//
// # Enforced RFC rules
//
// Responses are parsed strictly (head, body, package chunked), and ambiguous responses are
// rejected.
//
// RFC 9112:
//
//   - The status line is HTTP/1.x with three digits (4).
//   - CR LF or LF ends a line of the head (2.2). Lines are not folded, and no space precedes the
//     colon (5).
//   - Content-Length has only digits, and repeated headers must agree (6.3).
//   - Transfer-Encoding is exactly chunked, and Content-Length is then absent (6.1).
//   - Chunks in an HTTP/1.0 response are decoded, and the connection is then closed (6.1).
//   - A response to HEAD, and one with status 101, 204 or 304, has no body (6.3).
//
// RFC 9110:
//
//   - Header names are tokens (5.6.2), and values contain no control characters (5.5).
//   - At most eight interim responses are accepted (15.2).
//
// RFC 6761, 6.3: localhost is the loopback.
package http1
