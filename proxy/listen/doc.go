// Package listen is the client's side of the sockets: listeners with a connection limit, the watch that notices at once
// when a client leaves, a close that lets a refused client read its answer, and the TLS certificate that can be rotated.
//
// # Design
//
// The watch. fasthttp has no sign of a client that leaves while a handler runs, so every accepted connection is registered
// once, at accept, in an epoll set of our own for EPOLLRDHUP alone, edge-triggered. Data that arrives (pipelined requests)
// does not match that mask and wakes nobody; a FIN or a reset does, in every phase, plain or TLS. A call then costs no
// system call: Begin and End publish and withdraw it under the connection's own mutex. The alternative, adding and removing
// the descriptor for every request, was measured at 7 µs a request.
//
// The callback runs under the connection's mutex, and End takes the same mutex: after End has returned no callback runs or
// will run, so a call can be recycled.
//
// A descriptor that is closed leaves the epoll set by itself, but its number may come back with another connection while an
// event of the old one is still in flight; every registration therefore has a generation beside the number.
//
// A client that half-closes its side counts as gone, as in net/http and nginx. On systems without epoll the connections
// that have a call are polled with MSG_PEEK every 100 ms.
//
// A host that vanishes sends no FIN. While nothing is on its way to it, the system's keep-alives find that out within a minute;
// bytes on their way suspend those, and the system sends them anew for a quarter of an hour. So every ten seconds the watch
// asks the sockets of the connections that have a call since when nothing was acknowledged (silent_linux.go), and one that is silent
// at six looks in a row has left. TCP_USER_TIMEOUT is no way to have the same: it counts a closed window as silence, and
// cuts clients that only read late.
//
// Lingering. A connection that is closed with bytes unread is reset by the kernel, and the reset may overtake the answer.
// For answers given before the body was read, Close therefore ends only the writing half and discards what still comes,
// for a bounded time, size and number of connections.
//
// The bound on connections. One too many is answered with a fixed 503 and lingers, so that a client in the middle of its
// request can read it; it does not count as open, or those who are turned away would keep everybody else out.
// Affordable keeps the bound below what the limit on descriptors allows. The admin listener has a bound of its own
// (ForOperators), and there one too many is let in: the one that has waited longest without a whole request makes room
// (Options.MakeRoom), so that connections that say nothing cannot keep the operator, or a readiness probe, out.
//
// Framing. fasthttp waits for CR LF CR LF, so a head with other line ends would hang until the
// header's timeout. Between and behind chunks it accepts some lines that end in LF, and extensions
// and trailers without a bound. So each connection checks the framing of requests and bodies as it
// reads them, and ends at the first malformed byte (framing.go). This check is stricter than
// fasthttp's, costs a quarter of a microsecond a request, and a body of known length costs one
// subtraction. A byte that cannot begin a request ends the connection, too, so that a TLS hello is
// answered at once. The check is ahead of the server by the bytes that the server has buffered, so
// it covers pipelined requests.
//
// Leaving. A listener that is just closed resets the connections in its accept queue, and a kept connection that is just
// closed loses the request that is on its way. So Leave first has the kernel ignore new connections (a filter on the
// socket), accepts what the queue holds, closes, and lets kept connections go when they have had no request for a second,
// with a last look at the socket. Answers carry "Connection: close" from the start of the drain on (package proxy), so a
// client that has been answered meanwhile does not come back on the same connection. A socket that a service manager passed
// on is the manager's: its queue is left to the next process. SO_REUSEPORT is the other way to a start without a gap: the
// kernel then ignores a new connection for us and the client's second try, a second later, finds the other process.
//
// Leaving the server. A connection whose stream leaves fasthttp is handed over by a hijack; fasthttp closes it when it has
// let go of its buffers, and Keep makes of that close the start of the stream. Unread saves what the buffers held of a
// pipelined request; Resume lets the connection be served on as one that is kept alive.
//
// Write deadlines. A deadline bounds one write, not an answer: a stream may take hours, and an image of many megabytes is
// written in pieces with a deadline each, so that only a client that has stopped is cut. It is armed seldom, because arming
// costs more than a small write, and it belongs to the connection: the next answer, an hour later, must not find it expired.
// So Conn.Write moves it by itself once WriteWithin has said how long a write may take. What a socket holds unsent
// is bounded (unsent_linux.go), because the kernel wakes a blocked writer by thirds of its buffer: with megabytes in it, a
// client that reads slowly but steadily would miss the deadline.
package listen
