package listen

import (
	"runtime"
	"time"

	"penstock/upstreams/http1/socket"
)

const (
	// ackCheckInterval is how often the watch checks clients that are waiting for an answer.
	ackCheckInterval = 10 * time.Second
	// checksUntilAckTimeout is the number of consecutive checks without an acknowledgment after which a
	// host counts as vanished. These checks take a minute, like the keep-alive probes on a
	// connection without unacknowledged bytes (see Listen).
	checksUntilAckTimeout = 6
	// ackCheckBatch is how many connections are checked before checkAcks yields to other
	// goroutines. Ten thousand checks take 45 ms.
	ackCheckBatch = 64
)

// checkAcks detects clients whose host vanished while bytes were in flight to it. The kernel would
// retransmit these bytes for a quarter of an hour. A slow stream would not fill the send buffer in
// that time, so no write would fail. d is the time between two checks.
func (w *disconnectWatch) checkAcks(d time.Duration) {
	for i, c := range w.ln.copyConns() {
		if i%ackCheckBatch == ackCheckBatch-1 {
			runtime.Gosched()
		}
		client := &c.client
		if !client.hasWaiter() || !isUnackedFor(c.rawConn, d) {
			client.unackedChecks = 0
			continue
		}
		if client.unackedChecks++; client.unackedChecks == checksUntilAckTimeout {
			client.markGone(w.ln.guard)
		}
	}
}

// isUnackedFor reports whether bytes are in flight and the host has acknowledged none of them for
// the duration d. A host acknowledges bytes even if its program does not read them.
func isUnackedFor(c rawConn, d time.Duration) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	milliseconds := 0
	// Control fails only if the connection is closed.
	_ = raw.Control(func(fd uintptr) { milliseconds, _ = socket.UnackedMillis(fd) })
	return time.Duration(milliseconds)*time.Millisecond >= d
}
