// Package http1 is an HTTP/1.1 client for inference engines. Its exchanges can be aborted at any
// time. A Transport is the client for one upstream, and an Exchange is one request with its
// response. Calls use the exchange of their lease. Probes, detection and discovery fetch pages
// (Transport.PageFetcher). The package handles sockets, framing and failures, and leaves engines,
// health and configuration to its callers.
//
// # Why a separate client
//
// An exchange with an engine lasts from milliseconds to an hour, and the edge must be able to abort
// it at any time. An engine stops generating only when its connection is closed. Abort therefore
// closes the socket, from any goroutine and in every phase, from connecting to reading the body.
// fasthttp and net/http cannot abort in every phase, or need an additional goroutine for it. They
// also set one deadline for a whole body, and decide themselves when to retry a request. One of the
// two clients returns bytes that follow a response as the response to the next request on the
// connection.
//
// # The lifetime of an exchange
//
// The methods must be called in this order: Begin, Send, Await, Read until io.EOF, Close. Only one
// goroutine at a time may call these methods, and other goroutines may call only Abort. The package
// itself starts a goroutine only while it writes a large request over TLS (conn.interruptUnacked).
// An exchange has three parts:
//
//	lifetime   shared with Abort: the state, what to close, the first failure
//	delivery   the request: its connection, and whether to send the request again
//	reply      the received head and body, and the unread bytes
//
// The caller passes a time limit to Await and Read. Once the limit has passed, Await and Read
// return ErrNoBytesYet and leave the exchange unchanged. The caller may then send a keep-alive to its
// client and call again, or abort because one of the caller's timeouts has expired. The exchange
// itself limits only the time for connecting and for writing.
//
// Exchanges are not pooled, because a late Abort would then abort the exchange of another request.
// Their buffers are pooled. While an exchange is waiting for the head, or for the body in
// WaitReadable, it has no buffer. It gets a 4 KiB buffer from the pool once bytes have arrived.
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
// Before reuse, the transport checks the socket. It drops a connection that was closed or on
// which unsolicited bytes have arrived. An engine that sends a second response does so within
// microseconds, so the exchange tries to read immediately after the write. Bytes that arrive
// before the engine's host has acknowledged any byte of the request cannot be its response. In
// that case, the request is sent again on a new connection. In one of 30,000 calls, this second
// check finds surplus bytes that arrived between the first check and the write.
//
// If the previous response ended less than uncheckedWindow ago, there is no check before the write.
// Linux records when bytes arrive (socket.RecvTimestamped). Bytes that arrived before the write are
// therefore recognized when they are read, even if the host has already acknowledged the request.
// The check is skipped only if the kernel has recorded when the previous response on the connection
// arrived. The head of a large request is written alone. The engine cannot respond to it before it has
// the body, so bytes that arrived before the end of this write are recognized in the same way.
//
// The exchange also rejects a response on a keep-alive connection if more bytes arrive together
// with it. One case remains: a surplus response may arrive alone, after the request and before
// the correct response. HTTP/1.1 cannot detect this case. The case was tested with 64 concurrent
// calls and an engine that sent a second response within 500 µs of every fourth response. Of
// 20,000 calls, 8 to 20 got a wrong response. Once unsolicited bytes have arrived, the upstream's
// connections are therefore not reused for a minute (HostWatch). A pause before each reuse would
// also help, but would require more connections. Some engines (cpp-httplib) serve only as many
// connections as they have threads.
//
// A keep-alive connection may still be reset or closed before the first byte of the response. If
// that happens within resendWithin after the request was sent, the exchange sends the request once
// more, on a new connection. Only Exchange.SendCount reveals the retry. Once resendWithin has
// passed, the engine may have processed the request, so the exchange fails. Such resets are rare,
// because the edge closes idle connections earlier than engines do.
//
// Nearly all requests are small and use a keep-alive connection without TLS. Await writes these
// requests itself: it checks the socket, writes, reads and waits in one visit to the runtime's
// poller (pollOps.tryFetch). For larger requests, Send writes the part that fits in the socket
// immediately, without a deadline. It writes the remaining bytes as the engine reads them
// (requestWriter.writeAll). Responses are read by package socket (plainConn). Unlike the system
// calls of package net, those of package socket do not wake runtime threads. Deadlines are changed
// as rarely as possible (conn). In the steady state, an exchange changes no deadline.
//
// # Streams
//
// Each token of a stream costs one read and one write, because a stream stays in the runtime's
// poller between its tokens (Exchange.StayInPoller). A new wait for each token would begin with a
// read that finds nothing, because the poller discards events from before the wait. Staying in the
// poller has two consequences:
//
//   - The poller may report bytes and the end of the stream in one event. A separate epoll set
//     (socket.HangUpWatch) therefore detects when an engine hangs up, and wakes the exchange once
//     more. The set reports each connection only once, because the connection may then stay open in
//     the idle pool.
//   - Closing the socket blocks until a running step has returned. Abort therefore shuts the socket
//     down, which the engine detects immediately, and the owner of the exchange closes the socket.
//     A step must not block, so it may only read and write without waiting.
//
// A step may use the unused part of the buffer that contains the received bytes
// (Exchange.SpareBuffer). The buffer therefore returns to its pool only after the step, even if the
// step reads more.
//
// The stay ends with everything except a token: with the end of the stream, an error, a client
// whose socket is full, or a read that fills its buffer.
//
// # Hosts that disappear
//
// A host that disappears, for example because a cable was cut, sends no reset. Neither does a NAT
// that has dropped the connection. Kernels retransmit unacknowledged bytes for about 15 minutes.
// Await and the writes therefore check periodically that the host has acknowledged the request
// (ackWatch). TCP_USER_TIMEOUT would do this check in the kernel, but cannot distinguish an engine
// that reads late from a host that has disappeared. Once the request is acknowledged, HostWatch
// detects that the host disappears. TCP keep-alives alone would take 35 s to detect this.
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
//   - A response to HEAD, and a response with status 101, 204 or 304, has no body (6.3).
//
// RFC 9110:
//
//   - Header names are tokens (5.6.2), and values contain no control characters (5.5).
//   - At most eight interim responses are accepted (15.2).
//
// RFC 6761, 6.3: localhost is the loopback interface.
package http1
