// Package http1 is an HTTP/1.1 client for exchanges with inference engines, which can be ended at
// any instant. A Transport is the client of one upstream, an Exchange one request and its reply.
// Calls use the exchange of their lease; probes, detection and discovery read pages
// (Transport.Pages). The package knows sockets, framing and failures, and nothing of engines,
// health or configuration.
//
// # Why a client of our own
//
// An exchange with an engine lasts from milliseconds to an hour, and it must be possible to end it
// at any instant. Closing the socket is the only way to make an engine stop generating, so Abort
// closes it, from any goroutine, in every phase: before anything was sent, while connecting, in the
// TLS handshake, while writing, while waiting for the head, while reading the body. The clients at
// hand (fasthttp's, net/http's) cannot do that in every phase, or pay a goroutine for it. They
// bound a body by one deadline for the whole of it. They repeat requests by rules of their own. One
// of them passes bytes that follow a reply to the next user of the connection.
//
// # The life of an exchange
//
// It is Begin, Send, Await, Read until io.EOF, Close. All of it but Abort belongs to one goroutine
// at a time: the caller's own reads and writes. The only other goroutine runs while a large request
// is written over TLS (conn.interruptUnacked). An exchange has three parts:
//
//	lifetime   what Abort shares with the owner: the state, what to close, the first failure
//	delivery   the request on its way: on which connection, and whether once more
//	reply      what has come: head, body, and the bytes that have not been taken
//
// The caller says until when to wait. When that time has passed, Await and Read return ErrNotYet
// and nothing has happened: the caller may send a keep-alive to its client and call again, or
// decide that a clock of its own has run out, and abort. The exchange itself knows only the limits
// for connecting and writing.
//
// Exchanges are not pooled: a late Abort would end another request's exchange. Their buffers are
// pooled. While the head or (see Wait) the body is awaited, an exchange holds no buffer. It takes
// one of 4 KiB when bytes have come.
//
// Every failure is a *Failure, which states facts only, from closed sets of kinds, reasons and
// clocks. What a client sees of it is decided elsewhere.
//
// # Connections
//
// A connection has one owner at a time: an exchange, or the idle ones of its transport. It goes
// back only if the reply was read to the end of its framing, both sides keep the connection, the
// whole request was written and no byte is left over.
//
// Before the next use its socket is checked: one that was closed or holds unsolicited bytes is
// dropped. It is checked again when the request has left, because an engine that sends a second
// reply does so within microseconds: bytes that are there although the engine's host has
// acknowledged nothing of the request do not answer it, and it goes to a new connection. This check
// costs 0.4 us, and finds the one leftover in thirty thousand calls that came between the first
// check and the write. A reply that came together with further bytes is not believed on a kept
// connection, either. What remains is a leftover that comes alone, behind the request and before
// its answer: HTTP/1.1 has no way to distinguish it (8 to 20 calls of 20,000, 64 at a time, where
// every fourth reply has a second one within 500 us). So the first unsolicited bytes end the reuse
// of the upstream's connections for a minute (HostWatch). A pause before each reuse would do the
// same at the price of more connections, of which some engines (cpp-httplib) serve as many as they
// have threads.
//
// A kept connection that dies all the same, reset or closed before a byte of the reply and within
// resendWithin of the request, is replaced once by a new one, which only Sends shows; later the
// engine may have worked for it. Keeping idle connections for less time than engines do makes this
// rare.
//
// A small request for a kept connection in the clear, which is nearly every one, is written within
// the wait for its reply: the check of the socket, the write and the wait are one stay in the
// runtime's poller, and the read that would find nothing is left out (poll.sendUnsent). It is the
// only thing that Await sends. Of a larger one what the socket takes at once is written without a
// deadline, and the rest as the engine reads it (requestWriter.push). Replies are read by package
// socket (plainConn), whose system calls, unlike those of package net, wake no thread of the
// runtime. Deadlines are moved as seldom as possible (conn): in a steady state an exchange moves
// none.
//
// # Hosts that vanish
//
// A host that has vanished (a cut cable, a NAT that has forgotten a kept connection) resets
// nothing, and systems repeat unacknowledged bytes for a quarter of an hour. So Await and the
// writes check at times that the request is acknowledged (ackWatch). TCP_USER_TIMEOUT would do it
// in the kernel, but takes an engine that reads late for one that is gone. Once the request is
// acknowledged, HostWatch finds out. Keep-alives alone take 35 s.
//
// # What is held of the RFCs
//
// Replies are parsed strictly (head, body, package chunked); one that could be read in two ways is
// refused. RFC 9112: a status line of HTTP/1.x with three digits (4); CR LF or LF ends a line of
// the head (2.2), no folded lines and no blank before the colon (5); Content-Length is digits
// only, and several agree (6.3); Transfer-Encoding is exactly chunked, without Content-Length
// (6.1); chunks of HTTP/1.0 are decoded and end the connection (6.1); a reply to HEAD, and those
// with 101, 204 and 304, have no body (6.3). RFC 9110: names are tokens, values have no control
// characters (5.5, 5.6.2); at most eight interim replies (15.2). RFC 6761, 6.3: localhost is the
// loopback.
package http1
