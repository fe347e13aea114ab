// Package socket reads and writes connected stream sockets with the cheapest system calls.
//
// # Design
//
// For a small request, the edge does little more than make four system calls, so their overhead
// matters. Package net reads and writes sockets like files. On Linux, the kernel then goes through
// its file layer, and Go's scheduler expects that each system call may block. Neither is necessary,
// because recvfrom, sendto and sendmsg operate directly on the socket, and with MSG_DONTWAIT they
// never block. In an idle process, the scheduler's preparation also wakes the runtime's monitor
// thread, which then polls every 20 µs for some time. Waiting, deadlines and closing still go
// through the runtime's poller, by means of syscall.RawConn. A Stream therefore behaves like its
// net.TCPConn.
//
// UnackedMillis distinguishes a host that has disappeared from a program that reads late.
// Otherwise, a connection to a host that has disappeared would fail only after about 15 minutes.
// ProbeEverySecond and SilentMillis make the same distinction while no bytes are in flight: the
// edge's kernel probes the host, and the host's kernel answers.
//
// Recv, RecvTimestamped, Send, SendPieces and Peek are for callers that make more than one system
// call during one visit to the poller. Package http1, for example, peeks at a keep-alive
// connection, writes a request and waits for the response.
//
// RecvTimestamped also returns the time at which the bytes arrived. This lets package http1
// recognize bytes that arrived before it wrote a request, without a system call before the write.
//
// Systems whose recvfrom and sendto differ from those of Linux, and builds with the race
// detector, use package syscall instead. The race detector sees that bytes are read after they
// were written only if the read and the write both use package syscall.
package socket
