package sim

import (
	"io"
	"net"
	"time"

	"penstock/bench/sim/profile"
)

// forGood is longer than a run.
const forGood = 24 * time.Hour

// connectionFaults happen to connections and to time: nobody there, nobody reading, an answer that
// never comes or drips.
var connectionFaults = []fault{
	{
		name: "refuse", text: "closes the connection with a RST as soon as it is accepted (asked for by a request: after it is read)",
		accept: func(c *conn) { c.reset() },
		twist:  func(t *misbehaviour, _ *args) { t.take = func(x *exchange) { x.broken = true; x.c.reset() } },
	},
	{
		name: "noread", text: "accepts and never reads, with a small receive window (asked for by a request: as blackhole)",
		accept: func(c *conn) {
			if tc, ok := c.nc.(*net.TCPConn); ok {
				_ = tc.SetReadBuffer(4096)
			}
			c.park()
		},
		twist: func(t *misbehaviour, _ *args) { t.hold = true },
	},
	{
		name: "reset-before", text: "RST after the request, before a byte",
		twist: func(t *misbehaviour, _ *args) { t.take = func(x *exchange) { x.broken = true; x.c.reset() } },
	},
	{
		name: "eof-before", text: "FIN after the request, before a byte",
		twist: func(t *misbehaviour, _ *args) { t.take = func(x *exchange) { x.broken = true; x.c.close() } },
	},
	{
		name: "blackhole", text: "reads the request, takes a slot, never answers",
		twist: func(t *misbehaviour, _ *args) { t.hold = true },
	},
	{
		name: "wedge", usage: "[=DURATION]", text: "from here on no token and no answer of the whole engine, for so long or until a reset; health is 200, counters stand still",
		twist: func(t *misbehaviour, a *args) { t.wedge = a.span(forGood) },
	},
	{
		name: "slow-health", usage: "[=3s]", text: "every page takes so long (health, models, metrics), inference does not", pages: true,
		twist: func(t *misbehaviour, a *args) { t.delay = a.span(3 * time.Second) },
	},
	{
		name: "long-prefill", usage: "[=150s][;chunks=1]", text: "the first token takes so long; counters move at the end of each of so many chunks of the prompt",
		twist: func(t *misbehaviour, a *args) {
			t.prefill, t.chunks = a.span(150*time.Second), max(1, a.num("chunks", 1))
		},
	},
	{
		name: "early-413", usage: "[;linger=1]", text: "answers 413 before the body is read and closes (RST if unread bytes came); linger: FIN, then discards for 2 s",
		twist: func(t *misbehaviour, a *args) {
			linger := a.flag("linger")
			t.head = func(x *exchange) bool {
				x.closing = true
				x.e.counters.rejected.Add(1)
				x.fail(profile.APIError{Status: 413, Message: statusText(413)})
				if tc, ok := x.c.nc.(*net.TCPConn); ok && linger {
					_ = tc.CloseWrite()
					_ = tc.SetReadDeadline(time.Now().Add(2 * time.Second))
					_, _ = io.Copy(io.Discard, tc)
				}
				x.c.close()
				return true
			}
		},
	},
	{
		name: "slow-header", usage: "[;gap=100ms]", text: "the head comes a byte at a time",
		twist: func(t *misbehaviour, a *args) { t.dripHead = a.duration("gap", 100*time.Millisecond) },
	},
	{
		name: "slow-body", usage: "[;gap=100ms]", text: "the body comes a byte at a time",
		twist: func(t *misbehaviour, a *args) { t.dripBody = a.duration("gap", 100*time.Millisecond) },
	},
}
