// Package socket reads and writes connected TCP sockets with the system calls that cost least.
//
// # Design
//
// A small request costs an edge four system calls and little else, so what surrounds a call counts. Package net reads and writes
// sockets as files: on Linux the kernel then goes by way of its file layer, and Go's scheduler is told of each call, which might
// block. Neither is needed here: recvfrom and sendto go to the socket at once, and with MSG_DONTWAIT they never block. The waiting
// is still the runtime's poller's, by way of syscall.RawConn, and so are deadlines and closing: a Stream reads, writes, times out
// and is closed as its net.TCPConn is.
//
// Silence tells a host that has vanished from a program that reads late, which no error does for a quarter of an hour. Question and
// Unanswered tell it where nothing is on its way: the host is asked, and answers for its program.
//
// Recv, Send and Peek are for those who do more than one thing within one stay in the poller, as package upstreams does when it
// looks at a kept connection, writes a request and waits for the reply.
//
// Where there are no such calls, and under the race detector, which knows how bytes carry order from a write to a read only with the
// calls of package syscall, those are used instead.
package socket
