package listen

import (
	"runtime"
	"time"

	"penstock/upstreams/http1/socket"
)

const (
	// ackCheckInterval is how often the watch checks the clients that wait for an answer.
	ackCheckInterval = 10 * time.Second
	// ackTimeoutChecks is the number of consecutive checks without an acknowledgment after which a
	// host counts as gone. They take a minute, like the keep-alive probes on a connection without
	// unacknowledged bytes (see Listen).
	ackTimeoutChecks = 6
	// ackCheckBatch is how many connections are checked before other goroutines may run. Ten
	// thousand checks take 45 ms.
	ackCheckBatch = 64
)

// checkAcks detects clients whose host has vanished while bytes were in flight to the host. The
// kernel would retransmit these bytes for a quarter of an hour. If the stream is slow, it would not
// fill the send buffer in that time, so no write would fail. d is the time between two checks.
func (w *disconnectWatch) checkAcks(d time.Duration) {
	for i, c := range w.ln.snapshot() {
		if i%ackCheckBatch == ackCheckBatch-1 {
			runtime.Gosched()
		}
		client := &c.client
		if !client.hasWaiter() || !unackedFor(c.sock, d) {
			client.unackedChecks = 0
			continue
		}
		if client.unackedChecks++; client.unackedChecks == ackTimeoutChecks {
			client.hasLeft(w.ln.guard)
		}
	}
}

// unackedFor reports whether bytes are in flight and the host has not acknowledged any for the time
// d. A host acknowledges bytes even if its program does not read them.
func unackedFor(c sock, d time.Duration) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	milliseconds := 0
	// Control fails only on a closed connection.
	_ = raw.Control(func(fd uintptr) { milliseconds, _ = socket.UnackedFor(fd) })
	return time.Duration(milliseconds)*time.Millisecond >= d
}
