// Package socket reads and writes connected TCP sockets with the cheapest system calls.
//
// # Design
//
// A small request costs an edge four system calls and little else, so the overhead of a system call
// counts. Package net reads and writes sockets as files: on Linux the kernel then goes through its
// file layer, and Go's scheduler prepares for each system call to block. Neither is needed here.
// recvfrom, sendto and sendmsg go to the socket directly, and with MSG_DONTWAIT they never block.
// The scheduler does not prepare for them. In an idle process that preparation wakes the runtime's
// monitor thread, which then looks every 20 us for some time. The runtime's poller still waits,
// through syscall.RawConn, and handles deadlines and closing: a Stream reads, writes, times out and
// is closed like its net.TCPConn.
//
// UnackedFor distinguishes a vanished host from a program that reads late. No error does that for a
// quarter of an hour. ProbeEverySecond and SilentFor do the same if no bytes are on their way: the
// system probes the host, which answers for its program.
//
// Recv, Send, SendPieces and Peek are for callers that do several things during one stay in the
// poller. Package upstreams does so: it looks at a kept connection, writes a request and waits for
// the reply.
//
// Systems without recvfrom and sendto like Linux's, and builds with the race detector, use package
// syscall instead. Only with that package does the race detector know that a read comes after the
// write of the same bytes.
package socket
