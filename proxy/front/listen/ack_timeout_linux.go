package listen

import (
	"runtime"
	"time"

	"penstock/upstreams/http1/socket"
)

const (
	// ackCheckInterval is how often the watch checks the clients that wait for an answer.
	ackCheckInterval = 10 * time.Second
	// ackTimeoutChecks is the number of consecutive checks without an acknowledgement after which a
	// host counts as gone. They take a minute, which is as long as keep-alive probes take on
	// connections without unacknowledged bytes (see Listen).
	ackTimeoutChecks = 6
	// ackCheckBatch is how many connections are checked before other goroutines may run. Ten
	// thousand checks take 45 ms.
	ackCheckBatch = 64
)

// checkAcks finds clients whose host has vanished while an answer is in flight. The kernel would
// retransmit the answer for a quarter of an hour. A slow stream would not fill the buffer in that
// time, so no write would fail either. d is the time between two checks, during which the host must
// have acknowledged nothing.
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

// unackedFor reports whether bytes are in flight to the client and its host has acknowledged
// nothing for d. A host acknowledges bytes even if its program reads late.
func unackedFor(c sock, d time.Duration) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	milliseconds := 0
	// Control fails only on a closed connection
	_ = raw.Control(func(fd uintptr) { milliseconds, _ = socket.UnackedFor(fd) })
	return time.Duration(milliseconds)*time.Millisecond >= d
}
