// Package socket reads and writes connected TCP sockets with the cheapest system calls.
//
// # Design
//
// A small request costs an edge little more than four system calls, so the overhead of a system
// call matters. Package net reads and writes sockets as files. On Linux the kernel then goes
// through its file layer, and Go's scheduler prepares for each system call to block. Neither is
// needed here: recvfrom, sendto and sendmsg go directly to the socket, and with MSG_DONTWAIT they
// never block, so the scheduler need not prepare. In an idle process the scheduler's preparation
// wakes the runtime's monitor thread, which then polls every 20 us for some time. The runtime's
// poller still waits, through syscall.RawConn, and handles deadlines and closing: a Stream reads,
// writes, times out and is closed like its net.TCPConn.
//
// UnackedFor tells a vanished host from a program that reads late. Without it the first error
// comes after a quarter of an hour. ProbeEverySecond and SilentFor do the same if no bytes are in
// flight: our kernel probes the host, and the host's kernel answers.
//
// Recv, RecvStamped, Send, SendPieces and Peek are for callers that do several things during one stay in the
// poller. Package http1 does so: it peeks at a keep-alive connection, writes a request and waits
// for the reply.
//
// RecvStamped also returns when the bytes arrived. Package http1 thus recognises bytes that arrived
// before it wrote a request, without a system call before the write.
//
// Systems whose recvfrom and sendto differ from Linux's, and builds with the race detector, use
// package syscall instead. Only with that package does the race detector know that a read comes
// after the write of the same bytes.
package socket
