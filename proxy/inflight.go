package proxy

import (
	"time"

	"penstock/proxy/listen"
	"penstock/proxy/observe"
	"penstock/proxy/status"
)

// The status page may read a running call at any time. publicState is written before the connection
// knows the call and never again; members of Call that change later are atomic.

// publicState is the part that does not change.
type publicState struct {
	id                        observe.ID
	start                     time.Time
	key, dialect, model, pool string
	stream                    bool
}

// The phases by address, so that entering one is a store and nothing else.
var (
	phaseQueued    = observe.PhaseQueued
	phaseWaiting   = observe.PhaseWaiting
	phaseStreaming = observe.PhaseStreaming
)

// publishState fills in c.public. Call it before the connection knows the call.
func (c *Call) publishState() {
	copy(c.public.id[:], c.id)
	r := &c.record
	c.public.start, c.public.key, c.public.dialect, c.public.model, c.public.pool, c.public.stream = r.Start, r.Key, r.Dialect, r.Model, r.Pool, r.Stream
}

// setPhase sets the call's phase in its record and for the status page.
func (c *Call) setPhase(p *observe.Phase) {
	c.record.Phase = *p
	c.phase.Store(p)
}

// noteOverhead computes the time that the edge itself took before the first byte of the answer:
// everything but waiting for the client's body, for a slot and for engines. An upload is sent to
// its engine while it arrives, so its overhead cannot be measured.
func (c *Call) noteOverhead(now time.Time) {
	if c.upload != nil {
		return
	}
	heard := c.attempt.readAt
	if c.record.Stream && !c.attempt.begun {
		heard = now // committed without an event
	}
	c.record.Overhead = now.Sub(c.record.Start) - c.bodyWait - c.record.Queue - c.awaited - heard.Sub(c.asked)
}

// callsInFlight returns the calls that run now and have been resolved.
func callsInFlight(clients *listen.Listener, now time.Time) (out []status.Call) {
	clients.EachWaiter(func(w listen.Waiter) {
		c := w.(*Call)
		s := &c.public
		row := status.Call{
			ID: s.id.String(), Start: s.start, Key: s.key, Dialect: s.dialect, Model: s.model, Pool: s.pool, Stream: s.stream,
			State: string(observe.PhaseBody), Duration: status.Millis(now.Sub(s.start)),
		}
		if p := c.phase.Load(); p != nil {
			row.State = string(*p)
		}
		if u := c.target.Load(); u != nil {
			row.Upstream = u.Label()
		}
		if first := c.firstAt.Load(); first != 0 {
			row.TTFT = status.Millis(time.Unix(0, first).Sub(s.start))
		}
		out = append(out, row)
	})
	return out
}
