package listen

import (
	"runtime"
	"time"

	"penstock/upstreams/http1/socket"
)

const (
	// sweepEvery is how often clients that wait for something are asked after.
	sweepEvery = 10 * time.Second
	// silentSweeps is how many sweeps in a row find a host silent until it counts as gone: after a minute, as with the
	// system's questions on connections where nothing is on its way (see Listen).
	silentSweeps = 6
	// sweepPiece is how many connections are looked at before others may run: ten thousand take 45 ms.
	sweepPiece = 64
)

// sweep looks for clients whose host has vanished while an answer is on its way to them. The system would send it anew for a
// quarter of an hour, and an engine that says little fills no buffer meanwhile, so no write fails either. d is how long the host
// must have been silent, which is the time between sweeps.
func (w *watch) sweep(d time.Duration) {
	for i, c := range w.ln.snapshot() {
		if i%sweepPiece == sweepPiece-1 {
			runtime.Gosched()
		}
		if !c.waits() || !c.unheard(d) {
			c.silent = 0
			continue
		}
		if c.silent++; c.silent == silentSweeps {
			c.lost()
		}
	}
}

// unheard reports whether bytes are on their way to the client and its host has acknowledged nothing for d. A host whose
// program reads late acknowledges.
func (c *Conn) unheard(d time.Duration) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	silence := 0
	_ = raw.Control(func(fd uintptr) { silence, _ = socket.UnackedFor(fd) }) // fails on a connection that we have closed only
	return time.Duration(silence)*time.Millisecond >= d
}
