// Package http1 is an HTTP/1.1 client for inference engines, whose exchanges can be aborted at
// any instant. A Transport is the client of one upstream, and an Exchange is one request and its
// reply. Calls use the exchange of their lease; probes, detection and discovery read pages
// (Transport.Pages). The package knows sockets, framing and failures, but not engines, health or
// configuration.
//
// # Why a client of our own
//
// An exchange with an engine lasts from milliseconds to an hour, and the edge must be able to end
// it at any instant. Only closing the socket makes an engine stop generating, so Abort closes the
// socket, from any goroutine and in every phase: before anything was sent, while connecting, in the
// TLS handshake, while writing, while waiting for the head, while reading the body. The available
// clients (fasthttp's, net/http's) cannot abort in every phase, or need a goroutine for it. These
// clients set one deadline for a whole body, and repeat requests by their own rules. One of them
// passes the bytes after a reply to the connection's next user.
//
// # The lifetime of an exchange
//
// The order is Begin, Send, Await, Read until io.EOF, Close. One goroutine at a time may call these
// methods. Any other goroutine may call only Abort. The only other goroutine runs while a large
// request is written over TLS (conn.interruptUnacked). An exchange has three parts:
//
//	lifetime   what Abort shares with the owner: the state, what to close, the first failure
//	delivery   the request: its connection, and whether to send it again
//	reply      the received head and body, and the bytes not yet taken
//
// The caller says until when to wait. After that time Await and Read return ErrNotYet and leave the
// exchange unchanged. The caller may send a keep-alive to its client and call again, or abort
// because one of its own timeouts has expired. The exchange itself has limits only for connecting
// and writing.
//
// Exchanges are not pooled, because a late Abort would end another request's exchange. Their
// buffers are pooled. An exchange that waits for the head or (see Wait) the body holds no buffer.
// It takes a buffer of 4 KiB once bytes have arrived.
//
// Every failure is a *Failure, which states only facts, from closed sets of kinds, reasons and
// clocks. Other packages decide how much of a Failure a client sees.
//
// # Connections
//
// A connection has one owner at a time: an exchange, or the idle pool of its transport. It
// returns to the pool only if the reply was read to the end of its framing, both sides keep the
// connection, the whole request was written and no byte is left over.
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
// A keep-alive connection may still be reset or closed before a byte of the reply. If this happens
// within resendWithin of the request, the exchange replaces the connection once with a new one.
// Only Sends reveals this. After resendWithin the engine may have worked on the request. All this
// is rare, because the edge keeps idle connections for less time than engines do.
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
// A host that has vanished (a cable was cut, or a NAT has forgotten a keep-alive connection) resets
// nothing, and kernels retransmit unacknowledged bytes for a quarter of an hour. So Await and the
// writes check periodically that the request is acknowledged (ackWatch). TCP_USER_TIMEOUT would do
// this in the kernel, but cannot distinguish an engine that reads late from a vanished host. Once
// the request is acknowledged, HostWatch takes over. Keep-alives alone take 35 s.
//
// # RFC rules that are enforced
//
// Replies are parsed strictly (head, body, package chunked), and an ambiguous reply is refused.
// RFC 9112: a status line of HTTP/1.x with three digits (4); CR LF or LF ends a line of the head
// (2.2), no folded lines and no blank before the colon (5); Content-Length is digits only, and
// several must agree (6.3); Transfer-Encoding is exactly chunked, without Content-Length (6.1);
// chunks of HTTP/1.0 are decoded and end the connection (6.1); a reply to HEAD, and those with
// 101, 204 and 304, have no body (6.3). RFC 9110: names are tokens, values have no control
// characters (5.5, 5.6.2); at most eight interim replies (15.2). RFC 6761, 6.3: localhost is the
// loopback.
package http1
